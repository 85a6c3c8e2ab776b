"""`connect topics import` is killed again and again: each connector is there as a whole, or not at all."""

from __future__ import annotations

import json
import subprocess

import pytest

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.model import TargetState, TopicPartition
from kit.cli import cli_env, cli_run, connect_command
from kit.pace import ended
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

# So many that whoever watches an import kills it in its midst, nearly each time
CONNECTORS = 200
TASKS = 5
TRIES = 5
# connector, target state, tasks and commit: what one connector writes
RECORDS = TASKS + 3


def document():
    names = [f"c{number}" for number in range(CONNECTORS)]
    return {
        "format": "kconnect-topics",
        "version": 1,
        "connectors": [
            {
                "name": name,
                "target_state": "PAUSED",
                "config": {"connector.class": "FileStreamSource", "name": name, "tasks.max": str(TASKS)},
                "tasks": [{"file": f"/{name}/{number}"} for number in range(TASKS)],
            }
            for name in names
        ],
        "offsets": {
            name: {"offsets": [{"partition": {"filename": f"/{name}"}, "offset": {"position": 7}}]} for name in names
        },
    }


def test_a_killed_import_leaves_whole_connectors_and_is_completed_by_the_next(broker, tmp_path, home):
    file = tmp_path / "state.json"
    file.write_text(json.dumps(document()))
    for number in range(TRIES):
        folder = tmp_path / str(number)
        folder.mkdir()
        with WrittenCluster(broker.bootstrap, folder) as cluster, ClusterReader(cluster.access) as reader:
            command = ["topics", "import", str(file), "--yes", "--worker", str(cluster.worker_file)]
            if not killed_in_its_midst(reader, cluster, command, home):
                continue  # whoever watches it lost the core for long enough that it was done
            cli_run(*command, home=home, expect=0)
            snapshot = reader.configs().snapshot
            assert len(snapshot.connectors) == CONNECTORS
            assert snapshot.offset == CONNECTORS * RECORDS, "what was there is not written again"
            return
    pytest.fail(f"of {TRIES} imports none was killed before it was done")


def killed_in_its_midst(reader, cluster, command, home):
    """Kill imports, and look at what each leaves; whether one of them was killed before all was written."""
    place = TopicPartition(cluster.access.topic(InternalTopic.CONFIG), 0)
    seen = [0]
    for _ in range(3):
        importing = subprocess.Popen(
            ["nice", "-n", "19", *connect_command(), *command],  # who watches it has the core first
            env=cli_env(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(
                lambda: reader.admin.log_offsets([place], "end", 20)[place] > seen[-1],
                60,
                "the import writes",
                pause_s=0.002,
            )
        finally:
            importing.kill()
            ended(importing, 10)
        snapshot = reader.configs().snapshot
        for name in snapshot.connectors:
            assert snapshot.target_state(name) is TargetState.PAUSED
            assert len(snapshot.task_configs[name]) == TASKS
        assert snapshot.inconsistent == frozenset()
        assert snapshot.offset == len(snapshot.connectors) * RECORDS, "nothing of any other connector is there"
        assert len(reader.offsets().entries) == CONNECTORS, "offsets come before what starts from them"
        seen.append(snapshot.offset)
        if snapshot.offset == CONNECTORS * RECORDS:
            break
    return any(0 < offset < CONNECTORS * RECORDS for offset in seen)

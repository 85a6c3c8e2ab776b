"""A worker that stands still while its group goes on without it: what it writes when it wakes covers nothing.

Real worker processes: one is frozen (SIGSTOP), the other takes its work over, the broker is killed, the frozen one
wakes in the outage. Then every reader agrees with what really runs: both workers, and the last records of the topic.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.group.live_group import live_group
from kconnect.admin.direct.group.other_groups import owners_of
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.model import RunState, TaskId
from kconnect.runtime.storage.status_topic import StatusRead, StoredStatus, Subject, decode_record
from kit.brokers import PatientBroker
from kit.chaos.service import Service
from kit.distributed_worker import cluster_settings
from kit.standalone import STRING_CONVERTERS
from kit.topics import create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(900)]

NAMES = ("one", "two")
TASKS = 2
WITHIN_S = 120.0
AGREED_FOR = 5
"""Looks, half a second apart: what comes late comes within a second or two of the broker's return."""


def ask(url: str, method: str = "GET", body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)
    except (urllib.error.HTTPError, OSError) as err:
        raise AssertionError(f"{url}: {err}") from err


class Pair:
    """Two workers of one group, as processes."""

    def __init__(self, folder: Path, broker: PatientBroker) -> None:
        self.broker = broker
        self.topic = f"numbers-{folder.name}"  # the broker is others' as well
        self.settings = {
            "bootstrap.servers": broker.bootstrap,
            **STRING_CONVERTERS,
            **cluster_settings(folder.name),
            # A frozen worker is out of the group after this. The outage is shorter: the other one keeps its work
            "session.timeout.ms": "4000",
            "heartbeat.interval.ms": "1000",
            "kconnect.slots": "1",
        }
        self.workers = [Service(folder, number, self.settings) for number in range(2)]

    def create(self) -> None:
        create_topic(self.broker.bootstrap, self.topic)
        for name in NAMES:
            config = {
                "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
                "tasks.max": str(TASKS),
                "topic": self.topic,
                "throughput": "20",
            }

            def put(name: str = name, config: dict[str, str] = config) -> Any:
                """Again while the group is in a rebalance, such as that of the second worker's arrival."""
                return ask(f"{self.workers[0].url}/connectors/{name}/config", "PUT", config)

            eventually(put, WITHIN_S, f"{name} is created")

    def shown_by(self, worker: Service) -> dict[Subject, tuple[str, str]]:
        """State and worker of every connector and task, as one worker's REST tells."""
        shown: dict[Subject, tuple[str, str]] = {}
        for name in NAMES:
            body = ask(f"{worker.url}/connectors/{name}/status")
            shown[name] = (body["connector"]["state"], body["connector"]["worker_id"])
            shown |= {TaskId(name, task["id"]): (task["state"], task["worker_id"]) for task in body["tasks"]}
        return shown

    def last_records(self) -> dict[Subject, tuple[str, str]]:
        """The same as the last records tell: what Java's workers and people with a console consumer take for true."""
        last: dict[Subject, tuple[str, str]] = {}
        with ClusterReader(ClusterAccess(self.settings)) as reader:
            for record in reader.records(InternalTopic.STATUS):
                event = decode_record(record.key, record.value)
                if isinstance(event, StatusRead) and isinstance(event.status, StoredStatus):
                    last[event.subject] = (str(event.status.state), event.status.worker_id)
        return last

    def really_runs(self) -> dict[Subject, tuple[str, str]]:
        """What each worker's slots have, and what the group has assigned."""
        found: dict[Subject, tuple[str, str]] = {}
        for worker in self.workers:
            if not worker.is_frozen:
                of_worker = ("RUNNING", worker.url.removeprefix("http://"))
                tasks = [task for slot in ask(f"{worker.url}/admin/slots") for task in slot["tasks"]]
                found |= {TaskId(task["connector"], task["task"]): of_worker for task in tasks}
        owners = owners_of(live_group(ClusterAccess(self.settings)))
        return found | {name: ("RUNNING", owner) for name, owner in owners.items() if isinstance(name, str)}

    def await_agreement(self, why: str, on: Sequence[Service] = ()) -> dict[Subject, tuple[str, str]]:
        """Wait until all readers tell what really runs, and go on to tell it; `on`: until these workers, and no other,
        run it.
        """
        owners = {worker.url.removeprefix("http://") for worker in on}
        agreed = 0

        def agree() -> dict[Subject, tuple[str, str]] | None:
            nonlocal agreed
            before, agreed = agreed, 0
            runs = self.really_runs()
            assert len(runs) == len(NAMES) * (1 + TASKS), runs
            assert not owners or {owner for _, owner in runs.values()} == owners, runs
            for worker in self.workers:
                if not worker.is_frozen:
                    assert self.shown_by(worker) == runs, worker.name
            assert self.last_records() == runs, "the last records"
            agreed = before + 1
            return runs if agreed >= AGREED_FOR else None

        return eventually(agree, WITHIN_S, why, pause_s=0.5)


def test_what_a_frozen_worker_writes_when_it_wakes_in_an_outage_covers_no_status(
    own_broker: PatientBroker, tmp_path: Path
) -> None:
    """Frozen alone, and then with its slots."""
    with ExitStack() as stack:
        pair = Pair(tmp_path, own_broker)
        for worker in pair.workers:
            worker.start()
            stack.callback(worker.stop)
        for worker in pair.workers:
            worker.await_healthy(WITHIN_S)
        pair.create()
        for whole in (False, True):
            freeze_and_wake_in_an_outage(pair, own_broker, whole=whole)


def freeze_and_wake_in_an_outage(pair: Pair, broker: PatientBroker, *, whole: bool) -> None:
    frozen = "the worker and its slots" if whole else "the worker"
    pair.await_agreement(f"all runs, on both workers, before {frozen} is frozen", on=pair.workers)

    victim, other = pair.workers
    assert victim.freeze(whole=whole)
    pair.await_agreement(f"the other worker has taken over from {frozen}", on=[other])

    broker.kill()
    victim.thaw()
    broker.start()
    for worker in pair.workers:
        worker.await_healthy(WITHIN_S)
    last = pair.await_agreement(f"all that reads statuses tells what runs, behind the wake of {frozen}")
    assert {state for state, _ in last.values()} == {str(RunState.RUNNING)}

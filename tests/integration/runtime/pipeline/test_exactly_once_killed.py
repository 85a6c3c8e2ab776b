"""An exactly-once task whose process is killed (-9) in the middle of transactions: nothing is lost, nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kconnect.java.devbroker import DevBroker
from kit.committed_offsets import CommittedOffsets, committed_store
from kit.numbered_source import NUMBERED, exactly_once_host
from kit.pace import ended
from kit.places import TESTS
from kit.topics import committed_values, create_topic, end_offset
from kit.waiting import eventually

pytestmark = pytest.mark.broker

OFFSETS = "eos-killed-offsets"


def await_end(bootstrap: str, topic: str, end: int) -> None:
    eventually(lambda: end_offset(bootstrap, topic) > end, 20, "it writes", pause_s=0.01)


def test_a_process_killed_again_and_again_loses_nothing_and_writes_nothing_twice(broker: DevBroker, topic: str) -> None:
    create_topic(broker.bootstrap, OFFSETS, config={"cleanup.policy": "compact"})
    command = [sys.executable, "-m", "kit.numbered_source", broker.bootstrap, OFFSETS, topic, "numbers"]
    env = {**os.environ, "PYTHONPATH": str(TESTS)}
    for _ in range(3):
        before = end_offset(broker.bootstrap, topic)
        process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "started\n"
            await_end(broker.bootstrap, topic, before + 2_000)
        finally:
            process.kill()
            ended(process, 10)
            process.stdout.close()
    # The start of the next run ends what the last one left open
    with committed_store(broker.bootstrap, OFFSETS) as store:
        offsets = CommittedOffsets(store, store)
        with exactly_once_host(broker.bootstrap, offsets, OFFSETS) as host:
            spec = host.start_source("numbers", NUMBERED, topic=topic)
            host.await_count(spec, "commits", 1)
            host.stop(spec)
        [committed] = offsets.of("numbers")
    assert committed is not None
    wanted = [f"0:{number}".encode() for number in range(committed["next"])]

    def all_there() -> bool:
        """The mark that ends a transaction comes a moment after the commit has returned."""
        values = committed_values(broker.bootstrap, topic)
        assert values == wanted, f"{len(values)} of {len(wanted)}: {values[-3:]}"
        return True

    eventually(all_there, 20, "each number is there once")
    assert len(wanted) > 3 * 1_000

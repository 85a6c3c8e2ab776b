"""Offsets in transactions of their own: they are written again after all brokers were away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import TopicPartition
from kconnect.runtime.kafka import CommittedOffset
from kit.fenced_writer import CLAIM_S, writer
from kit.pace import ended
from kit.places import TESTS
from kit.topics import create_topic, topic_for

pytestmark = pytest.mark.broker


def test_after_all_brokers_were_away_offsets_are_written_and_a_client_that_waits_for_ever_is_left_in_time(
    own_broker: DevBroker, request: pytest.FixtureRequest
) -> None:
    topic, bootstrap = topic_for(request), own_broker.bootstrap
    create_topic(bootstrap, topic)
    at = TopicPartition(topic, 0)
    # It comes first: the broker makes the topics of groups and transactions, not within the 3 s of the one that hangs
    patient = writer(bootstrap, f"{topic}-patient")
    try:
        assert patient.write({at: CommittedOffset(1, "before")}, lambda: False)
        assert patient.await_settled([at], lambda: False)  # what Kafka knows of until then may be forgotten
        with program(bootstrap, topic, topic) as (hung, said, tell):
            assert said.readline() == "written\n"
            own_broker.kill()
            own_broker.start()
            assert patient.write({at: CommittedOffset(2, "after")}, lambda: False)
            assert patient.read([at], CLAIM_S) == {at: CommittedOffset(2, "after")}
            tell.write("again\n")
            tell.flush()
            assert said.readline().startswith("Offsets cannot be added to a transaction within 3 s")
            assert ended(hung, 20) == 0  # the call that hangs keeps nothing from ending
    finally:
        patient.close()
    follower = writer(bootstrap, topic)
    try:
        assert follower.read([at], CLAIM_S) == {at: CommittedOffset(1, "before")}
        assert follower.write({at: CommittedOffset(3, "by another")}, lambda: False)
    finally:
        follower.close()


@contextmanager
def program(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """kit.fenced_writer in a process of its own, what it says, and what it is reported."""
    with subprocess.Popen(
        [sys.executable, "-m", "kit.fenced_writer", *arguments],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process, process.stdout, process.stdin
        finally:
            process.kill()

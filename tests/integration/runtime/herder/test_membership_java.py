"""Real Java workers and a member of ours in one group: both ways of leading."""

from __future__ import annotations

import uuid

import pytest

from kconnect.runtime.herder.assignment.protocol import decode_assignment
from kconnect.runtime.herder.group.description import describe_group
from kconnect.runtime.herder.membership import Lost
from kit.group_members import Member, is_settled
from kit.java_connect import JavaConnect
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]


def test_java_leads_our_member_and_follows_it_after_a_restart(broker, tmp_path):
    group = f"mixed-{uuid.uuid4().hex[:8]}"
    source = tmp_path / "lines.txt"
    source.write_text("one\n")
    settings = {
        "group.id": group,
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "0",
    }
    java = JavaConnect(tmp_path / "java", broker.bootstrap, mode="distributed", worker=settings)
    connector = {
        "name": "lines",
        "config": {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(source),
            "topic": f"{group}-lines",
        },
    }
    try:
        java.start()
        eventually(lambda: is_settled(broker.bootstrap, group, 1), 30, "the Java worker is in its group")
        assert java.request("POST", "/connectors", connector)[0] == 201
        java.await_running("lines")

        # What runs stays known to the member by what Java tells; it starts nothing itself
        with Member(broker.bootstrap, group, "ours", shared=("lines",)) as ours:
            ours.await_assigned(within_s=30)
            eventually(lambda: not ours.leads and is_settled(broker.bootstrap, group, 2), 30, "Java leads both")
            last = ours.last_assigned().assignment
            assert last.leader_url == f"{java.url}/"
            assert (last.version, ours.member.protocol_version) == (2, 2)
            assert last.offset > 0

            java.stop()
            eventually(lambda: ours.leads, 30, "ours leads, alone")
            assert not ours.all(Lost)
            assert "lines" in ours.owned.work.connectors
            ours.owned = None  # as if it had failed to run it: it is free for the next one that comes

            java.start(ready=False)
            eventually(lambda: is_settled(broker.bootstrap, group, 2), 60, "the Java worker follows")
            shown = describe_group({"bootstrap.servers": broker.bootstrap}, group, 10.0)
            (theirs,) = (one for one in shown.members if one.id != ours.member.member_id)
            given = decode_assignment(theirs.assignment)
            assert given is not None
            assert given.leader == ours.member.member_id
            assert given.leader_url == "http://ours/"
            assert given.work.connectors == ("lines",)
            eventually(lambda: connector_state(java) == "RUNNING", 30, "Java runs what ours gave it")
    finally:
        java.stop()


def connector_state(java):
    status, body = java.request("GET", "/connectors/lines/status")
    assert status == 200, str(body)
    return body["connector"]["state"]

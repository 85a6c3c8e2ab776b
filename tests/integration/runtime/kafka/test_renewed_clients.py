"""Clients that are made anew under what uses them: nothing is lost, given twice or out of order, and nobody waits."""

from __future__ import annotations

import pytest

from kconnect.errors import TimedOutError, UnreachableError
from kconnect.model import LogPosition
from kconnect.runtime.config.client_config import InternalClients
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, KafkaExclusiveWriter, LogSpec
from kconnect.runtime.kafka.log_sender import LogSender
from kit.ports import free_port
from kit.topics import consume_values
from kit.waiting import eventually

pytestmark = pytest.mark.broker

_WITHIN_S = 60.0


@pytest.fixture
def nobody() -> dict[str, object]:
    """Settings of a client whom no broker answers."""
    return {"bootstrap.servers": f"127.0.0.1:{free_port()}", "log_level": 2}


def test_what_one_client_could_not_deliver_another_delivers_in_order(broker, topic, nobody) -> None:
    sender = LogSender(topic, nobody, is_idempotent=False)
    sender.start()
    try:
        sent = [sender.send(b"k", b"%d" % number) for number in range(100)]
        sender.renew({"bootstrap.servers": broker.bootstrap})
        sent += [sender.send(b"k", b"%d" % number) for number in range(100, 200)]

        assert [done.result(_WITHIN_S) for done in sent] == [LogPosition(topic, 0, number) for number in range(200)]
        assert sender.flush(_WITHIN_S)
    finally:
        sender.stop(_WITHIN_S)
    assert consume_values(broker.bootstrap, topic, 200) == [b"%d" % number for number in range(200)]


def test_who_sends_from_a_callback_may_do_so_while_the_client_is_replaced(broker, topic, nobody) -> None:
    sender = LogSender(topic, {**nobody, "message.timeout.ms": 200, "retries": 0}, is_idempotent=False)
    sender.start()
    try:
        again = []
        sender.send(b"k", b"lost").add_done_callback(lambda _: again.append(sender.send(b"k", b"again")))
        sender.renew({"bootstrap.servers": broker.bootstrap})
        eventually(lambda: again, _WITHIN_S, "the first record has failed")
        assert again[0].result(_WITHIN_S).offset == 0
    finally:
        sender.stop(_WITHIN_S)


def test_a_log_reads_and_writes_on_by_clients_of_other_settings(broker, topic) -> None:
    client = {"bootstrap.servers": broker.bootstrap}
    now = [InternalClients(client, client, client)]
    made: list[object] = []
    given: list[bytes | None] = []
    with KafkaAdmin(client, "test", renewed=lambda: now[0].admin) as admin:
        spec = LogSpec(topic=topic, consumer=client, producer=client, renewed=lambda: now[0])
        log = CompactedLog(spec, admin)
        log.start(lambda record: given.append(record.value))
        try:
            for round in range(3):
                made.append(log._reader)
                log.send(b"k", b"before %d" % round).result(_WITHIN_S)
                fresh = {**client, "client.id": f"another-{round}"}
                now[0] = InternalClients(fresh, fresh, fresh)
                log.send(b"k", b"at once %d" % round).result(_WITHIN_S)
                eventually(lambda: log._reader not in made, _WITHIN_S, "another client reads")
                log.send(b"k", b"after %d" % round).result(_WITHIN_S)
                log.read_to_end(_WITHIN_S)
        finally:
            log.stop()
    assert given == [b"%s %d" % (when, round) for round in range(3) for when in (b"before", b"at once", b"after")]


def test_an_admin_client_asks_by_another_once_its_settings_are_others(broker, nobody) -> None:
    now: list[dict[str, object]] = [nobody]
    with KafkaAdmin(nobody, "test", renewed=lambda: now[0]) as admin:
        with pytest.raises((TimedOutError, UnreachableError)):
            admin.topic_names(1.0)
        now[0] = {"bootstrap.servers": broker.bootstrap}
        assert admin.cluster_id(_WITHIN_S)


def test_the_right_to_write_is_claimed_again_by_a_client_of_other_settings(broker, topic, nobody) -> None:
    now: list[dict[str, object]] = [{"bootstrap.servers": broker.bootstrap}]
    writer = KafkaExclusiveWriter(topic, now[0], topic, renewed=lambda: now[0])
    try:
        writer.claim(_WITHIN_S)
        writer.write([(b"k", b"before")], _WITHIN_S)
        now[0] = {"bootstrap.servers": broker.bootstrap, "client.id": "another"}
        writer.write([(b"k", b"after")], _WITHIN_S)
        now[0] = nobody
        with pytest.raises(TimedOutError):
            writer.write([(b"k", b"never")], 1.0)
    finally:
        writer.stop()
    assert consume_values(broker.bootstrap, topic, 2) == [b"before", b"after"]

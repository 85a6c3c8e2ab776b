"""What a broker does not allow is reported as a right that lacks, with a line for Kafka's own tool that grants it."""

from __future__ import annotations

import shlex
from collections.abc import Callable

import pytest

from kconnect.errors import ConnectError
from kconnect.runtime.config.client_config import admin_config, consumer_config, producer_config
from kconnect.runtime.herder.offsets.group_offset_fetch import fetch_group_offsets
from kconnect.runtime.kafka.admin import KafkaAdmin, TopicInfo
from kconnect.runtime.kafka.atomic_writers import KafkaExclusiveWriter
from kconnect.runtime.kafka.consumer import RecordConsumer
from kconnect.runtime.kafka.delivery import DeliveryFailure
from kconnect.runtime.kafka.produced_records import KafkaRecord
from kconnect.runtime.kafka.producer import RecordProducer
from kit.group_members import ListensToNothing
from kit.guarded_broker import login_of
from kit.java_finding import kafka_tool
from kit.shared_broker import SharedBroker
from kit.waiting import eventually

pytestmark = pytest.mark.broker

USER = "newcomer"
WITHIN_S = 60.0


def denied(what: Callable[[], object]) -> ConnectError:
    """Do it until the broker says that it may not be done."""

    def seen() -> ConnectError | None:
        try:
            what()
        except ConnectError as err:
            return err
        return None

    return eventually(seen, WITHIN_S, "the broker refuses it")


def grant(broker: SharedBroker, error: ConnectError) -> None:
    """Run the line that the hint gives, on the listener where everything is allowed."""
    lead, _, line = (error.hint or "").partition(": ")
    assert lead == "Grant it"
    tool, *arguments = shlex.split(line)
    assert (tool, arguments[:2]) == ("kafka-acls", ["--bootstrap-server", broker.guarded])
    kafka_tool("AclCommand", "--bootstrap-server", broker.bootstrap, *arguments[2:])


def test_a_sink_and_its_offsets_name_group_and_topic_and_the_lines_let_it_read(
    broker: SharedBroker, topic: str
) -> None:
    write_one(broker, topic)
    worker = {"bootstrap.servers": broker.guarded, **{f"consumer.{key}": value for key, value in login(broker).items()}}
    group = f"connect-{topic}"
    settings, _ = consumer_config(worker, {}, client_id="c", group_id=group)
    shown = denied(lambda: fetch_group_offsets(login(broker), group, 10, timeout_setting="x"))
    assert f"User:{USER} lacks DESCRIBE on group {group}" in str(shown)
    for right in (f"READ on group {group}", f"READ on topic {topic}"):
        consumer = RecordConsumer(settings, "c")
        consumer.subscribe([topic], ListensToNothing())
        error = denied(lambda consumer=consumer: consumer.fetch(10, 0.1))
        assert f": User:{USER} lacks {right}." in str(error)
        consumer.close()
        grant(broker, error)
    consumer = RecordConsumer(settings, "c")
    consumer.subscribe([topic], ListensToNothing())
    eventually(lambda: consumer.fetch(10, 0.1), WITHIN_S, "the record is read")
    consumer.close()


def test_a_source_names_the_topic_that_it_may_not_create_and_write_and_the_lines_let_it(
    broker: SharedBroker, topic: str
) -> None:
    worker = {"bootstrap.servers": broker.guarded}
    own = {f"{kind}.{key}": value for kind in ("admin", "producer") for key, value in login(broker).items()}
    settings, _ = admin_config({**worker, **own}, {}, client_id="a")
    with KafkaAdmin(settings, "a") as admin:
        new = TopicInfo(f"{topic}-new", 1, 1)
        error = denied(lambda: admin.create_topic(new, 10))
        assert f": User:{USER} lacks CREATE on topic {topic}-new." in str(error)
        grant(broker, error)
        eventually(lambda: done(lambda: admin.create_topic(new, 10)), WITHIN_S, "it may be created")
        assert "DESCRIBE_CONFIGS" in str(denied(lambda: admin.topic_configs(topic, 10)))
        hidden = denied(lambda: admin.describe_topics([topic, f"{topic}-too"], 10, right="READ"))
        assert f": User:{USER} lacks READ on topic {topic} and READ on topic {topic}-too." in str(hidden)
        unmade = TopicInfo(f"{topic}-letters", 1, 1)
        error = denied(lambda: admin.has_topic(unmade, 10))
        lacking = f"WRITE on topic {topic}-letters and CREATE on topic {topic}-letters"
        assert f"nor created if it does not exist: Topic authorization failed: User:{USER} lacks {lacking}." in str(
            error
        )
        grant(broker, error)
        eventually(lambda: done(lambda: admin.has_topic(unmade, 10)), WITHIN_S, "it may be seen")
        assert not admin.has_topic(unmade, 10)
        admin.create_topic(unmade, 10)
        eventually(lambda: admin.has_topic(unmade, 10), WITHIN_S, "it is there")
    clients, _ = producer_config({**worker, **own}, {}, client_id="p")
    error = denied(lambda: write(clients, topic))
    assert f": User:{USER} lacks WRITE on topic {topic}." in str(error)
    grant(broker, error)
    eventually(lambda: done(lambda: write(clients, topic)), WITHIN_S, "it may be written")
    writer = KafkaExclusiveWriter(topic, clients, f"{topic}-leader")
    error = denied(lambda: writer.claim(10))
    assert f"WRITE on transactional id {topic}-leader" in str(error)
    grant(broker, error)
    eventually(lambda: done(lambda: writer.claim(10)), WITHIN_S, "the right can be claimed")
    writer.stop()


def login(broker: SharedBroker) -> dict[str, str]:
    return {"bootstrap.servers": broker.guarded, **login_of(USER)}


def done(what: Callable[[], object]) -> bool:
    """Whether it may be done now: the broker judges by its own copy of the rules, which has them a moment later."""
    try:
        what()
    except ConnectError as err:
        raise AssertionError(str(err)) from err
    return True


def write_one(broker: SharedBroker, topic: str) -> None:
    write({"bootstrap.servers": broker.bootstrap}, topic)


def write(settings: dict[str, object], topic: str) -> None:
    """One record. Errors: ConnectError, as its delivery tells it."""
    refused: list[ConnectError] = []

    def note(failure: DeliveryFailure) -> bool:
        refused.append(failure.error)
        return False

    producer = RecordProducer(settings, "p")
    try:
        ended: list[bool] = []
        delivery = producer.delivery(ended.append, note)
        assert producer.send(KafkaRecord(topic, value=b"v"), delivery, lambda: False)
        delivery.complete()
        del delivery

        def is_over() -> bool:
            producer.serve(0.1)
            return bool(ended)

        eventually(is_over, WITHIN_S, "the record has ended")
    finally:
        producer.close()
    if refused:
        raise refused[0]

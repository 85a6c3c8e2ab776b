"""What `connect check` reads of a worker's file: values, names, references, and who the worker is to the brokers."""

from __future__ import annotations

from pathlib import Path

from kconnect.admin.preflight.brokers import client_identities
from kconnect.admin.preflight.results import Result, Verdict
from kconnect.admin.preflight.settings import WorkerStart
from kconnect.logs import redaction

_JSON = "org.apache.kafka.connect.json.JsonConverter"
WORKER = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": _JSON,
    "value.converter": _JSON,
}
SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": "x"}


def read(**changes: str | None) -> tuple[WorkerStart, list[Result]]:
    given = WORKER | {key.replace("_", "."): value for key, value in changes.items()}
    start = WorkerStart({key: value for key, value in given.items() if value is not None}, "w.properties")
    try:
        return start, list(start.read(5))
    finally:
        redaction.forget("worker")


def test_good_settings_are_one_line() -> None:
    start, found = read()
    assert [(one.verdict, one.message) for one in found] == [(Verdict.OK, "7 settings of a distributed worker")]
    assert start.config is not None


def test_a_file_without_a_group_that_names_an_offsets_file_is_a_standalone_workers() -> None:
    changes = {"group_id": None, "config_storage_topic": None, "offset_storage_topic": None}
    start, found = read(**changes, status_storage_topic=None, offset_storage_file_filename="f")
    assert (start.kind, [one.verdict for one in found]) == ("standalone", [Verdict.OK])


def test_a_missing_setting_is_named_with_the_file_to_correct() -> None:
    start, (found,) = read(group_id=None)
    assert found.verdict is Verdict.FAILED
    assert "group.id" in found.message
    assert "w.properties" in (found.hint or "")
    assert start.config is None


def test_an_unknown_setting_is_a_warning_and_a_slip_gets_the_name_that_was_meant() -> None:
    _, found = read(heartbeat_intervall_ms="1", nonsense="1")
    assert [(one.verdict, one.message, one.hint) for one in found[1:]] == [
        (Verdict.WARNING, "Unknown setting: heartbeat.intervall.ms", "Did you mean heartbeat.interval.ms?"),
        (Verdict.WARNING, "Unknown setting: nonsense", "Remove it from w.properties."),
    ]


def test_a_client_of_tasks_that_cannot_be_built_is_reported_with_its_setting() -> None:
    _, found = read(consumer_group_protocol="consumer", consumer_session_timeout_ms="9000")
    assert [(one.verdict, one.message) for one in found[1:]] == [
        (
            Verdict.FAILED,
            "consumer.session.timeout.ms: session.timeout.ms cannot be set when group.protocol=CONSUMER",
        )
    ]
    _, found = read(producer_acks="1", producer_enable_idempotence="true", consumer_group_protocol="consumer")
    assert [(one.verdict, one.message.partition(": ")[0]) for one in found[1:]] == [(Verdict.FAILED, "producer.acks")]


def test_a_removed_setting_is_a_warning_with_what_to_write_instead() -> None:
    _, found = read(rest_port="8084")
    assert [(one.verdict, one.message, one.hint) for one in found[1:]] == [
        (
            Verdict.WARNING,
            "rest.port has no effect: Kafka has removed it",
            "Use listeners, such as listeners=http://:PORT.",
        )
    ]


def test_two_topics_that_are_one_and_a_converter_that_does_not_exist_fail() -> None:
    _, found = read(status_storage_topic="c")
    assert "both config.storage.topic and status.storage.topic" in found[-1].message
    _, (found_class,) = read(key_converter="no.such.Converter")
    assert "no.such.Converter" in found_class.message


def test_references_are_resolved_and_one_that_cannot_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("password=opensesame\n")
    provider = {
        "config_providers": "file",
        "config_providers_file_class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    start, found = read(**provider, ssl_key_password=f"${{file:{tmp_path}/s.properties:password}}")
    assert start.properties["ssl.key.password"] == "opensesame"
    assert (found[0].check, found[0].message) == ("config providers", "file: all references resolved")
    _, found = read(**provider, ssl_key_password=f"${{file:{tmp_path}/s.properties:other}}")
    assert found[0].verdict is Verdict.FAILED
    assert "'other'" in found[0].message
    _, found = read(ssl_key_password="${file:/x:y}")
    assert found[0].message == "config.providers is not set: ssl.key.password keep their ${..} as text"


def test_clients_with_one_security_are_one_and_those_of_tasks_do_not_take_the_workers() -> None:
    def names(worker: dict[str, str]) -> list[tuple[str, ...]]:
        return [one.names for one in client_identities(worker, is_distributed=True)]

    assert names(WORKER) == [("worker", "admin", "producer", "consumer")]
    assert names(WORKER | SCRAM) == [("worker", "admin"), ("producer", "consumer")]
    everywhere = {f"{prefix}{key}": value for key, value in SCRAM.items() for prefix in ("", "producer.", "consumer.")}
    assert names(WORKER | everywhere) == [("worker", "admin", "producer", "consumer")]
    assert names(WORKER | {"producer.bootstrap.servers": "other:1"}) == [
        ("worker", "admin", "consumer"),
        ("producer",),
    ]


def test_a_standalone_worker_has_no_client_of_a_group() -> None:
    assert [one.names for one in client_identities(WORKER, is_distributed=False)] == [("admin", "producer", "consumer")]

"""`connect check` beside a real broker with rules: what its principal may do, what is wrong with topics."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AclOperation, AdminClient, NewTopic, ResourceType

from kconnect.admin.preflight.checks import check_start
from kconnect.admin.preflight.results import Result, Verdict
from kconnect.runtime.config import load_connector_file
from kit.guarded_broker import add_rules, login_of, password_of
from kit.pace import ample_s
from kit.ports import free_port
from kit.shared_broker import SharedBroker
from kit.waiting import eventually

pytestmark = pytest.mark.broker

USER = "checker"
ME = f"User:{USER}"
SEES = ("READ", "WRITE", "DESCRIBE_CONFIGS")
LOGIN, PASSWORD = login_of(USER), password_of(USER)


class Place:
    """The broker; `admin` may do everything. It is shared: names of topics and groups begin with `checked-`."""

    def __init__(self, plain: str, port: int) -> None:
        self.plain, self.port = plain, port
        self.admin = AdminClient({"bootstrap.servers": plain, "log_level": 2})

    def make(self, name: str, partitions: int = 1, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        self.admin.create_topics([NewTopic(name, partitions, 1, config=settings)])[name].result(ample_s(30))
        eventually(lambda: name in self.topics(), 30, f"topic {name} is known")

    def topics(self) -> set[str]:
        return {name for name in self.admin.list_topics(timeout=ample_s(10)).topics if name.startswith("checked-")}

    def grant(self, kind: ResourceType, name: str, *operations: AclOperation) -> None:
        add_rules(self.plain, kind, name, f"User:{USER}", *operations)


@pytest.fixture(scope="module")
def place(broker: SharedBroker) -> Place:
    return Place(broker.bootstrap, int(broker.guarded.partition(":")[2]))


def worker(place: Place, name: str, **changes: str) -> dict[str, str]:
    as_user = {f"{client}{key}": value for key, value in LOGIN.items() for client in ("", "producer.", "consumer.")}
    given = {
        "bootstrap.servers": f"localhost:{place.port}",
        "group.id": f"{name}-group",
        **{f"{kind}.storage.topic": f"{name}-{kind}" for kind in ("config", "offset", "status")},
        **{f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")},
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "rest.advertised.host.name": "localhost",
    }
    return {**given, **as_user, **{key.replace("_", "."): value for key, value in changes.items()}}


def checked(properties: dict[str, str], *connectors: Path) -> list[Result]:
    files = [load_connector_file(path) for path in connectors]
    found = check_start(properties, "w.properties", ample_s(20), files)
    assert PASSWORD not in str(found)
    return found


def reported(results: list[Result], check: str, where: str = "") -> list[tuple[Verdict, str]]:
    return [(one.verdict, one.message) for one in results if one.check == check and where in one.where]


def test_without_rights_everything_that_lacks_is_named_with_the_right_to_grant(place: Place) -> None:
    before = place.topics()
    results = checked(worker(place, "checked-bare"))
    assert reported(results, "broker") == [(Verdict.OK, reported(results, "broker")[0][1])]
    assert reported(results, "topic", "checked-bare-config") == [
        (
            Verdict.FAILED,
            f"cannot be seen: {ME} lacks {' and '.join(f'{each} on topic checked-bare-config' for each in SEES)} "
            "(config.storage.topic)",
        )
    ]
    assert reported(results, "group") == [
        (Verdict.FAILED, f"cannot be joined: {ME} lacks READ on group checked-bare-group")
    ]
    assert reported(results, "clock") == [
        (Verdict.UNKNOWN, "its time is not known: this principal may not DESCRIBE the cluster")
    ]
    assert [one.hint for one in results if one.check == "group"] == [
        f"Grant it: kafka-acls --bootstrap-server localhost:{place.port} --add --allow-principal {ME} --operation Read "
        "--group checked-bare-group"
    ]
    assert place.topics() == before


def test_topics_that_do_not_fit_and_rights_that_lack_on_them(place: Place) -> None:
    place.make("checked-odd-config", partitions=3, cleanup_policy="compact")
    place.make("checked-odd-offset", cleanup_policy="delete")
    place.make("checked-odd-status", cleanup_policy="compact", min_insync_replicas="2")
    for kind in ("config", "offset", "status"):
        place.grant(ResourceType.TOPIC, f"checked-odd-{kind}", AclOperation.DESCRIBE_CONFIGS, AclOperation.READ)
    results = checked(worker(place, "checked-odd", exactly_once_source_support="enabled"))

    def failures(kind: str) -> list[str]:
        return [
            message
            for verdict, message in reported(results, "topic", f"checked-odd-{kind}")
            if verdict is Verdict.FAILED
        ]

    assert failures("config") == [
        f"{ME} lacks WRITE on topic checked-odd-config (config.storage.topic)",
        "has 3 partitions, and must have one (config.storage.topic)",
    ]
    assert any("has cleanup.policy=delete, and must have compact" in message for message in failures("offset"))
    assert failures("status")[-1] == "has 1 replica in sync, and min.insync.replicas=2: writes fail"
    assert reported(results, "transactional id") == [(Verdict.FAILED, reported(results, "transactional id")[0][1])]
    assert f"{ME} lacks WRITE on transactional id" in reported(results, "transactional id")[0][1]


def test_a_start_that_will_work_is_ok_creates_nothing_and_tells_what_the_worker_will_create(place: Place) -> None:
    place.make("checked-fine-config", cleanup_policy="compact")
    all_of_topic = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)
    for kind in ("config", "offset", "status"):
        place.grant(ResourceType.TOPIC, f"checked-fine-{kind}", *all_of_topic, AclOperation.CREATE)
    place.grant(ResourceType.GROUP, "checked-fine-group", AclOperation.READ)
    place.grant(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
    place.grant(ResourceType.TRANSACTIONAL_ID, "connect-cluster-checked-fine-group", AclOperation.WRITE)
    before = place.topics()
    results = checked(worker(place, "checked-fine", exactly_once_source_support="preparing"))
    assert [one for one in results if one.verdict is Verdict.FAILED] == []
    assert reported(results, "topic", "checked-fine-config") == [
        (Verdict.OK, "exists (config.storage.topic): 1 partition, 1 replica")
    ]
    assert reported(results, "topic", "checked-fine-offset") == [
        (Verdict.OK, "does not exist yet; the worker may create it (25 partitions, 1 replica)")
    ]
    assert reported(results, "group") == [(Verdict.OK, "has no worker yet")]
    assert [verdict for verdict, _ in reported(results, "clock")] == [Verdict.OK]
    assert [verdict for verdict, _ in reported(results, "transactional id")] == [Verdict.OK]
    assert place.topics() == before

    results = checked(worker(place, "checked-fine", offset_storage_replication_factor="3"))
    assert reported(results, "topic", "checked-fine-offset") == [
        (
            Verdict.FAILED,
            "does not exist, and cannot be created with 25 partitions, 3 replicas: 1 of the brokers are up",
        )
    ]


def test_a_group_of_consumers_with_the_name_of_the_workers_group_is_noticed(place: Place) -> None:
    place.make("checked-taken-topic")
    place.grant(ResourceType.GROUP, "checked-taken-group", AclOperation.READ)
    consumer = Consumer({"bootstrap.servers": place.plain, "group.id": "checked-taken-group", "log_level": 2})
    try:
        consumer.subscribe(["checked-taken-topic"])

        def has_joined() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        eventually(has_joined, 60, "the consumer is in its group")
        results = checked(worker(place, "checked-taken"))
    finally:
        consumer.close()
    assert reported(results, "group") == [(Verdict.FAILED, "is in use by 1 member of a group of type consumer")]


def test_connector_files_and_their_topics_are_tried_with_the_clients_that_use_them(
    place: Place, tmp_path: Path
) -> None:
    place.make("checked-readable")
    place.make("checked-secret")
    place.grant(ResourceType.TOPIC, "checked-readable", AclOperation.READ)
    sink, wrong = tmp_path / "sink.properties", tmp_path / "wrong.properties"
    sink.write_text(
        f"name=out\nconnector.class=FileStreamSink\nfile={tmp_path}/o\ntopics=checked-readable,checked-secret\n"
    )
    wrong.write_text("name=in\nconnector.class=FileStreamSourc\ntopic=checked-readable\n")
    results = checked(worker(place, "checked-files", plugin_path=str(tmp_path / "none")), sink, wrong)
    assert reported(results, "connector", "sink") == [(Verdict.OK, "connector out: FileStreamSink")]
    assert [verdict for verdict, _ in reported(results, "connector", "wrong")] == [Verdict.FAILED]
    assert reported(results, "topic", "checked-readable") == [
        (Verdict.OK, "connector out may READ it"),
        (Verdict.FAILED, f"connector in writes to it, and {ME} lacks WRITE on topic checked-readable"),
    ]
    assert reported(results, "topic", "checked-secret") == [
        (Verdict.FAILED, f"connector out reads it, and {ME} lacks READ on topic checked-secret")
    ]
    assert reported(results, "sink group", "connect-out") == [
        (Verdict.FAILED, f"connector out cannot join it: {ME} lacks READ on group connect-out")
    ]
    assert reported(results, "plugin path") == [(Verdict.WARNING, "is not a folder, and is skipped")]


def test_clients_of_tasks_that_lack_the_login_and_a_login_that_is_wrong_are_distinguished(place: Place) -> None:
    properties = worker(
        place, "checked-login", sasl_jaas_config=LOGIN["sasl.jaas.config"].replace(PASSWORD, "opensesame-3")
    )
    properties = {key: value for key, value in properties.items() if not key.startswith("producer.")}
    results = checked(properties)
    by_clients = {one.clients: one for one in results if one.check == "broker"}
    assert {clients: one.verdict for clients, one in by_clients.items()} == {
        "worker, admin": Verdict.FAILED,
        "producer": Verdict.FAILED,
        "consumer": Verdict.OK,
    }
    assert [verdict for verdict, _ in reported(results, "group") + reported(results, "topic")] == [Verdict.UNKNOWN] * 2
    assert "refuses the login" in by_clients["worker, admin"].message
    assert by_clients["producer"].message.endswith(
        "the listener may want TLS or a login: security.protocol is PLAINTEXT"
    )
    assert by_clients["producer"].hint == "Set producer.security.protocol to what the listener has."

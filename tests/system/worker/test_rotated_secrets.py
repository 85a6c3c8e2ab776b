"""Certificates, authorities and passwords of Kafka clients that change under a running worker and its tasks.

The brokers come to refuse the former ones, and records go on, none lost, by the same processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from kconnect.errors import ConnectError
from kconnect.model import RunState
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.security import access
from kit.brokers import PatientBroker
from kit.distributed_worker import Distributed
from kit.pace import ample_s
from kit.ports import free_port
from kit.secure_broker import PASSWORD, USER, Authority, Identity, add_user, sasl_listener, scram
from kit.topics import consume_values, create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(400)]

FILE = "org.apache.kafka.connect.file.FileStream"


class Rotating:
    """A broker whose listeners ask for a certificate (`mutual`) or a login (`scram`), and the files of its clients."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.old, self.new = Authority("the old authority"), Authority("the new authority")
        self.shown, self.trusted = folder / "client.pem", folder / "trust.pem"
        self._server, self._believed = folder / "server.pem", folder / "believed.pem"
        scram_port, mutual_port = free_port(), free_port()
        self.scram, self.mutual = f"127.0.0.1:{scram_port}", f"127.0.0.1:{mutual_port}"
        settings = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._server),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._believed),
            "listener.name.ssl.ssl.client.auth": "required",
            **sasl_listener("sasl_ssl"),
        }
        self.broker = PatientBroker(
            free_port(), folder / "data", settings=settings, listeners={"SASL_SSL": scram_port, "SSL": mutual_port}
        )
        self.serve(self.old.issue("broker"), self.old)
        self.show(self.old.issue("client"))
        self.trust(self.old)

    def serve(self, own: Identity, *believed: Authority) -> None:
        """What the broker shows, and whom it believes, from its next start on."""
        own.pem(self._server)
        self._believed.write_text(_pem(believed))

    def show(self, own: Identity) -> None:
        _replace(self.shown, own.key_pem() + own.chain_pem())

    def trust(self, *authorities: Authority) -> None:
        _replace(self.trusted, _pem(authorities))

    def certificates(self) -> dict[str, str]:
        """A client's settings."""
        return {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.shown),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trusted),
        }


def _pem(authorities: tuple[Authority, ...]) -> str:
    return "".join(Identity(one.key, one.certificate).chain_pem() for one in authorities)


def _replace(path: Path, text: str) -> None:
    """As an administrator does: what reads it has all of the former text, or of this one."""
    beside = path.with_suffix(".fresh")
    beside.write_text(text)
    beside.replace(path)


class Lines:
    """A source of a file's lines and a sink of them, in a worker."""

    def __init__(self, worker: Distributed, topic: str) -> None:
        self.worker, self.topic = worker, topic
        self.written = 0
        self._in, self._out = worker.folder / "lines.in", worker.folder / "lines.out"
        self._in.touch()
        with worker.client() as client:
            client.create_connector(
                "in", {"connector.class": f"{FILE}SourceConnector", "file": str(self._in), "topic": topic}
            )
            client.create_connector(
                "out", {"connector.class": f"{FILE}SinkConnector", "file": str(self._out), "topics": topic}
            )
        for name in ("in", "out"):
            worker.await_task(name, RunState.RUNNING, 60)

    def move(self, count: int = 200) -> None:
        """Write more lines, and wait until all that were written so far have come."""
        with self._in.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(self.written, self.written + count))
        self.written += count

        def have_come() -> bool:
            came = set(self._out.read_text().split("\n")[:-1]) if self._out.exists() else set()
            missing = [line for line in self.expected if line not in came]
            assert not missing, f"{len(missing)} have not come, {missing[0]} first\n{self.worker.log_text()[-4000:]}"
            return True

        eventually(have_come, 90, f"{self.written} lines come")

    @property
    def expected(self) -> list[str]:
        return [f"line {number}" for number in range(self.written)]


@pytest.fixture
def rotating(tmp_path: Path) -> Iterator[Rotating]:
    found = Rotating(tmp_path)
    with found.broker:
        yield found


def worker_of(rotating: Rotating, bootstrap: str, group: str, clients: Mapping[str, str], **more: str) -> Distributed:
    folder = rotating.folder / "worker"
    folder.mkdir()
    secured = {f"{prefix}{key}": value for prefix in ("", "producer.", "consumer.") for key, value in clients.items()}
    return Distributed(folder, bootstrap, group, {**secured, **{k.replace("_", "."): v for k, v in more.items()}})


def refusal(bootstrap: str, settings: Mapping[str, str]) -> str:
    """Why the broker refuses who comes with these settings."""
    with pytest.raises(ConnectError) as refused:
        Coordinator(
            access({"bootstrap.servers": bootstrap, **settings}, "stranger"), "g", ample_s(10)
        ).connect().close()
    return str(refused.value)


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_another_authority_is_taken_over_while_records_move(rotating: Rotating, support: str) -> None:
    topic = f"rotated-{support}"
    create_topic(rotating.broker.bootstrap, topic)
    group = f"rotating-{support}"
    with worker_of(
        rotating, rotating.mutual, group, rotating.certificates(), exactly_once_source_support=support
    ) as worker:
        worker.start()
        pid = worker.process.pid
        lines = Lines(worker, topic)
        lines.move()
        former = rotating.folder / "former.pem"
        former.write_text(rotating.shown.read_text())

        rotating.trust(rotating.old, rotating.new)
        worker.await_log(f"its tasks' Kafka clients read {rotating.trusted}, which changed", 30)
        rotating.serve(rotating.new.issue("broker"), rotating.old, rotating.new)
        rotating.broker.restart()
        lines.move()

        seen = len(worker.log_text())
        rotating.show(rotating.new.issue("client"))
        worker.await_log(f"its tasks' Kafka clients read {rotating.shown}, which changed", 30, since=seen)
        rotating.serve(rotating.new.issue("broker"), rotating.new)
        rotating.trust(rotating.new)
        rotating.broker.restart()
        assert "rejects this worker's certificate" in refusal(
            rotating.mutual, {**rotating.certificates(), "ssl.keystore.location": str(former)}
        )
        lines.move()
        with worker.client() as client:  # the config topic is written and read, and so are statuses
            client.create_connector(
                "more",
                {
                    "connector.class": f"{FILE}SinkConnector",
                    "file": str(worker.folder / "more.out"),
                    "topics": topic,
                },
            )
        worker.await_task("more", RunState.RUNNING, 60)
        eventually(
            lambda: (worker.folder / "more.out").read_text().split() == " ".join(lines.expected).split(),
            60,
            "a new sink has every line once, in order",
        )
        assert worker.process.pid == pid
        assert worker.process.poll() is None
        said = [
            line for line in worker.log_text().splitlines() if "Replacing Kafka clients of the internal topics" in line
        ]
        assert 3 <= len(said) <= 4, said  # one line for each change; trust and key of the last step may fall together
    values = consume_values(rotating.broker.bootstrap, topic, lines.written)
    assert values == [line.encode() for line in lines.expected]


@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_another_password_is_taken_over_while_records_move(rotating: Rotating, support: str) -> None:
    add_user(rotating.broker.bootstrap, rotating.scram)
    secret = rotating.folder / "secret.properties"
    _replace(secret, f"password={PASSWORD}\n")
    login = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": scram(password=f"${{file:{secret}:password}}"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(rotating.trusted),
    }
    create_topic(rotating.broker.bootstrap, "logged-in")
    providers = {
        "config_providers": "file",
        "config_providers_file_class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    providers["exactly_once_source_support"] = support
    with worker_of(rotating, rotating.scram, "logging-in", login, **providers) as worker:
        worker.start()
        pid = worker.process.pid
        lines = Lines(worker, "logged-in")
        lines.move()

        _replace(secret, "password=another-secret\n")
        wanted = [
            UserScramCredentialUpsertion(USER, ScramCredentialInfo(strength, 4096), b"another-secret")
            for strength in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        admin = AdminClient({"bootstrap.servers": rotating.broker.bootstrap})
        for one in wanted:
            for done in admin.alter_user_scram_credentials([one]).values():
                done.result(ample_s(20))
        worker.await_log("a value that its config refers to changed", 30)
        refused = refusal(rotating.scram, {**login, "sasl.jaas.config": scram(password=PASSWORD)})
        assert "refuses the login" in refused
        rotating.broker.restart()  # so that each connection logs in again
        lines.move()
        assert worker.process.pid == pid
        assert worker.process.poll() is None
        with worker.client() as client:  # former tasks are fenced off, and offsets written in their place
            client.stop_connector("in")
            eventually(
                lambda: client.connector_status("in").connector.state is RunState.STOPPED, 30, "the source is stopped"
            )
            eventually(lambda: not client.connector_status("in").tasks, 30, "its task has left")
            client.reset_connector_offsets("in")
            assert client.connector_offsets("in") == []
        assert "another-secret" not in worker.log_text()
        with worker.client() as client:
            client.delete_connector("in")
            client.delete_connector("out")
    values = consume_values(rotating.broker.bootstrap, "logged-in", lines.written)
    assert sorted({value.decode() for value in values}) == sorted(lines.expected)

"""Certificates, trust and users that change while a server runs: what the files hold counts, and no request fails."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.errors import ConfigError, ConnectError
from kconnect.files import reread
from kconnect.files.reread import Reread
from kconnect.runtime.rest.jaas import LoginFile
from kconnect.runtime.rest.tls import peer_context, server_context
from kit.certificates import Authority
from kit.waiting import eventually

PREFIX = "listeners.https."


@pytest.fixture(autouse=True)
def _looks_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second is nothing to wait for."""
    monkeypatch.setattr(reread, "LOOK_EVERY_S", 0.0)


class Worker:
    """The files of one worker, and its https server, which asks for a certificate."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self.key, self.trust = folder / "key.pem", folder / "trust.pem"
        self.settings = {
            f"{PREFIX}ssl.keystore.location": str(self.key),
            f"{PREFIX}ssl.keystore.type": "PEM",
            f"{PREFIX}ssl.truststore.location": str(self.trust),
            f"{PREFIX}ssl.truststore.type": "PEM",
            f"{PREFIX}ssl.client.auth": "required",
            f"{PREFIX}ssl.endpoint.identification.algorithm": "",
        }
        self.name = name
        self._peer_context = peer_context(self.settings)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []
        self.port: int = self._listener.getsockname()[1]

    def show(self, authority: Authority) -> None:
        authority.sign("127.0.0.1").pem_file(self.key)

    def believe(self, *authorities: Authority) -> None:
        self.trust.write_bytes(b"".join(authority.pem for authority in authorities))

    def serve(self) -> None:
        context = server_context(self.settings)

        def run() -> None:
            while True:
                try:
                    raw, _ = self._listener.accept()
                    with raw, context.wrap_socket(raw, server_side=True) as connection:
                        connection.sendall(connection.recv(100))
                except ssl.SSLError:
                    continue
                except OSError:
                    return

        self._threads.append(threading.Thread(target=run, name=f"server-{self.name}"))
        self._threads[0].start()

    def ask(self, other: Worker) -> ssl.SSLSocket:
        """A request to another worker: whom it shows, and believes, is read for each. Errors: ssl.SSLError."""
        raw = socket.create_connection(("127.0.0.1", other.port), timeout=30)
        with raw, self._peer_context().wrap_socket(raw, server_hostname="127.0.0.1") as connection:
            connection.sendall(b"hello")
            assert connection.recv(100) == b"hello"
            return connection

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[list[Worker]]:
    made = [Worker(tmp_path / name, name) for name in ("one", "two", "three")]
    yield made
    for worker in made:
        worker.close()


def test_no_request_between_three_workers_fails_while_they_change_to_another_authority(workers: list[Worker]) -> None:
    old, new = Authority("the old one"), Authority("the new one")
    for worker in workers:
        worker.show(old)
        worker.believe(old)
        worker.serve()
    stop, failed, asked = threading.Event(), [], [0]

    def ask_all() -> None:
        while not stop.is_set():
            for each in workers:
                for other in workers:
                    try:
                        each.ask(other)
                        asked[0] += 1
                    except (OSError, AssertionError, ConnectError) as err:
                        failed.append(f"{each.name} -> {other.name}: {err}")

    def a_round_later() -> None:
        seen = asked[0]
        eventually(lambda: asked[0] > seen + 18 or bool(failed), 60, "requests go on")

    requests = threading.Thread(target=ask_all, name="requests")
    requests.start()
    try:
        a_round_later()  # each has read its own: until then there is nothing from before
        for step in (
            lambda worker: worker.believe(old, new),
            lambda worker: worker.show(new),
            lambda worker: worker.believe(new),
        ):
            for worker in workers:
                step(worker)
                a_round_later()
    finally:
        stop.set()
        requests.join()
    assert failed == []
    stranger = Worker(workers[0].key.parent / "stranger", "stranger")
    stranger.show(old)
    stranger.believe(new)
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        stranger.ask(workers[0])
    stranger.close()


def test_a_certificate_that_cannot_be_read_is_reported_once_and_the_one_before_is_shown(
    workers: list[Worker], caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority()
    one, two, _ = workers
    for worker in (one, two):
        worker.show(authority)
        worker.believe(authority)
    one.serve()
    two.ask(one)
    one.key.write_text("half of a cert")
    two.trust.write_text("half of another")
    with caplog.at_level(logging.ERROR):
        two.ask(one)
        two.ask(one)
    assert len([text for text in caplog.messages if "The certificates from before are shown" in text]) == 1
    assert len([text for text in caplog.messages if "The certificates from before are used" in text]) == 1


def test_an_old_password_ends_when_the_file_of_users_changes(tmp_path: Path) -> None:
    users, jaas = tmp_path / "users.properties", tmp_path / "jaas.conf"
    users.write_text("ann=old\n")
    users.chmod(0o600)
    jaas.write_text(
        "KafkaConnect { org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required "
        f'file="{users}"; }};'
    )
    login = LoginFile(str(jaas), "the setting")
    assert login.admits("ann", "old")
    users.write_text("ann=newer\nbob=too\n")
    assert (login.admits("ann", "old"), login.admits("ann", "newer"), login.admits("bob", "too")) == (False, True, True)
    users.unlink()
    assert login.admits("ann", "newer"), "a file that is not there is reported, and the users stay"


def test_files_are_looked_at_once_a_second_and_what_is_wrong_is_reported_once(tmp_path: Path) -> None:
    now_s, reported, failed = [0.0], [], []
    file = tmp_path / "value"
    file.write_text("1")

    def read() -> int:
        try:
            return int(file.read_text())
        except ValueError as err:
            raise ConfigError("not a number") from err

    value = Reread(read, lambda: [file], reported=reported.append, failed=failed.append, monotonic=lambda: now_s[0])
    file.write_text("12")
    assert value.value() == 12
    file.write_text("none")
    assert (value.value(), value.value(), value.problem, len(failed)) == (12, 12, "not a number", 1)
    file.write_text("123")
    assert (value.value(), value.problem, reported) == (123, None, [12, 123])

"""`connect` beside a worker of ours that wants https, a client certificate and a user; and every way to be refused."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.worker import StandaloneWorker
from kit.certificates import Authority
from kit.cli import CliResult, cli_run
from kit.memory_launcher import MemoryLauncher
from kit.standalone import STRING_CONVERTERS
from kit.waiting import eventually

pytestmark = pytest.mark.broker

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


@dataclass(frozen=True)
class Guarded:
    """The worker's URL, and the folder with what its callers show."""

    url: str
    folder: Path

    def file(self, name: str) -> str:
        return str(self.folder / name)

    def settings(self, **changes: str | None) -> dict[str, str]:
        """The environment of a caller who is let in, with changes; None leaves a variable out."""
        given = {
            "KCONNECT_URL": self.url,
            "KCONNECT_USER": "ann",
            "KCONNECT_PASSWORD": "s3cret",
            "KCONNECT_CA_FILE": self.file("ca.pem"),
            "KCONNECT_CERT_FILE": self.file("ann.pem"),
            "KCONNECT_KEY_PASSWORD": "0pen",
        } | {f"KCONNECT_{name}": value for name, value in changes.items()}
        return {name: value for name, value in given.items() if value is not None}


def certificates(folder: Path) -> None:
    """Of the worker, of ann (her key under a passphrase) and of people who have something wrong."""
    authority, other = Authority(), Authority("other authority")
    authority.file(folder / "ca.pem")
    other.file(folder / "other-ca.pem")
    authority.sign("worker").pem_file(folder / "worker.pem")
    authority.sign("late worker", valid_days=-1).pem_file(folder / "expired-worker.pem")
    authority.sign("ann").pem_file(folder / "ann.pem", "0pen")
    authority.sign("ann", valid_days=-1).pem_file(folder / "expired.pem")
    other.sign("ann").pem_file(folder / "other.pem")


def worker_of(folder: Path, bootstrap: str, keystore: str) -> StandaloneWorker:
    (folder / "users.properties").write_text("ann=s3cret\n")
    (folder / "jaas.conf").write_text(f'KafkaConnect {{ {MODULE} required file="{folder / "users.properties"}"; }};')
    settings = {
        "bootstrap.servers": bootstrap,
        **STRING_CONVERTERS,
        "offset.storage.file.filename": str(folder / f"offsets-of-{keystore}"),
        "listeners": "https://127.0.0.1:0",
        "listeners.https.ssl.keystore.location": str(folder / keystore),
        "listeners.https.ssl.truststore.location": str(folder / "ca.pem"),
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.client.auth": "required",
        "rest.extension.classes": EXTENSION,
        "kconnect.jaas.file": str(folder / "jaas.conf"),
    }
    return StandaloneWorker(settings, file=folder / "worker.properties", launcher=lambda _: MemoryLauncher())


@pytest.fixture(scope="module")
def guarded(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    certificates(folder)
    with worker_of(folder, broker.bootstrap, "worker.pem") as worker:
        found = Guarded(worker.rest_url, folder)
        # The worker's threads stand before a test counts threads
        cli_run("connectors", "list", home=folder, env=found.settings(), expect=0)
        yield found


def test_the_environment_lets_us_in_and_connectors_are_managed(guarded: Guarded, home: Path) -> None:
    file = home / "guarded.json"
    config = {"connector.class": "FileStreamSource", "file": str(home / "in"), "topic": "t-guarded"}
    file.write_text(json.dumps({"name": "guarded", "config": config}))

    def connect(*args: str) -> CliResult:
        return cli_run(*args, home=home, env=guarded.settings(), expect=0)

    assert connect("connectors", "create", str(file)).stderr == "created guarded\n"
    assert connect("connectors", "list", "-o", "name").stdout == "guarded\n"
    assert connect("config", "get", "guarded", "topic").stdout == "t-guarded\n"
    # Within half a second, or nothing: on a busy machine the second tab has it
    pressed = ("complete", "--", "connectors", "pause", "gua")
    eventually(lambda: connect(*pressed).stdout == "guarded\t\n", 10, "its name is offered")
    assert connect("connectors", "delete", "guarded", "--yes").stderr == "deleted guarded\n"


def test_a_context_and_options_let_us_in_too_and_nothing_shows_a_password(guarded: Guarded, home: Path) -> None:
    (home / "pw").write_text("s3cret\n")
    (home / "kp").write_text("0pen\n")
    files = ["--password-file", "pw", "--key-password-file", "kp"]
    who = ["--user", "ann", "--ca", guarded.file("ca.pem"), "--cert", guarded.file("ann.pem")]
    cli_run("contexts", "add", "g", guarded.url, *who, *files, home=home, expect=0)
    (path,) = home.rglob("contexts.toml")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert cli_run("connectors", "list", "-o", "json", home=home, expect=0).json == []
    shown = cli_run("contexts", "show", "-o", "json", home=home, expect=0)
    assert shown.json["user"] == "ann"
    secrets = {"KCONNECT_PASSWORD": "s3cret", "KCONNECT_KEY_PASSWORD": "0pen"}
    for args in (
        ("--url", guarded.url, *who, "connectors", "list", "-o", "json"),
        ("connectors", "list", "-o", "json", "--url", guarded.url, *who),
    ):
        assert cli_run(*args, home=home, env=secrets, expect=0).json == []
    path.write_text(
        path.read_text().replace('key_password_file = "', 'key_password = "0pen"\n#').replace("password_file", "#")
    )
    shown = cli_run("contexts", "show", home=home, expect=0)
    assert "key_password = [hidden]\n" in shown.stdout
    assert "0pen" not in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("changes", "code", "sentence", "hint"),
    [
        ({"PASSWORD": "wrong"}, 1, "{url} refuses user ann (401)", "KCONNECT_PASSWORD"),
        ({"PASSWORD": None}, 1, "{url} refuses user ann (401)", "KCONNECT_PASSWORD"),
        ({"USER": None}, 1, "{url} refuses a caller without a user (401)", "--user"),
        (
            {"CA_FILE": None},
            5,
            "{url} shows a certificate that is not trusted: self-signed certificate in certificate chain",
            "KCONNECT_CA_FILE",
        ),
        (
            {"CA_FILE": "other-ca.pem"},
            5,
            "{url} shows a certificate that is not trusted: self-signed certificate in certificate chain",
            "KCONNECT_CA_FILE",
        ),
        (
            {"CERT_FILE": None},
            5,
            "{url} closed the connection, possibly because it requires a client certificate",
            "KCONNECT_CERT_FILE",
        ),
        (
            {"CERT_FILE": "expired.pem"},
            5,
            "{url} closed the connection: our client certificate {folder}/expired.pem has expired on 20",
            "still valid",
        ),
        (
            {"CERT_FILE": "other.pem"},
            5,
            "{url} closed the connection, possibly because it does not trust our client certificate {folder}/other.pem",
            "KCONNECT_CERT_FILE",
        ),
        ({"KEY_PASSWORD": "wrong"}, 1, "{folder}/ann.pem cannot be used as a certificate with its key", "passphrase"),
        ({"KEY_PASSWORD": None}, 1, "{folder}/ann.pem cannot be used as a certificate with its key", "passphrase"),
        ({"CERT_FILE": "nowhere.pem"}, 1, "{folder}/nowhere.pem cannot be used as a certificate", "PEM"),
        ({"CA_FILE": "nowhere.pem"}, 1, "{folder}/nowhere.pem cannot be used as CA certificates", "PEM"),
        ({"URL": "http"}, 5, "{url} broke off GET /connectors?expand=status", "speaks http"),
    ],
    ids=lambda value: "-".join(f"{k}-{v}" for k, v in value.items()) if isinstance(value, dict) else "",
)
def test_a_login_that_fails_is_one_sentence_a_hint_and_a_code(
    guarded: Guarded, home: Path, changes: dict[str, str | None], code: int, sentence: str, hint: str
) -> None:
    """One sentence, one hint, no trace, and never a password."""
    url = guarded.url.replace("https:", "http:") if "URL" in changes else guarded.url
    changes = {
        name: guarded.file(value) if value and name.endswith("FILE") else value for name, value in changes.items()
    }
    env = guarded.settings(**changes | ({"URL": url} if "URL" in changes else {}))
    got = cli_run("connectors", "list", home=home, env=env)
    assert (got.code, got.stdout) == (code, ""), got.stderr
    said = got.stderr.splitlines()
    assert len(said) == 2, got.stderr
    assert said[0].startswith(sentence.format(url=url, folder=guarded.folder))
    assert said[1].startswith("Hint: ")
    assert hint in said[1]
    assert not {"s3cret", "wrong", "0pen"} & set(got.stderr.replace(":", " ").split())


def test_a_worker_whose_certificate_has_expired_is_reported_as_such(
    guarded: Guarded, broker: DevBroker, home: Path
) -> None:
    with worker_of(guarded.folder, broker.bootstrap, "expired-worker.pem") as worker:
        got = cli_run("connectors", "list", home=home, env=guarded.settings(URL=worker.rest_url))
    assert got.code == 5
    assert got.stderr.splitlines()[0] == (
        f"{worker.rest_url} shows a certificate that is not trusted: certificate has expired"
    )
    assert "The worker needs another one" in got.stderr

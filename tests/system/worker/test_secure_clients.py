"""A worker and its connectors on a broker that asks for TLS, SCRAM logins and client certificates.

Settings, stores and JAAS entries are those of Java clients. One worker runs everything: connectors differ in the
format of their stores and in how they log in.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kconnect.errors import BadRequestError, ConnectError, TimedOutError, UnreachableError
from kconnect.model import RunState
from kconnect.runtime.config.client_config import admin_config
from kconnect.runtime.kafka.admin import KafkaAdmin
from kit.cli import cli_env, connect_command
from kit.pace import ample_s, now
from kit.secure_broker import OAUTH, PASSWORD, STORE_PASSWORD, Authority, SecureBroker, jks_of, scram, secure_broker
from kit.standalone import Standalone, write_properties
from kit.topics import create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker]

FILE = "org.apache.kafka.connect.file.FileStream"


def login(trust: Path, mechanism: str = "SCRAM-SHA-512", jaas: str | None = None) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas or scram(),
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": STORE_PASSWORD,
    }


def certificate(trust: Path, store: Path) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.location": str(trust),
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": STORE_PASSWORD,
    }


def overriding(prefix: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}.override.{key}": value for key, value in settings.items()}


class Stores:
    """One authority and one client certificate in each format."""

    def __init__(self, broker: SecureBroker) -> None:
        below = Authority("authority below", above=broker.authority)
        own, chained = broker.authority.issue("client"), below.issue("client with a chain")
        folder = broker.folder
        trust, key = broker.authority.pkcs12(folder / "trust.p12"), own.pkcs12(folder / "client.p12")
        self.trust = {"p12": trust, "jks": jks_of(trust), "pem": broker.authority.pem(folder / "trust.pem")}
        self.key = {"p12": key, "jks": jks_of(key), "pem": chained.pem(folder / "client.pem")}


@pytest.fixture(scope="module")
def stores(secure: SecureBroker) -> Stores:
    return Stores(secure)


def reaches(settings: Mapping[str, str]) -> str:
    """The cluster's id, as a worker asks for it. Errors: ConnectError."""
    translated, warnings = admin_config(settings, client_id="test")
    assert not [warning for warning in warnings if "ssl." in warning or "sasl." in warning]
    deadline = now() + 20
    with KafkaAdmin(translated, "the test") as admin:
        while True:
            try:
                return admin.cluster_id(1.0)
            except (TimedOutError, UnreachableError):
                assert now() < deadline, "the broker neither answers nor refuses"


@pytest.mark.parametrize("format", ["jks", "p12", "pem"])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
def test_every_login_works_with_every_trust_store(
    secure: SecureBroker, stores: Stores, format: str, mechanism: str
) -> None:
    jaas = scram().replace("scram.Scram", "plain.Plain") if mechanism == "PLAIN" else scram()

    assert reaches({"bootstrap.servers": secure.scram, **login(stores.trust[format], mechanism, jaas)})


def test_unsecured_tokens_log_in_as_with_java(secure: SecureBroker, stores: Stores) -> None:
    jaas = f'{OAUTH} required unsecuredLoginStringClaim_sub="worker";'

    assert reaches({"bootstrap.servers": secure.scram, **login(stores.trust["p12"], "OAUTHBEARER", jaas)})


@pytest.mark.parametrize("format", ["jks", "p12", "pem"])
def test_client_certificates_of_every_format_are_sent_with_their_chain(
    secure: SecureBroker, stores: Stores, format: str
) -> None:
    assert reaches({"bootstrap.servers": secure.mutual, **certificate(stores.trust[format], stores.key[format])})


def test_keys_and_certificates_may_stand_in_the_settings_themselves(secure: SecureBroker) -> None:
    own = secure.authority.issue("inline")
    trust = secure.authority.pem(secure.folder / "inline-trust.pem").read_text()

    assert reaches(
        {
            "bootstrap.servers": secure.mutual,
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": own.key_pem("key-pass"),
            "ssl.key.password": "key-pass",
            "ssl.keystore.certificate.chain": own.chain_pem(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": trust,
        }
    )


def test_what_is_refused_is_reported_in_one_sentence(secure: SecureBroker, stores: Stores) -> None:
    trust = stores.trust["pem"]
    stranger = Authority("stranger")
    at = f"the broker at {secure.scram}"
    cases = {
        "a wrong password": (
            {"bootstrap.servers": secure.scram, **login(trust, jaas=scram(password="wrong-one"))},
            f"{at} refuses the login: Authentication failed",
        ),
        "another authority": (
            {"bootstrap.servers": secure.scram, **login(stranger.pem(secure.folder / "stranger.pem"))},
            f"the certificate of {at} is not accepted: unable to get local issuer certificate.",
        ),
        "a certificate nobody knows": (
            {
                "bootstrap.servers": secure.mutual,
                **certificate(trust, stranger.issue("who").pem(secure.folder / "who.pem")),
            },
            f"the broker at {secure.mutual} does not accept the certificate of this client, or misses one",
        ),
        "an expired certificate": (
            {
                "bootstrap.servers": secure.mutual,
                **certificate(trust, secure.authority.issue("old", days=-1).pem(secure.folder / "old.pem")),
            },
            "The certificate CN=old in ",
        ),
        "no Kerberos": (
            {"bootstrap.servers": secure.scram, **login(trust, "GSSAPI")},
            "the installed librdkafka was built without Kerberos, sasl.mechanism=GSSAPI",
        ),
    }
    for what, (settings, sentence) in cases.items():
        with pytest.raises(ConnectError) as reported:
            reaches(settings)
        assert sentence in str(reported.value), what
        assert reported.value.hint, what
        assert "wrong-one" not in str(reported.value)


def test_an_expired_certificate_of_the_broker_is_reported_as_such(tmp_path: Path) -> None:
    authority = Authority()
    with (
        secure_broker(tmp_path, authority.issue("broker", days=-1), authority) as broker,
        pytest.raises(ConnectError, match=r"is not accepted: certificate has expired\.$"),
    ):
        reaches({"bootstrap.servers": broker.scram, **login(authority.pem(tmp_path / "trust.pem"))})


@pytest.fixture(scope="module")
def worker(secure: SecureBroker, stores: Stores, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A worker whose own login comes from a file and the environment."""
    folder = tmp_path_factory.mktemp("secure-worker")
    (folder / "secrets.properties").write_text(f"jaas={scram()}\n".replace("\\", "\\\\"))
    reference = f"${{file:{folder}/secrets.properties:jaas}}"
    secured = {**login(stores.trust["jks"], jaas=reference), "ssl.truststore.password": "${env:KCONNECT_TEST_STORE}"}
    settings = {
        "config.providers": "file,env",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(folder),
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "config.providers.env.param.allowlist.pattern": "KCONNECT_TEST_.*",
        **secured,
        **{f"{prefix}.{key}": value for prefix in ("producer", "consumer") for key, value in secured.items()},
    }
    with Standalone(folder, secure.scram, {}, settings, {"KCONNECT_TEST_STORE": STORE_PASSWORD}) as running:
        yield running.start()
        running.stop()


def hello(topic: str) -> str:
    """Lines enough for both clients of a producer: the second is for large units."""
    return f"hello from {topic}\n" * 2_400


def source(worker: Standalone, topic: str, **more: str) -> dict[str, str]:
    file = worker.folder / f"{topic}.in"
    file.write_text(hello(topic))
    return {"connector.class": f"{FILE}SourceConnector", "file": str(file), "topic": topic, **more}


def sink(worker: Standalone, topic: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": f"{FILE}SinkConnector",
        "file": str(worker.folder / f"{topic}.out"),
        "topics": topic,
        **more,
    }


@pytest.mark.spark
def test_sources_and_sinks_run_by_stores_of_every_format(
    secure: SecureBroker, stores: Stores, worker: Standalone
) -> None:
    ways = {"worker": ({}, {})}
    for format in ("jks", "p12", "pem"):
        way = login(stores.trust[format], "SCRAM-SHA-256")
        ways[f"login-{format}"] = (overriding("producer", way), overriding("consumer", way))
    mutual = {"bootstrap.servers": secure.mutual, **certificate(stores.trust["jks"], stores.key["jks"])}
    ways["certificate"] = (overriding("producer", mutual), overriding("consumer", mutual))
    with worker.client() as client:
        for way, (produces, consumes) in ways.items():
            topic = f"secure-{way}"
            create_topic(secure.plain, topic)
            client.create_connector(f"in-{way}", source(worker, topic, **produces))
            client.create_connector(f"out-{way}", sink(worker, topic, **consumes))
    for way in ways:
        out = worker.folder / f"secure-{way}.out"
        eventually(
            lambda out=out, way=way: out.exists() and out.read_text() == hello(f"secure-{way}"),
            30,
            f"the lines of {way} arrive\n{worker.log_text()[-3000:]}",
        )
    with worker.client() as client:
        for way in ways:
            client.delete_connector(f"in-{way}")
            client.delete_connector(f"out-{way}")


@pytest.mark.spark
def test_a_wrong_password_fails_the_task_and_is_not_shown(
    secure: SecureBroker, stores: Stores, worker: Standalone
) -> None:
    bad = login(stores.trust["pem"], jaas=scram(password="wr0ng-secret"))
    create_topic(secure.plain, "secure-refused")
    with worker.client() as client:
        client.create_connector("refused-in", source(worker, "secure-refused", **overriding("producer", bad)))
        client.create_connector("refused-out", sink(worker, "secure-refused", **overriding("consumer", bad)))

    for name in ("refused-in", "refused-out"):
        trace = worker.await_task(name, RunState.FAILED)
        assert f"the broker at {secure.scram} refuses the login: Authentication failed" in trace.splitlines()[0]
        assert "wr0ng-secret" not in trace
    with worker.client() as client:
        client.delete_connector("refused-in")
        client.delete_connector("refused-out")


@pytest.mark.spark
def test_secrets_are_resolved_in_the_slot_and_shown_nowhere(secure: SecureBroker, worker: Standalone) -> None:
    secrets = worker.folder / "connector.properties"
    out = worker.folder / "found-in-the-slot.out"
    secrets.write_text(f"file={out}\n")
    reference = f"${{file:{secrets}:file}}"
    create_topic(secure.plain, "secure-slot")
    with worker.client() as client:
        client.create_connector("slot-in", source(worker, "secure-slot"))
        client.create_connector("slot-out", {**sink(worker, "secure-slot"), "file": reference})
        eventually(lambda: out.exists() and out.read_text() == hello("secure-slot"), 30, "the lines arrive")
        shown = [client.connector("slot-out").config["file"]]
        shown += [task.config["file"] for task in client.tasks("slot-out")]
        assert shown == [reference, reference]
        with pytest.raises(BadRequestError, match="cannot be resolved by the config provider file"):
            client.create_connector(
                "slot-none", {**sink(worker, "secure-slot"), "file": reference.replace(":file}", ":none}")}
            )
        client.delete_connector("slot-in")
        client.delete_connector("slot-out")
    log = worker.log_text()
    assert PASSWORD not in log
    assert STORE_PASSWORD not in log


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"sasl.jaas.config": scram(password="wr0ng-secret")}, "refuses the login: Authentication failed"),
        ({"sasl.jaas.config": "${env:KCONNECT_NOT_SET}"}, "${env:KCONNECT_NOT_SET} in sasl.jaas.config of the worker"),
        ({"ssl.truststore.password": "wr0ng-secret"}, "ssl.truststore.password does not open"),
    ],
)
def test_a_worker_that_is_refused_says_so_and_ends(
    secure: SecureBroker, stores: Stores, tmp_path: Path, change: dict[str, str], sentence: str
) -> None:
    file = write_properties(
        tmp_path / "worker.properties",
        {
            "bootstrap.servers": secure.scram,
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.file.filename": str(tmp_path / "offsets"),
            "listeners": "http://127.0.0.1:0",
            "config.providers": "env",
            "config.providers.env.class": "EnvVarConfigProvider",
            **login(stores.trust["jks"]),
            **change,
        },
    )
    ended = subprocess.run(
        [*connect_command(), "standalone", str(file)],
        cwd=tmp_path,
        env=cli_env(tmp_path),
        capture_output=True,
        text=True,
        timeout=ample_s(60),
    )

    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert "wr0ng-secret" not in ended.stdout + ended.stderr

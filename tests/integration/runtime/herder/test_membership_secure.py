"""Group members on a broker that asks for TLS, logins and client certificates; settings and stores are Java's."""

from __future__ import annotations

import uuid

import pytest

from kconnect.errors import ConnectError
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.security import access
from kconnect.runtime.herder.membership import Lost
from kit.group_members import Member
from kit.secure_broker import OAUTH, PASSWORD, STORE_PASSWORD, USER, Authority, jks_of, scram
from kit.waiting import eventually

pytestmark = [pytest.mark.broker]

PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";'
UNSECURED = f'{OAUTH} required unsecuredLoginStringClaim_sub="worker";'


@pytest.fixture
def trust(secure, tmp_path):
    return {
        "ssl.truststore.location": str(secure.authority.pkcs12(tmp_path / "trust.p12")),
        "ssl.truststore.password": STORE_PASSWORD,
    }


def login(mechanism, jaas):
    return {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def refusal(bootstrap, settings):
    """Why the broker, or the worker, does not go on."""
    found = access({"bootstrap.servers": bootstrap, **settings}, "w")
    with pytest.raises(ConnectError) as refused:
        Coordinator(found, "g", 10).connect().close()
    assert PASSWORD not in f"{refused.value} {refused.value.hint} {found!r}"
    return f"{refused.value} {refused.value.hint}"


@pytest.mark.parametrize(
    ("mechanism", "jaas"),
    [("PLAIN", PLAIN), ("SCRAM-SHA-256", scram()), ("SCRAM-SHA-512", scram()), ("OAUTHBEARER", UNSECURED)],
)
def test_a_member_logs_in(secure, trust, mechanism, jaas):
    group = f"secure-{uuid.uuid4().hex[:8]}"
    with Member(secure.scram, group, security=trust | login(mechanism, jaas)) as member:
        assert member.await_assigned().generation == 1


def test_a_member_outlives_its_login(secure, trust, caplog):
    with Member(
        secure.brief, f"outlives-{uuid.uuid4().hex[:8]}", security=trust | login("SCRAM-SHA-256", scram())
    ) as member:
        member.await_assigned()
        eventually(lambda: member.member.meter.heartbeats.count, 10, "the connection of its heartbeats is open")
        logins, lost = member.logins, member.unanswered

        def replaced() -> int:
            """Connections that it replaced in time; one that the broker closes costs a heartbeat and two logins."""
            made = member.logins - logins
            return made - 2 * (member.unanswered - lost)

        eventually(lambda: replaced() >= 2, 20, "it logs in again, twice, before the broker hangs up")
        member.member.request_rejoin("to see that it still may")
        member.await_assigned(2)
        assert not member.all(Lost)
    assert not [record for record in caplog.records if "could not tell it" in record.getMessage()]


@pytest.mark.parametrize("form", ["pem", "pkcs12", "jks"])
def test_a_member_shows_a_certificate_from_a_store_of_any_format(secure, trust, tmp_path, form):
    identity = secure.authority.issue("worker")
    store = {
        "pem": lambda: identity.pem(tmp_path / "own.pem"),
        "pkcs12": lambda: identity.pkcs12(tmp_path / "own.p12"),
        "jks": lambda: jks_of(identity.pkcs12(tmp_path / "own.p12")),
    }[form]()
    settings = {"security.protocol": "SSL", "ssl.keystore.location": str(store)}
    if form != "pem":
        settings["ssl.keystore.password"] = STORE_PASSWORD
    with Member(secure.mutual, f"secure-{uuid.uuid4().hex[:8]}", security=trust | settings) as member:
        member.await_assigned()


@pytest.mark.parametrize(
    ("mechanism", "jaas"),
    [("PLAIN", PLAIN.replace(PASSWORD, "wrong-one")), ("SCRAM-SHA-512", scram(password="wrong-one"))],
)
def test_a_wrong_password_ends_it_in_a_sentence(secure, trust, mechanism, jaas):
    said = refusal(secure.scram, trust | login(mechanism, jaas))
    assert "refuses the login" in said
    assert "sasl.jaas.config" in said
    assert "wrong-one" not in said


def test_a_broker_whose_certificate_is_not_trusted_is_named(secure, tmp_path):
    other = {
        "ssl.truststore.location": str(Authority("another").pkcs12(tmp_path / "other.p12")),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    said = refusal(secure.scram, other | login("SCRAM-SHA-512", scram()))
    assert "certificate of the broker at 127.0.0.1" in said
    assert "ssl.truststore.location" in said


def test_a_member_without_the_certificate_that_the_broker_wants_is_reported_so(secure, trust):
    said = refusal(secure.mutual, trust | {"security.protocol": "SSL"})
    assert "rejects this worker's certificate, or requires one" in said
    assert "ssl.keystore.location" in said

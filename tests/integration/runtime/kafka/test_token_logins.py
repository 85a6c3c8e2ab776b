"""Every client logs in by a token that a real HTTP endpoint gives: Strimzi's login, and OIDC with an identity pool."""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kconnect.runtime.config.client_config import admin_config, consumer_config, producer_config
from kconnect.runtime.kafka import KafkaAdmin, KafkaBatch, RecordConsumer, RecordProducer
from kit.group_members import ListensToNothing, Member
from kit.json_server import Server
from kit.secure_broker import OAUTH, STORE_PASSWORD, SecureBroker
from kit.topics import create_topic
from kit.waiting import eventually

pytestmark = pytest.mark.broker

STRIMZI = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"


def unsecured_token(life_s: int) -> str:
    """As the broker takes it: no identity provider signs it."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": "worker", "iat": now, "exp": now + life_s})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


@pytest.fixture
def endpoint() -> Iterator[Server]:
    server = Server()
    as_json = {"Content-Type": "application/json"}  # which librdkafka asks for
    server.answer = lambda *_: (200, as_json, {"access_token": unsecured_token(600), "expires_in": 600})
    yield server
    server.close()


@pytest.fixture(params=["strimzi", "oidc"])
def login(request: pytest.FixtureRequest, secure: SecureBroker, endpoint: Server, tmp_path: Any) -> dict[str, str]:
    """Settings of a worker file."""
    base = {
        "bootstrap.servers": secure.scram,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "ssl.truststore.location": str(secure.authority.pkcs12(tmp_path / "trust.p12")),
        "ssl.truststore.password": STORE_PASSWORD,
    }
    if request.param == "strimzi":
        options = f'oauth.token.endpoint.uri="{endpoint.url}" oauth.client.id="connect" oauth.client.secret="s"'
        return base | {
            "sasl.login.callback.handler.class": STRIMZI,
            "sasl.jaas.config": f'{OAUTH} required {options} oauth.audience="kafka";',
        }
    pool = 'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-1"'
    return base | {
        "sasl.oauthbearer.token.endpoint.url": endpoint.url,
        "sasl.jaas.config": f'{OAUTH} required clientId="connect" clientSecret="s" {pool};',
    }


def test_a_worker_and_the_clients_of_its_tasks_log_in_by_tokens(
    login: dict[str, str], secure: SecureBroker, endpoint: Server
) -> None:
    topic = f"tokens-{uuid.uuid4().hex[:8]}"
    create_topic(secure.plain, topic)
    own = {key: value for key, value in login.items() if key != "bootstrap.servers"}
    worker = login | {f"{client}.{key}": value for client in ("producer", "consumer") for key, value in own.items()}
    settings, warnings = admin_config(worker, client_id="a")
    assert warnings == []
    with KafkaAdmin(settings, "the test") as admin:
        assert eventually(lambda: admin.cluster_id(5.0), 20, "the admin client logs in")
    settings, warnings = producer_config(worker, {}, client_id="p")
    assert warnings == []
    producer = RecordProducer(settings, "p")
    ended: list[bool] = []
    failures: list[Any] = []
    delivery = producer.delivery(ended.append, lambda failure: failures.append(failure) or False)
    assert producer.send_batch(KafkaBatch(topic, None, None, [b"v"], None, None), delivery, lambda: False)
    delivery.complete()
    del delivery
    assert eventually(lambda: producer.serve() or ended, 20, "the record is written") == [True], failures
    producer.close()
    settings, warnings = consumer_config(worker, {}, client_id="c", group_id=topic)
    assert warnings == []
    consumer = RecordConsumer(settings, "c")
    consumer.subscribe([topic], ListensToNothing())
    runs = eventually(lambda: consumer.fetch(10, 0.1), 20, "the record is read")
    assert runs[0].values == [b"v"]
    consumer.close()
    with Member(secure.scram, f"{topic}-workers", security=own) as member:
        assert member.await_assigned().generation == 1
    assert len(endpoint.bodies) >= 4

"""Which errors of a client are refusals of a login or a certificate, and which only a connection that broke."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from kconnect.runtime.kafka.auth_errors import is_hang_up, is_refusal

_HUNG_UP = (
    "sasl_ssl://127.0.0.1:9093/1: Disconnected (after 12ms in state AUTH_REQ)",
    "sasl_ssl://127.0.0.1:9093/1: Send failed: Broken pipe (after 3ms in state AUTH_HANDSHAKE)",
    "sasl_ssl://127.0.0.1:9093/1: Receive failed: Connection reset by peer (after 3ms in state AUTH_REQ)",
)


@pytest.mark.parametrize("text", _HUNG_UP)
def test_a_connection_that_breaks_in_a_login_refuses_nothing(text: str) -> None:
    assert is_hang_up(text)
    assert not is_refusal(KafkaError(KafkaError._AUTHENTICATION, text))


def test_a_login_that_is_refused_and_one_that_is_not_answered_are_distinguished() -> None:
    refused = "SASL authentication error: Authentication failed during authentication due to invalid credentials"
    assert is_refusal(KafkaError(KafkaError._AUTHENTICATION, refused))
    assert not is_hang_up(refused)
    assert not is_refusal(KafkaError(KafkaError._AUTHENTICATION, "SASL authentication timed out"))


def test_certificates_that_are_not_accepted_by_either_side_are_refusals() -> None:
    assert is_refusal(KafkaError(KafkaError._SSL, "ssl://b:9093: certificate verify failed (after 5ms in state X)"))
    assert is_refusal(KafkaError(KafkaError._SSL, "ssl://b:9093: sslv3 alert certificate unknown"))
    assert not is_refusal(KafkaError(KafkaError._SSL, "ssl://b:9093: wrong version number"))

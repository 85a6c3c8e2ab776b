"""Errors after which retrying will not help: a login or a certificate is refused.

librdkafka retries forever and says little about certificates. Source: AuthenticationException, which is
fatal to Java's clients.
"""

from __future__ import annotations

import re
import socket
import ssl
from typing import Final

from confluent_kafka import KafkaError

from kconnect.client.trust import trusting
from kconnect.errors import ConnectError

# A broker answers a handshake in milliseconds; this one only serves to improve an error message.
_ASK_TIMEOUT_S: Final = 3.0
_ADDRESS: Final = re.compile(r"^(?:[\w+.-]+://)?(\[[^\]]+\]|[^\s:/]+):(\d+)(?:/\w+)?: ")
_SUFFIX: Final = re.compile(r"\s*\(after \d+ms in state \w+[^)]*\)$")
# How a closed connection is reported depends on whether the client still writes by then
_HUNG_UP: Final = ("isconnected", "Broken pipe", "Connection reset")
_ALERT: Final = re.compile(r"alert ([\w ]*(?:certificate|unknown ca)[\w ]*)", re.IGNORECASE)


def is_refusal(error: KafkaError) -> bool:
    """Whether credentials or a certificate are refused. A broken connection does not count."""
    text = error.str()
    if error.code() in (KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED):
        return not is_hang_up(text) and "timed out" not in text
    return "certificate verify failed" in text or _ALERT.search(text) is not None


def is_hang_up(text: str) -> bool:
    """Whether the broker has closed the connection, which is all that it says to who speaks another protocol."""
    return any(sign in text for sign in _HUNG_UP)


def refusal_error(lead: str, error: KafkaError, ca_pem: str | None) -> ConnectError:
    """One sentence on who refuses what. Fetches the broker's certificate again to say what is wrong with it."""
    text = _SUFFIX.sub("", error.str())
    address = _ADDRESS.match(text)
    where = f"the broker at {address[1]}:{address[2]}" if address else "the broker"
    if "certificate verify failed" in text:
        why = _verdict(address[1].strip("[]"), int(address[2]), ca_pem) if address else None
        return ConnectError(
            f"{lead}: the certificate of {where} is not accepted: "
            f"{why or 'it has expired, is for another name, or its authority is not trusted'}.",
            hint="Renew the broker's certificate, or name what signed it in ssl.truststore.location of this client.",
        )
    if alert := _ALERT.search(text):
        return ConnectError(
            f"{lead}: {where} does not accept the certificate of this client, or misses one ({alert[1].strip()}).",
            hint="Name a key store with a certificate that the broker trusts in ssl.keystore.location of this client.",
        )
    said = (text[address.end() :] if address else text).removeprefix("SASL authentication error: ").rstrip(". ")
    return ConnectError(
        f"{lead}: {where} refuses the login: {said}.",
        hint="Correct sasl.jaas.config and sasl.mechanism of this client: producer., consumer. or admin. of the "
        "worker, or the connector's overrides.",
    )


def _verdict(host: str, port: int, ca_pem: str | None) -> str | None:
    """OpenSSL's verdict on the broker's certificate; None if unreachable or if it finds nothing wrong."""
    try:
        context = trusting(cadata=ca_pem)
        with (
            socket.create_connection((host, port), _ASK_TIMEOUT_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as err:
        return err.verify_message.rstrip(".")
    except (OSError, ValueError):
        return None

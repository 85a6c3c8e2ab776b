"""SASL's GSSAPI: whether a client would log in by it, and the words where the installed librdkafka cannot. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kconnect.runtime.config.client_tables import ClientKind

GSSAPI: Final = "GSSAPI"
OTHER_MECHANISMS: Final = (
    "Use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER, or install a confluent-kafka built with "
    "libsasl2 (pip install --no-binary confluent-kafka confluent-kafka)."
)
"""What to do, as a hint."""


def missing_mechanism(mechanism: str) -> str:
    """Why a mechanism does not work, as the end of a sentence."""
    kerberos = "Kerberos, " if mechanism == GSSAPI else ""
    return f"the installed librdkafka was built without {kerberos}sasl.mechanism={mechanism}"


def wants_kerberos(worker: Mapping[str, str], connector: Mapping[str, str | None], client: ClientKind) -> bool:
    """Whether a connector's own `sasl.mechanism` makes this client of its tasks log in by GSSAPI.

    One that logs in to nothing, as its `security.protocol` says, has no use for the mechanism.
    """
    override = f"{client}.override."
    if (connector.get(f"{override}sasl.mechanism") or "").strip() != GSSAPI:
        return False
    own = worker.get("security.protocol", "") if client == "admin" else ""  # as Java gives it to no other client
    protocol = connector.get(f"{override}security.protocol") or worker.get(f"{client}.security.protocol") or own
    return protocol.strip().upper().startswith("SASL_")

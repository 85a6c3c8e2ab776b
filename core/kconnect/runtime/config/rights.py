"""Rights that brokers refuse: who lacks which, and the `kafka-acls` line that grants them. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

from kconnect.runtime.config.client_security import security_settings

# As kafka-acls spells operations; one that is not here has one word
_WORDS: Final = {"DESCRIBE_CONFIGS": "DescribeConfigs", "ALTER_CONFIGS": "AlterConfigs"}
_OF_KERBEROS: Final = re.compile(r"[/@].*")


@dataclass(frozen=True, slots=True)
class Right:
    """One operation on one resource. `kind`: topic, group, transactional-id, or cluster, which has no name."""

    operation: str
    """Kafka's name of it, such as READ."""
    kind: str
    name: str = ""

    def __str__(self) -> str:
        if self.kind == "cluster":
            return f"{self.operation} on the cluster"
        return f"{self.operation} on {self.kind.replace('-', ' ')} {self.name}"


def transaction_rights(transactional_id: str) -> tuple[Right, ...]:
    """What a producer with this id needs, beside WRITE on its topics."""
    return tuple(Right(operation, "transactional-id", transactional_id) for operation in ("WRITE", "DESCRIBE"))


@dataclass(frozen=True, slots=True)
class Client:
    """Who a client is for its brokers, and where they are."""

    servers: str = ""
    principal: str | None = None
    """Such as `User:orders`; None where only the broker knows what it makes of a certificate or token."""

    def lacks(self, rights: Sequence[Right]) -> str:
        """`User:orders lacks READ on group connect-orders`."""
        return f"{self.principal or 'the principal of this client'} lacks {' and '.join(map(str, rights))}"

    def grant(self, rights: Collection[Right]) -> str:
        """The command that gives it these rights: a line for each resource, which may be copied as it is."""
        operations: dict[tuple[str, str], list[str]] = {}
        for right in rights:
            operations.setdefault((right.kind, right.name), []).append(right.operation)
        lines = [
            f"kafka-acls{f' --bootstrap-server {self.servers}' if self.servers else ''} --add"
            f" --allow-principal {quote(self.principal or 'User:NAME')}"
            f"{''.join(f' --operation {_WORDS.get(each, each.capitalize())}' for each in each_of)}"
            f" --{kind}{f' {quote(name)}' if name else ''}"
            for (kind, name), each_of in operations.items()
        ]
        return " && ".join(lines)


def client_of(settings: Mapping[str, Any]) -> Client:
    """Reads a client's settings as librdkafka takes them."""
    return Client(str(settings.get("bootstrap.servers", "")), _principal(settings))


def client_of_java(java: Mapping[str, str]) -> Client:
    """Reads a client's settings as Java takes them. Errors: as of `security_settings`."""
    return client_of({**java, **security_settings(java)[0]})


def _principal(settings: Mapping[str, Any]) -> str | None:
    """Source: DefaultKafkaPrincipalBuilder (Kafka 4.3), with its default rules for Kerberos."""
    protocol = str(settings.get("security.protocol", "PLAINTEXT")).strip().upper()
    if not protocol.startswith("SASL"):
        shows_itself = any(key.startswith(("ssl.key", "ssl.certificate")) for key in settings)
        return None if protocol == "SSL" and shows_itself else "User:ANONYMOUS"
    if name := settings.get("sasl.username"):
        return f"User:{name}"
    if name := settings.get("sasl.kerberos.principal"):
        return f"User:{_OF_KERBEROS.sub('', str(name))}"
    unsecured = re.search(r"\bprincipal=(\S+)", str(settings.get("sasl.oauthbearer.config", "")))
    return f"User:{unsecured[1]}" if unsecured else None

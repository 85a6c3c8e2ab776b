"""Broker addresses as Java's clients parse them: `host:port,[v6]:port`, optionally with a protocol prefix.

Source: ClientUtils.parseAndValidateAddresses, Utils.HOST_PORT_PATTERN (Kafka 4.3).
Differs: port 0, which Java accepts and never reaches, is refused.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Final

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError, ConfigProblem

Address = tuple[str, int]

_KEY: Final = "bootstrap.servers"
_HOST_PORT: Final = re.compile(r"(?:[0-9a-zA-Z\-%._]*://)?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)")
_HINT: Final = "Write each broker as host:port, such as localhost:9092 or [::1]:9092; ports go from 1 to 65535."
# Clients whose settings a worker file may contain, each with its own brokers
_CLIENTS: Final = ("", "producer.", "consumer.", "admin.")


def parse_servers(text: str, key: str = _KEY) -> tuple[Address, ...]:
    """Hosts and ports in order. Errors: ConfigError with Java's message, `key` replacing `bootstrap.servers`.

    An empty host is this machine, as in Java. Hosts are not looked up; `localhost:` of `localhost::9092` never exists,
    and is dropped if there are others.
    """
    items = parse_type(key, text, ConfigDef.Type.LIST)
    if "" in items:
        raise _refused(key, text, f"Configuration '{key}' values must not be empty.")
    found = [_parsed(item, text, key) for item in items]
    if not (possible := tuple(address for address in found if _can_exist(address[0]))):
        raise _refused(key, text, f"No resolvable bootstrap urls given in {key}")
    return possible


def canonical_servers(text: str, key: str = _KEY) -> str:
    """The addresses spelled for librdkafka, which reads some of Java's differently. Errors: as parse_servers."""
    return ",".join(address_text(address) for address in parse_servers(text, key))


def check_servers(worker: Mapping[str, str]) -> None:
    """Check all broker addresses in a worker file. Errors: ConfigError."""
    for client in _CLIENTS:
        key = f"{client}{_KEY}"
        if key in worker:
            parse_servers(worker[key], key)


def address_text(address: Address) -> str:
    """`host:port`, an IPv6 address in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _parsed(item: str, text: str, key: str) -> Address:
    match = _HOST_PORT.fullmatch(item)
    if match is None:
        raise _refused(key, text, f"Invalid url in {key}: {item}")
    host, port = match[1], int(match[2])
    if not 0 < port < 65_536:
        raise _refused(key, text, f"Invalid port in {key}: {item}")
    return host or "localhost", port


def _can_exist(host: str) -> bool:
    """Only IPv6 addresses may contain colons."""
    if ":" not in host:
        return True
    try:
        socket.inet_pton(socket.AF_INET6, host.partition("%")[0])
    except OSError:
        return False
    return True


def _refused(key: str, value: str, message: str) -> ConfigError:
    return ConfigError(message, [ConfigProblem(key, value, message)], hint=_HINT)

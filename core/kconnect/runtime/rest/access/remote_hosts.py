"""Which settings of a config name hosts that a connector connects to, and which patterns hold them. Text only, no I/O.

What cannot be read as a host is given as it stands, so that no pattern but `*` holds it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote

_HOST_KEY: Final = re.compile(
    r"(?:^|[._-])(?:host|hosts|hostname|hostaddr|server|servers|endpoint|endpoints|address|addresses|nodes|broker\.list|"
    r"contact[._-]?points)$",
    re.IGNORECASE,
)
_URL_KEY: Final = re.compile(r"(?:^|[._-])(?:url|urls|uri|dsn)$", re.IGNORECASE)
# What is sent or written, and not connected to
_TEXT_KEY: Final = re.compile(r"^header\.|\.(?:static\.value|replacement)$")
_URL: Final = re.compile(r"([A-Za-z][\w.+-]*)://([^/?#\s\"']*)")
_HTTP: Final = frozenset({"http", "https"})
# Whose authority is a bucket, or nothing: no host
_NO_HOST: Final = frozenset({"s3", "s3a", "s3n", "gs", "gcs", "oss", "abfs", "abfss", "az", "adl", "file", "local"})
_FILES: Final = re.compile(r"^(?:jdbc:)?(?:sqlite|duckdb|h2|hsqldb|derby)\b", re.IGNORECASE)
# As drivers of databases and stores name them behind a URL, within it, or instead of one
_PARAMETER: Final = re.compile(
    r"""\b(?:host|hostaddr|hostname|server|servername|data source)["']?\s*[=:]\s*["']?([^&;\s)'",]+)""", re.IGNORECASE
)
_BEHIND_AT: Final = re.compile(r"@(?://)?([^/?#@\s:;,)]+(?::\d+)?)")
_HOST_AND_PORT: Final = re.compile(r"([\w.-]+:\d+)(?:/.*)?")
_HOST: Final = re.compile(r"\[([0-9a-f:.]+)\](?::(\d+))?|([a-z0-9_.-]+)(?::(\d+))?")
_ESCAPED: Final = re.compile(r"\\(?:/|u([0-9A-Fa-f]{4}))")
_DRIVER: Final = "connection.driver"
_LOCALHOST: Final = "localhost"


def remote_hosts(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Settings that name hosts: each `host` or `host:port`, as it stands there but in lower case.

    A URL names one wherever it is; a database without a host is this machine's.
    """
    names_any = False
    for key, value in config.items():
        if key == "name" or key.endswith((".class", ".classes")) or _TEXT_KEY.search(key):
            continue
        text = re.sub(r"[\t\r\n]", "", value.strip())  # clients leave these out of a URL
        found = dict.fromkeys(host.lower() for host in _hosts(key, text) if host)
        names_any = names_any or (bool(found) and key.startswith("connection."))
        yield from ((key, host) for host in found)
    if config.get(_DRIVER, "").strip() not in ("", "sqlite3") and not names_any:
        yield _DRIVER, _LOCALHOST


def _hosts(key: str, text: str) -> Iterator[str]:
    is_url = _URL_KEY.search(key) is not None
    of_json = _ESCAPED.sub(lambda found: chr(int(found[1] or "2f", 16)), text)
    for one in dict.fromkeys((text, of_json)):
        yield from _in_urls(one)
        if is_url or one.startswith("{"):
            yield from _PARAMETER.findall(unquote(one))
    if is_url:
        yield from _of_other_url(text)
    elif _HOST_KEY.search(key) and "://" not in text and not text.startswith("{"):
        parts = [part.strip() for part in text.split(",")]
        yield from [part.rpartition("/")[2] for part in parts] if key == "mongodb.hosts" else parts


def _in_urls(text: str) -> Iterator[str]:
    for scheme, authority in _URL.findall(text):
        if scheme.lower() in _NO_HOST or _FILES.match(scheme):
            continue
        if scheme.lower() in _HTTP:
            yield authority.rpartition("@")[2]
            continue
        hosts = authority.rpartition("@")[2].partition(";")[0]
        yield from [host.strip().partition("\\")[0] for host in hosts.split(",")] if hosts else [_LOCALHOST]
        yield from _BEHIND_AT.findall(text)  # as drivers let a password have any sign


def _of_other_url(text: str) -> Iterator[str]:
    """Hosts of a URL without two slashes, of a database or of a server; a reference may become any."""
    if text.startswith("${"):
        yield text
    elif "://" in text or _FILES.match(text):
        return
    elif text.lower().startswith("jdbc:"):
        yield from _BEHIND_AT.findall(text) or [_LOCALHOST]
    elif found := _HOST_AND_PORT.fullmatch(text):
        yield found[1]


def holds_host(pattern: str, host: str) -> bool:
    """Whether a pattern of a grant holds a host: a name with `*` and `?`, an address, or a network, and perhaps a port.

    A name is not looked up: no network holds it.
    """
    if pattern == "*":
        return True
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name, port = found[1] or found[3].rstrip("."), found[2] or found[4]
    if (network := _network(pattern)) is not None:
        address = _network(name)
        return address is not None and address.version == network.version and address.subnet_of(network)  # type: ignore[arg-type]  # of one version
    wanted = re.fullmatch(r"(?:\[(.*)\]|([^:]*))(?::(\d+))?", pattern.lower())
    if wanted is None:
        return False
    return fnmatchcase(name, wanted[1] or wanted[2]) and wanted[3] in (None, port)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text.strip("[]"), strict=False)
    except ValueError:
        return None

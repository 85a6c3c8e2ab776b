"""Settings of the registry's client, by the keys that Confluent's converters have."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from kconnect.api import ConfigDef, ConfigError, Password

if TYPE_CHECKING:
    import ssl

URLS: Final = "schema.registry.url"
_PREFIX: Final = "schema.registry."
_BASIC_SOURCE: Final = "basic.auth.credentials.source"
_USER_INFO: Final = "basic.auth.user.info"
_BEARER_SOURCE: Final = "bearer.auth.credentials.source"
_TOKEN: Final = "bearer.auth.token"
_PASSWORDS: Final = (
    "ssl.keystore.password", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.certificate.chain",
    "ssl.truststore.password", "ssl.truststore.certificates",
)  # fmt: skip
_PLAIN_SSL: Final = (
    "ssl.keystore.location", "ssl.keystore.type", "ssl.truststore.location", "ssl.truststore.type",
    "ssl.endpoint.identification.algorithm",
)  # fmt: skip
_HEADER: Final = "request.header."
_TLS: Final = "TLS with the registry: {} as Kafka's clients have it."


def define_registry(table: ConfigDef) -> ConfigDef:
    """Add the client's settings to a converter's table. Source: AbstractKafkaSchemaSerDeConfig."""
    kind, high, medium, low = (
        ConfigDef.Type,
        ConfigDef.Importance.HIGH,
        ConfigDef.Importance.MEDIUM,
        ConfigDef.Importance.LOW,
    )
    table.define(
        URLS, kind.LIST, ConfigDef.NO_DEFAULT, None, high,
        "Addresses of the schema registry, separated by commas; the next is asked when one does not answer.",
    )  # fmt: skip
    table.define(
        _BASIC_SOURCE, kind.STRING, "URL", ConfigDef.ValidString.in_("URL", "USER_INFO"), medium,
        "Where the user for basic authentication is: URL (in the address) or USER_INFO (in basic.auth.user.info).",
    )  # fmt: skip
    table.define(_USER_INFO, kind.PASSWORD, "", None, medium, "User and password, as user:password.")
    table.define(
        _PREFIX + _USER_INFO, kind.PASSWORD, "", None, medium, "The same, by the name it had first.",
    )  # fmt: skip
    table.define(
        _BEARER_SOURCE, kind.STRING, None, None, medium,
        "Where the bearer token is: STATIC_TOKEN (in bearer.auth.token).",
    )  # fmt: skip
    table.define(_TOKEN, kind.PASSWORD, "", None, medium, "Token sent as bearer authentication.")
    table.define(
        "http.connect.timeout.ms", kind.INT, 60000, ConfigDef.Range.at_least(1), low,
        "How long a connection to the registry may take.",
    )  # fmt: skip
    table.define(
        "http.read.timeout.ms", kind.INT, 60000, ConfigDef.Range.at_least(1), low,
        "How long one answer of the registry may take as a whole.",
    )  # fmt: skip
    for name in _PLAIN_SSL:
        table.define(
            _PREFIX + name,
            kind.STRING,
            None,
            None,
            low,
            _TLS.format(name),
        )
    for name in _PASSWORDS:
        table.define(
            _PREFIX + name,
            kind.PASSWORD,
            None,
            None,
            low,
            _TLS.format(name),
        )
    return table


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """Where the registry is and who we are to it."""

    urls: tuple[str, ...]  # without user and password
    authorizations: tuple[str | None, ...] = field(repr=False)  # one a URL
    headers: Mapping[str, str] = field(repr=False)
    connect_timeout_s: float
    read_timeout_s: float
    tls: Mapping[str, str] = field(repr=False)

    def context(self) -> ssl.SSLContext:
        """What TLS checks and shows. Errors: ConfigError that names the setting."""
        from kconnect.java.compat.tls_contexts import client_context

        return client_context(self.tls, _PREFIX)


def registry_settings(config: Mapping[str, Any], given: Mapping[str, Any]) -> RegistrySettings:
    """From the parsed table and the settings as given. Errors: ConfigError."""
    urls = [url.strip().rstrip("/") for url in config[URLS] if url.strip()]
    if not urls:
        raise ConfigError.invalid(URLS, None, "an address such as http://localhost:8081 is needed")
    plain, users = [], []
    for url in urls:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigError.invalid(URLS, _without_user(url), str(error)) from error
        if parts.scheme not in ("http", "https") or not host:
            raise ConfigError.invalid(URLS, _without_user(url), "expected http://HOST:PORT or https://HOST:PORT")
        shown = f"[{host}]" if ":" in host else host
        plain.append(urlunsplit((parts.scheme, f"{shown}:{port}" if port else shown, parts.path, "", "")))
        users.append(parts.netloc.rpartition("@")[0])
    tls = {
        name: _text(config[_PREFIX + name]) for name in (*_PLAIN_SSL, *_PASSWORDS) if config[_PREFIX + name] is not None
    }
    return RegistrySettings(
        tuple(plain),
        tuple(_authorization(config, unquote(user)) for user in users),
        {key.removeprefix(_HEADER): str(value) for key, value in given.items() if key.startswith(_HEADER)},
        config["http.connect.timeout.ms"] / 1000,
        config["http.read.timeout.ms"] / 1000,
        tls,
    )


def _authorization(config: Mapping[str, Any], url_user: str) -> str | None:
    token = _text(config[_TOKEN])
    source = config[_BEARER_SOURCE]
    if source is not None and source != "STATIC_TOKEN":
        raise ConfigError.invalid(
            _BEARER_SOURCE, source, "only STATIC_TOKEN works here: give the token in bearer.auth.token"
        )
    if source == "STATIC_TOKEN" and not token:
        raise ConfigError.invalid(_TOKEN, None, f"{_BEARER_SOURCE}=STATIC_TOKEN needs it")
    if source is not None:
        return f"Bearer {token}"
    user = url_user
    if config[_BASIC_SOURCE] == "USER_INFO":
        user = _text(config[_USER_INFO]) or _text(config[_PREFIX + _USER_INFO])
        if not user:
            raise ConfigError.invalid(_USER_INFO, None, f"{_BASIC_SOURCE}=USER_INFO needs it, as user:password")
    return f"Basic {base64.b64encode(user.encode()).decode()}" if user else None


def _text(value: Any) -> str:
    if isinstance(value, Password):
        return value.value
    return "" if value is None else str(value)


def _without_user(url: str) -> str:
    return url.rpartition("@")[2] if "@" in url else url

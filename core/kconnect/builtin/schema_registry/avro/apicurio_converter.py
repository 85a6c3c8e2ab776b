"""Apicurio's AvroConverter where its records are Confluent's: the same mapping, by Apicurio's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit, urlunsplit

from kconnect.api import ConfigDef, ConfigError, Converter, Headers, Password, Schema, SchemaAndValue
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter, define_mapping
from kconnect.builtin.schema_registry.registry.registration import define_rows
from kconnect.builtin.schema_registry.registry.registry_http import RegistryTransport
from kconnect.model import CONNECT_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

_PREFIX: Final = "apicurio.registry."
_URL: Final = f"{_PREFIX}url"
_AUTO: Final = f"{_PREFIX}auto-register"
_LATEST: Final = f"{_PREFIX}find-latest"
_CONFLUENT: Final = f"{_PREFIX}as-confluent"
_HANDLER: Final = f"{_PREFIX}id-handler"
_USE_ID: Final = f"{_PREFIX}use-id"
_HEADERS: Final = f"{_PREFIX}headers.enabled"
_RESOLVER: Final = f"{_PREFIX}artifact-resolver-strategy"
_USER: Final = f"{_PREFIX}auth.username"
_PASSWORD: Final = f"{_PREFIX}auth.password"
_FOUR_BYTES: Final = ("Legacy4ByteIdHandler", "Default4ByteIdHandler")
_API: Final = re.compile(r"/apis/registry/v(\d)$")


def _config() -> ConfigDef:
    kind, high, medium, low = (
        ConfigDef.Type,
        ConfigDef.Importance.HIGH,
        ConfigDef.Importance.MEDIUM,
        ConfigDef.Importance.LOW,
    )
    rows: tuple[tuple[str, Any, Any, Any, str], ...] = (
        (_URL, kind.STRING, ConfigDef.NO_DEFAULT, high, "Address of the registry, such as http://HOST:8080/apis/registry/v3."),
        (_AUTO, kind.BOOLEAN, False, medium, "Whether new schemas are registered."),
        (_LATEST, kind.BOOLEAN, False, medium, "Write with the newest schema of the artifact."),
        (_CONFLUENT, kind.BOOLEAN, False, medium, "Whether ids have four bytes, as Confluent's."),
        (_HANDLER, kind.STRING, None, low, "Class that writes ids: Legacy4ByteIdHandler or Default4ByteIdHandler."),
        (_USE_ID, kind.STRING, None, low, "Which id is written: contentId."),
        (_HEADERS, kind.BOOLEAN, False, low, "Whether ids are in headers; must be false."),
        (_RESOLVER, kind.STRING, "TopicIdStrategy", low, "How artifacts are named: TopicIdStrategy."),
        (_USER, kind.STRING, None, medium, "User for basic authentication."),
        (_PASSWORD, kind.PASSWORD, None, medium, "Password for basic authentication."),
    )  # fmt: skip
    return define_mapping(define_rows(ConfigDef(), rows))


CONFIG: Final = _config()


class ApicurioAvroConverter(Converter):
    """Source: io.apicurio.registry.utils.converter.AvroConverter (2.x, 3.x), with ids of four bytes.

    Differs: refuses at configuration what is not Confluent's wire format; asks the registry by its Confluent API.
    """

    def __init__(self, transport: RegistryTransport | None = None) -> None:
        """`transport` stands in for the network."""
        self._avro = AvroConverter(transport)

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        self._avro.configure(confluent_settings(configs), is_key)

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        return self._avro.from_connect_data(topic, schema, value, headers)

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        return self._avro.to_connect_data(topic, value, headers)

    def from_connect_batch(
        self, topic: str, schema: Schema | None, column: pa.Array
    ) -> pa.BinaryArray | NotImplementedType:
        return self._avro.from_connect_batch(topic, schema, column)

    def to_connect_batch(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, pa.Array] | Any:  # Any: mypy takes NotImplemented for it
        return self._avro.to_connect_batch(topic, column)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return CONNECT_VERSION


def confluent_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """AvroConverter's settings for Apicurio's. Errors: ConfigError for records that would not be Confluent's."""
    config = CONFIG.parse(given)
    url = config[_URL].rstrip("/")
    api = _API.search(url)
    if api is None and "/apis/ccompat/" not in url:
        raise ConfigError.invalid(
            _URL, url, "expected an address that ends with /apis/registry/v2 or /apis/registry/v3"
        )
    _require_confluents_form(config, is_new=api is not None and int(api[1]) >= 3)
    return {
        **{key: value for key, value in given.items() if not key.startswith(_PREFIX)},
        "schema.registry.url": _with_user(_API.sub("/apis/ccompat/v7", url), config),
        "auto.register.schemas": config[_AUTO],
        "use.latest.version": config[_LATEST],
    }


def _require_confluents_form(config: Mapping[str, Any], *, is_new: bool) -> None:
    """`is_new`: since 3, four bytes and contentId are what Apicurio writes by itself."""
    handler = config[_HANDLER]
    has_four = handler.rpartition(".")[2] in _FOUR_BYTES if handler else config[_CONFLUENT] or is_new
    if not has_four:
        raise ConfigError.invalid(
            _HANDLER,
            handler,
            f"only ids of four bytes, as Confluent's, can be written and read here: set {_CONFLUENT}=true",
        )
    use_id = config[_USE_ID] or ("contentId" if is_new else "globalId")
    if use_id != "contentId":
        raise ConfigError.invalid(
            _USE_ID, use_id, "only contentId works here: it is the id in the registry's Confluent API"
        )
    if config[_HEADERS]:
        raise ConfigError.invalid(_HEADERS, True, "ids in headers cannot be read or written here: set it to false")
    strategy = config[_RESOLVER].rpartition(".")[2]
    if strategy not in ("TopicIdStrategy", "TopicNameStrategy"):
        raise ConfigError.invalid(_RESOLVER, config[_RESOLVER], "only TopicIdStrategy works here")


def _with_user(url: str, config: Mapping[str, Any]) -> str:
    user, password = config[_USER], config[_PASSWORD]
    if user is None:
        return url
    parts = urlsplit(url)
    secret = password.value if isinstance(password, Password) else ""
    return urlunsplit(parts._replace(netloc=f"{quote(user, safe='')}:{quote(secret, safe='')}@{parts.netloc}"))

"""Decoders of the fields of records: by a schema registry, or by a connector's converters.

A registry says of the id in the bytes whether they are Avro, Protobuf or JSON Schema. Converters are those of the
connector, and behind them of the worker, as its tasks would use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kconnect.admin.records.decoding import Decoded, FieldDecoder, RecordDecoder
from kconnect.admin.records.guess import GuessDecoder, guess, wire_schema_id
from kconnect.api import Converter, HeaderConverter, SchemaAndValue
from kconnect.errors import ConnectError, RetriableError
from kconnect.runtime.config.connector_config import prefixed
from kconnect.runtime.config.worker_config import STANDALONE_CONFIG

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

_KINDS: Final = (
    ("avro", "io.confluent.connect.avro.AvroConverter"),
    ("protobuf", "io.confluent.connect.protobuf.ProtobufConverter"),
    ("json schema", "io.confluent.connect.json.JsonSchemaConverter"),
)
URL: Final = "schema.registry.url"
# A person waits; a registry that is there answers in milliseconds
_TIMEOUTS: Final = {"http.connect.timeout.ms": "3000", "http.read.timeout.ms": "5000"}


# Converters that take everything for text or bytes say less than the guess does
_SAY_NOTHING: Final = ("StringConverter", "ByteArrayConverter")
_OF_REGISTRY: Final = ("schema.registry.", "basic.auth.", "bearer.auth.", "http.")
_PARTS: Final = ("key.converter", "value.converter")


def record_decoder(
    worker: Mapping[str, str],
    plugins: PluginRegistry,
    *,
    config: Mapping[str, str] | None = None,
    registry: str | None = None,
) -> RecordDecoder:
    """Decodes as the tasks of a connector with this config do, else by a registry or the worker's converters.

    What that cannot read is looked up in the registry, if one is known, and guessed. Errors: ConfigError for a
    converter that is not here.
    """
    settings = registry_settings(worker, registry)
    rest: FieldDecoder = RegistryDecoder(settings, plugins) if settings else GuessDecoder()
    if config is not None:
        return converter_decoder(config, worker, plugins, otherwise=rest)
    if registry is not None:
        return RecordDecoder(rest, rest, GuessDecoder())
    telling = {
        key: value
        for key, value in worker.items()
        if not any(_says_nothing(worker, part) and key.startswith(part) for part in _PARTS)
    }
    if any(part in telling for part in _PARTS):
        return converter_decoder({}, telling, plugins, is_lenient=True, otherwise=rest)
    return RecordDecoder(rest, rest, GuessDecoder())


def registry_settings(worker: Mapping[str, str], url: str | None) -> dict[str, str]:
    """Settings of the registry's client: of the URL that was given, or the worker's converters; else none."""
    if url:
        return {"schema.registry.url": url}
    for part in reversed(_PARTS):
        prefix = f"{part}."
        if worker.get(f"{prefix}schema.registry.url"):
            inner = {key.removeprefix(prefix): value for key, value in worker.items() if key.startswith(prefix)}
            return {key: value for key, value in inner.items() if key.startswith(_OF_REGISTRY)}
    return {}


def _says_nothing(worker: Mapping[str, str], part: str) -> bool:
    return worker.get(part, "").rpartition(".")[2] in _SAY_NOTHING


class RegistryDecoder:
    """Decodes bytes with a schema id; others, and all once the registry does not answer, go to the guess.

    `settings`: `schema.registry.url` and what Confluent's converters take beside it (user, TLS).
    Threads: one at a time. Errors: ConfigError of the settings, when the first schema is asked for.
    """

    def __init__(
        self, settings: Mapping[str, str], plugins: PluginRegistry, *, otherwise: FieldDecoder | None = None
    ) -> None:
        self._settings = {**_TIMEOUTS, **settings}
        self._plugins = plugins
        self._otherwise = otherwise or GuessDecoder()
        self._converters: dict[str, Converter] = {}
        self._kinds: dict[int, tuple[str, str]] = {}
        """Which converter read the records of an id."""
        self._refused: dict[int, str] = {}
        """Ids of which the registry has no schema, and its words."""
        self.away: str | None = None
        """Why the registry is not asked any more: it did not answer."""

    @classmethod
    def of_all(cls, settings: Mapping[str, str], plugins: PluginRegistry) -> RecordDecoder:
        """A decoder of whole records: keys and values by the registry, headers guessed."""
        found = cls(settings, plugins)
        return RecordDecoder(found, found, GuessDecoder())

    def decode(self, topic: str, data: bytes | None, header: str | None = None) -> Decoded:
        schema_id = wire_schema_id(data)
        if data is None or schema_id is None:
            return self._otherwise.decode(topic, data)
        problem = self.away or self._refused.get(schema_id)
        if problem is not None:
            return replace(guess(data), problem=problem)
        first: Exception | None = None
        for word, name in [self._kinds[schema_id]] if schema_id in self._kinds else _KINDS:
            converter = self._converter(name)
            try:
                found = converter.to_connect_data(topic, data)
            except RetriableError as err:
                self.away = f"The schema registry does not answer: {err}"
                return replace(guess(data), problem=self.away)
            except Exception as err:
                if not _is_of_another_type(err):
                    first = first or err
                    if not isinstance(err, ConnectError):
                        break
                continue
            self._kinds[schema_id] = word, name
            return Decoded(found.value, f"{word}, schema {schema_id}", found.schema)
        return replace(guess(data), problem=str(first) if first else f"The schema {schema_id} is of an unknown type")

    def close(self) -> None:
        for converter in self._converters.values():
            converter.close()
        self._converters.clear()

    def _converter(self, name: str) -> Converter:
        if name not in self._converters:
            from kconnect.runtime.pipeline.plugin_call import (
                plugin_call,  # here: its room is large, and a guess needs none
            )

            kind = self._plugins.converter(name)
            with plugin_call(kind, "configure"):
                made: Converter = kind()
                made.configure(self._settings, False)
            self._converters[name] = made
        return self._converters[name]


def _is_of_another_type(error: Exception) -> bool:
    """Whether a converter says that the schema is none of its own."""
    return ", not " in str(error) and " is of type " in str(error)


KEY, VALUE, HEADER = "key.converter", "value.converter", "header.converter"
_KEYS: Final = (KEY, VALUE, HEADER)


def converter_decoder(
    connector: Mapping[str, str],
    worker: Mapping[str, str],
    plugins: PluginRegistry,
    *,
    is_lenient: bool = False,
    otherwise: FieldDecoder | None = None,
) -> RecordDecoder:
    """Decodes as the tasks of a connector do: its converters, or the worker's where it names none.

    A part for which neither names one is left to `otherwise`, by default the guess. Both configs as they are written:
    references in them (`${file:..}`) are resolved by the worker's providers. `is_lenient`: what a converter cannot read
    is no problem, but guessed. An empty `connector` gives the worker's converters.
    Errors: ConfigError, NotFoundError for a converter that is not installed here, cannot be configured, or whose
    settings refer to a secret that is not here.
    """
    rest = otherwise or GuessDecoder()

    def part(key: str) -> FieldDecoder:
        name = connector.get(key) or worker.get(key) or _default(key)
        if not name:
            return rest
        settings = _settings(connector if connector.get(key) else worker, worker, key)
        if key == HEADER:
            return _HeaderDecoder(_header_converter(name, settings, plugins))
        return _ConverterDecoder(_converter(name, settings, plugins, is_key=key == KEY), rest, is_lenient=is_lenient)

    return RecordDecoder(*map(part, _KEYS))


class _ConverterDecoder:
    """One converter, with the guess behind it."""

    def __init__(self, converter: Converter, otherwise: FieldDecoder, *, is_lenient: bool) -> None:
        self._converter = converter
        self._name = type(converter).__name__
        self._otherwise = otherwise
        self._is_lenient = is_lenient

    def decode(self, topic: str, data: bytes | None, header: str | None = None) -> Decoded:
        if data is None:
            return Decoded(None, "null")
        try:
            found = self._converter.to_connect_data(topic, data)
        except Exception as err:
            guessed = self._otherwise.decode(topic, data)
            return guessed if self._is_lenient else replace(guessed, problem=refusal(self._name, err))
        return Decoded(found.value, self._name, found.schema)

    def close(self) -> None:
        self._converter.close()


class _HeaderDecoder:
    """A header converter; what it cannot read is guessed."""

    def __init__(self, converter: HeaderConverter) -> None:
        self._converter = converter
        self._name = type(converter).__name__

    def decode(self, topic: str, data: bytes | None, header: str | None = None) -> Decoded:
        if data is None:
            return Decoded(None, "null")
        try:
            found: SchemaAndValue = self._converter.to_connect_header(topic, header or "", data)
        except Exception as err:
            return replace(guess(data), problem=refusal(self._name, err))
        return Decoded(found.value, self._name, found.schema)

    def close(self) -> None:
        self._converter.close()


def refusal(converter: str, error: BaseException) -> str:
    """A sentence: what the converter says of bytes that it cannot read."""
    return f"{converter} cannot read it: {error or type(error).__name__}"


def _settings(config: Mapping[str, str], worker: Mapping[str, str], key: str) -> dict[str, str]:
    """The converter's settings, with references resolved; nothing else of the config is looked up."""
    found = {name: value for name, value in config.items() if name.startswith(f"{key}.") and value is not None}
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(worker)
    try:
        return prefixed(variables.resolve(found, key).values, f"{key}.")
    finally:
        variables.close()


def _converter(name: str, settings: Mapping[str, str], plugins: PluginRegistry, *, is_key: bool) -> Converter:
    from kconnect.runtime.pipeline.plugin_call import (
        plugin_call,  # here: its room is large, and a guess needs none of it
    )

    kind = plugins.converter(name)
    with plugin_call(kind, "configure"):
        made: Converter = kind()
        made.configure(settings, is_key)
    return made


def _header_converter(name: str, settings: Mapping[str, str], plugins: PluginRegistry) -> HeaderConverter:
    from kconnect.runtime.pipeline.plugin_call import plugin_call  # as above

    kind = plugins.header_converter(name)
    with plugin_call(kind, "configure"):
        made: HeaderConverter = kind()
        made.configure({**settings, "converter.type": "header"})
    return made


def _default(key: str) -> str | None:
    """The worker's default: that of headers; keys and values have none."""
    default = STANDALONE_CONFIG.config_keys[key].default
    return default if isinstance(default, str) else None

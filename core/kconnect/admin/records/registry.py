"""A decoder by a schema registry: Avro, Protobuf or JSON Schema, as the registry says of the id in the bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kconnect.admin.records.decoding import Decoded, FieldDecoder, RecordDecoder
from kconnect.admin.records.guess import GuessDecoder, guess, wire_schema_id
from kconnect.api import Converter
from kconnect.errors import ConnectError, RetriableError

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

"""Converters: between Connect data and the bytes in Kafka."""

# ruff: noqa: B027 - hooks are optional: an empty body is intended
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import NotImplementedType
from typing import TYPE_CHECKING, Any

from kconnect.api.headers import Headers
from kconnect.api.schema import Schema, SchemaAndValue

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.api.configdef import ConfigDef


class Converter(ABC):
    """Turns keys or values into bytes for Kafka and back: `key.converter`, `value.converter`.

    The runtime creates one object for keys and one for values per task, without arguments, then calls configure, the
    conversions, close. All on the task's thread. Source: o.a.k.connect.storage.Converter.
    """

    ignores_headers: bool = False
    """Whether it never looks at a record's headers: then batches with headers go by `from_connect_batch` too."""
    keeps_digits: bool = False
    """Set by the runtime, before configure, where a schema is declared for what it reads: fractions without schema that
    no double holds are then Decimals, which Java would round."""

    @abstractmethod
    def configure(self, configs: Mapping[str, Any], is_key: bool) -> None:
        """Read the settings: those after `key.converter.` or `value.converter.`, as text. Called once, first.

        Must not block for long. Errors: ConfigError; any error fails the task.
        """

    @abstractmethod
    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        """The bytes to produce; None is a null in Kafka (a tombstone).

        Called for each source record after its transforms, never for sink records. A schema of None means a schemaless
        value. `headers` are the record's (the converter may add some), None if it has none.
        Must not block, except for cached look-ups.
        Errors: DataError (and others) are tolerated or fail the task as `errors.tolerance` says.
        """

    @abstractmethod
    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        """The schema and value of bytes that were consumed.

        Called for each sink record before its transforms, with None for a null. Equal schemas should be the same
        object, as later steps cache by it. Must not block, except for cached look-ups.
        Errors: as for from_connect_data.
        """

    def from_connect_batch(
        self, topic: str, schema: Schema | None, column: pa.Array
    ) -> pa.BinaryArray | NotImplementedType:
        """The columnar form of `from_connect_data`, byte for byte; or NotImplemented.

        Called instead of it if the records came as a batch without headers. If it raises, the runtime converts that
        batch record by record, so that the error names the record that caused it. Column types: see `RecordBatch`.
        """
        return NotImplemented

    def to_connect_batch(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, pa.Array] | NotImplementedType:
        """The columnar form of `to_connect_data`: one schema for all rows, and the column; or NotImplemented.

        Called instead of it if the task or later transforms accept batches. If it raises: record by record, and what
        it raised is shown as the reason.
        """
        return NotImplemented  # type: ignore[no-any-return]  # mypy has it as Any

    def to_connect_list(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, list[Any]] | NotImplementedType:
        """Many values of `to_connect_data` at once, of one schema; or NotImplemented.

        Called instead of it where many records come and columns cannot have them. If it raises: record by record.
        """
        return NotImplemented  # type: ignore[no-any-return]  # mypy has it as Any

    @abstractmethod
    def config(self) -> ConfigDef:
        """The settings it takes. Called any time, also on objects that are never configured; must not block."""

    def close(self) -> None:
        """Release resources. Called once, on the task's thread, after the task's stop. Default: nothing."""

    def version(self) -> str:
        """The version of this plugin, shown in plugin lists. Called any time; must not block."""
        return "undefined"


class HeaderConverter(ABC):
    """Turns header values into bytes for Kafka and back: `header.converter`. Source: HeaderConverter.

    Objects, threads and order of calls are as for `Converter`.
    """

    @abstractmethod
    def configure(self, configs: Mapping[str, Any]) -> None:
        """Read the settings: those after `header.converter.`, as text. Called once, before the first header."""

    @abstractmethod
    def from_connect_header(self, topic: str, header_key: str, schema: Schema | None, value: Any) -> bytes | None:
        """The bytes of one header to produce; called for each header of each source record. Must not block."""

    @abstractmethod
    def to_connect_header(self, topic: str, header_key: str, value: bytes | None) -> SchemaAndValue:
        """Schema and value of one consumed header; called for each header of each sink record. Must not block."""

    @abstractmethod
    def config(self) -> ConfigDef:
        """The settings it takes. Called any time, also on objects that are never configured; must not block."""

    def close(self) -> None:
        """Release resources. Called once, on the task's thread, after the task's stop. Default: nothing."""

    def version(self) -> str:
        """The version of this plugin, shown in plugin lists. Called any time; must not block."""
        return "undefined"

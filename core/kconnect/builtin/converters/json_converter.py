"""JsonConverter: JSON, with the schema beside each value or without."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import NotImplementedType
from typing import TYPE_CHECKING, Any, cast

from kconnect.api import ConfigDef, DataError, Decimal, Headers, Schema, SchemaAndValue, Type
from kconnect.builtin.converters.builtin_converter import BuiltinConverter, converter_config, with_type
from kconnect.builtin.converters.columns_from_plain_json import PlainJsonColumns, plain_values_of
from kconnect.builtin.converters.inferred_schemas import InferredSchemas
from kconnect.builtin.converters.json_columns import ByRecordsError, columns_from_json, json_column
from kconnect.builtin.converters.plain_json import plain_json, plain_json_texts
from kconnect.java.compat import jackson
from kconnect.java.compat.json_reader import InexactError, JsonReader
from kconnect.java.compat.json_writer import JsonWriter

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.builtin.types.seen import Seen

SCHEMAS_ENABLE_CONFIG = "schemas.enable"
SCHEMAS_INFER_CONFIG = "schemas.infer.enable"
SCHEMAS_CACHE_SIZE_CONFIG = "schemas.cache.size"
SCHEMA_CONTENT_CONFIG = "schema.content"
DECIMAL_FORMAT_CONFIG = "decimal.format"
REPLACE_NULL_CONFIG = "replace.null.with.default"
KEY_WORDS = {True: "key", False: "value"}


def _config() -> ConfigDef:
    kind, high, low, width = ConfigDef.Type, ConfigDef.Importance.HIGH, ConfigDef.Importance.LOW, ConfigDef.Width.MEDIUM
    table = converter_config()
    table.define(
        SCHEMAS_ENABLE_CONFIG, kind.BOOLEAN, True, None, high,
        "Whether the schema stands beside each key or value.",
        group="Schemas", order=0, width=width, display_name="Enable Schemas",
    )  # fmt: skip
    table.define(
        SCHEMAS_CACHE_SIZE_CONFIG, kind.INT, 1000, None, high,
        "How many schemas to remember.",
        group="Schemas", order=1, width=width, display_name="Schema Cache Size",
    )  # fmt: skip
    table.define(
        SCHEMAS_INFER_CONFIG, kind.BOOLEAN, False, None, low,
        "Whether values that come without schema (schemas.enable=false) get that of what was seen in their topic so "
        "far; it widens, and all in it is optional.",
        group="Schemas", order=3, width=width, display_name="Infer Schemas",
    )  # fmt: skip
    table.define(
        SCHEMA_CONTENT_CONFIG, kind.STRING, None, None, high,
        "A schema, as it stands in an envelope, for data that comes without; set, incoming data has no envelope.",
        group="Schemas", order=2, width=width, display_name="Schema Content",
    )  # fmt: skip
    table.define(
        DECIMAL_FORMAT_CONFIG, kind.STRING, "BASE64",
        ConfigDef.CaseInsensitiveValidString.in_("NUMERIC", "BASE64"), low,
        "How decimals are written: BASE64 (their bytes) or NUMERIC (a JSON number). Both are read.",
        group="Serialization", order=0, width=width, display_name="Decimal Format",
    )  # fmt: skip
    return table.define(
        REPLACE_NULL_CONFIG, kind.BOOLEAN, True, None, low,
        "Whether null becomes the default where the schema has one.",
        group="Serialization", order=1, width=width, display_name="Replace null with default",
    )  # fmt: skip


CONFIG = _config()


class JsonConverter(BuiltinConverter):
    """Source: o.a.k.connect.json.JsonConverter (Kafka 4.3), KIP-301. Byte for byte Jackson's: see jackson.py."""

    TABLE = CONFIG

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        config = CONFIG.parse(with_type(configs, KEY_WORDS[is_key]))
        replace_null = config[REPLACE_NULL_CONFIG]
        self._has_envelope: bool = config[SCHEMAS_ENABLE_CONFIG]
        self._cache_size = max(1, config[SCHEMAS_CACHE_SIZE_CONFIG])
        self._writer = JsonWriter(
            numeric_decimals=config[DECIMAL_FORMAT_CONFIG].upper() == "NUMERIC",
            replace_null_with_default=replace_null,
            cache_size=self._cache_size,
        )
        self._reader = JsonReader(replace_null_with_default=replace_null, exact_numbers=self.keeps_digits)
        self._replace_null: bool = replace_null
        # What a schema is declared for is not to be inferred
        self._infers: bool = config[SCHEMAS_INFER_CONFIG] and not self._has_envelope and not self.keeps_digits
        self._inferred = InferredSchemas()
        self._plain_columns = PlainJsonColumns(self._plain_value, self._cache_size)
        self._schemas: dict[str, Schema | None] = {}
        self._last_head, self._last_schema = b"", cast("Schema | None", None)
        self._fixed_schema: Schema | None = None
        if config[SCHEMA_CONTENT_CONFIG]:
            self._fixed_schema = self._reader.schema(self._parse_fixed(config[SCHEMA_CONTENT_CONFIG]))

    @property
    def infers(self) -> bool:
        """Whether values get schemas of what was seen in their topic."""
        return self._infers

    def remember(self, known: Mapping[str, Seen], keep: Callable[[str, Seen], None]) -> None:
        """Works as that of InferredSchemas."""
        self._inferred.remember(known, keep)

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        if schema is None and value is None:
            return None
        if schema is None:
            plain = plain_json(value)
            if plain is not None:
                return b'{"schema":null,"payload":' + plain + b"}" if self._has_envelope else plain
        text = self._writer.value(schema, value)
        if self._has_envelope:
            text = f'{{"schema":{self._writer.schema(schema)},"payload":{text}}}'
        return text.encode()

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        if value is None:
            return SchemaAndValue.NULL
        if self._infers:
            return self._inferred.read(topic, self._plain_value(value))
        return self._converted(value)

    def _converted(self, value: bytes) -> SchemaAndValue:
        # only an envelope can say that a fraction is a Decimal, whose digits all count
        exact = self._fixed_schema is not None or (self._has_envelope and DECIMAL_NAME in value)
        if not exact:
            try:
                return self._read(value, jackson.parse)
            except InexactError:
                pass
        return self._read(value, jackson.parse_exact)

    def _read(self, value: bytes, parse: Callable[[bytes], Any]) -> SchemaAndValue:
        try:
            node = parse(value)
        except (ValueError, RecursionError) as error:
            raise DataError(SERIALIZATION_FAILED) from error  # the cause says what is wrong with the text
        if not self._has_envelope:
            try:
                return SchemaAndValue(None, self._reader.value(None, node))
            except RecursionError:  # whose trace has a thousand lines
                raise DataError("The JSON is nested too deeply") from None
        if self._fixed_schema is not None:
            return SchemaAndValue(self._fixed_schema, self._reader.value(self._fixed_schema, node))
        if not isinstance(node, dict) or len(node) != 2 or "schema" not in node or "payload" not in node:
            raise DataError(NO_ENVELOPE)
        schema = self._schema_of(node["schema"])
        return SchemaAndValue(schema, self._reader.value(schema, node["payload"]))

    def from_connect_batch(
        self, topic: str, schema: Schema | None, column: pa.Array
    ) -> pa.BinaryArray | NotImplementedType:
        """Columnar for strings, numbers, booleans, bytes and structs of these; the envelope is one constant text.

        Without schema the texts are made all at once.
        """
        import pyarrow as pa

        if schema is None:
            return self._plain_batch(column)
        before, after = "", ""
        if self._has_envelope:
            before, after = f'{{"schema":{self._writer.schema(schema)},"payload":', "}"
        texts = json_column(self._writer, schema, column, before, after)
        return texts if texts is NotImplemented else texts.cast(pa.binary())

    def _plain_batch(self, column: pa.Array) -> pa.BinaryArray | NotImplementedType:
        import pyarrow as pa

        texts = plain_json_texts(column)
        if texts is None:
            return NotImplemented
        if self._has_envelope:
            texts = [None if text is None else b'{"schema":null,"payload":%b}' % text for text in texts]
        return pa.array(texts, pa.binary())

    def to_connect_batch(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, pa.Array] | Any:  # Any: mypy takes NotImplemented for it
        """Columnar for structs without maps and decimals, where all envelopes begin with the same bytes.

        Without schema: where each member is of one type in all texts, and their order is the same; some may be missing.
        Errors: ByRecordsError, which says why it is not.
        """
        if not self._has_envelope:
            return self._to_plain_batch(topic, column)
        if column.null_count or not len(column):
            raise ByRecordsError(_NULLS)
        found = (self._fixed_schema, column) if self._fixed_schema is not None else self._payloads(column)
        if found is None:
            raise ByRecordsError("the envelopes of JSON do not begin with the same schema")
        if found[0].type is not Type.STRUCT:
            raise ByRecordsError("the schema is not that of a struct")
        return found[0], columns_from_json(*found, replace_null=self._replace_null)

    def _to_plain_batch(self, topic: str, column: pa.BinaryArray) -> tuple[Schema | None, pa.Array] | Any:
        if len(column) < FEWEST_PLAIN_ROWS:
            return NotImplemented
        if self.keeps_digits and _has_long_number(column):
            raise ByRecordsError("a number may have more digits than 64 bits or a double hold")
        if self._infers and column.null_count:  # a tombstone has no schema
            raise ByRecordsError(_NULLS)
        made = self._plain_columns.column(topic, column)
        if not self._infers:
            return None, made
        found = self._inferred.column(topic, made)
        if found is None:
            raise ByRecordsError("the inferred schema becomes wider, or a member is a text of several kinds")
        return found

    def to_connect_list(
        self, topic: str, column: pa.BinaryArray
    ) -> tuple[Schema | None, list[Any]] | Any:  # Any: mypy takes NotImplemented for it
        """Values without schema, whatever they are."""
        if self._has_envelope or self._infers or self.keeps_digits or self._fixed_schema is not None:
            return NotImplemented
        return None, plain_values_of(column, self._plain_value)

    def _plain_value(self, text: bytes) -> Any:
        return self._converted(text).value

    def _payloads(self, column: pa.BinaryArray) -> tuple[Schema, pa.BinaryArray] | None:
        """The schema and the payloads, if the schema is the same in all envelopes."""
        import pyarrow.compute as pc

        first = column[0].as_py()
        head = _HEAD.match(first)
        if head is None:
            return None
        before = head.group()
        if before != self._last_head:
            self._last_head, self._last_schema = before, self._schema_before(before)
        if self._last_schema is None:
            return None
        if not pc.and_(pc.all(pc.starts_with(column, before)), pc.all(pc.ends_with(column, b"}"))).as_py():
            return None
        return self._last_schema, pc.binary_slice(column, len(before), -1)

    def _schema_before(self, head: bytes) -> Schema | None:
        try:
            node = jackson.parse_exact(head + b"null}")
            return self._schema_of(node["schema"]) if list(node) == ["schema", "payload"] else None
        except (ValueError, RecursionError, DataError):
            return None

    def _schema_of(self, node: Any) -> Schema | None:
        """The schema of an envelope; equal ones give the same object, so that later steps know it again."""
        key = repr(node)
        if key in self._schemas:
            return self._schemas[key]
        schema = self._reader.schema(node)
        if len(self._schemas) >= self._cache_size:
            self._schemas.clear()
        self._schemas[key] = schema
        return schema

    def _parse_fixed(self, text: str) -> Any:
        try:
            return jackson.parse_exact(text.encode())
        except ValueError as error:
            raise DataError(
                "Failed to parse schema in converter config due to serialization error: ",
                hint=f'{SCHEMA_CONTENT_CONFIG} must be a schema in JSON, such as {{"type":"string"}}.',
            ) from error


# Fewer texts take longer by columns: their type costs 0.4 ms a batch, a record 5 us
FEWEST_PLAIN_ROWS = 100
_NULLS = "some values are null"
# An envelope up to its payload; _payloads checks that it is one, and not a text inside of the schema
_HEAD = re.compile(rb'\s*\{\s*"schema"\s*:.*?,\s*"payload"\s*:\s*', re.DOTALL)
DECIMAL_NAME = Decimal.LOGICAL_NAME.encode()
SERIALIZATION_FAILED = "Converting byte[] to Kafka Connect data failed due to serialization error: "
NO_ENVELOPE = (
    'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain additional fields. '
    "If you are trying to deserialize plain JSON data, set schemas.enable=false in your converter configuration."
)


def _has_long_number(column: pa.BinaryArray) -> bool:
    """Whether a number in it may have more digits than 64 bits or a double hold, or another text does."""
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(column, _LONG_NUMBER)).as_py())


# As jackson.py reads exactly; and exponents, with which a short number leaves the range of a double
_LONG_NUMBER = r"[0-9.]{17}|[0-9][eE][+-]?[0-9]{3}"

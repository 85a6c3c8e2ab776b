"""The one table of types: what each declared type is in Connect, Arrow, Spark, table and object formats, and databases.

docs/types.md prints it; a test compares every cell with what the code of that room makes of the type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from kconnect.api import ConfigError
from kconnect.builtin.types.column_type import ColumnType
from kconnect.builtin.types.declarations import declarations
from kconnect.builtin.types.declared import declared_type


def _cells(text: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in text.replace("\n", " ").split("|"))


TABLE: Final[dict[str, tuple[str, ...]]] = {
    room: _cells(text)
    for room, text in {
        "declared": """boolean | tinyint | smallint | int | bigint | float | double | decimal(12,2) | string
            | varchar(20) | binary | date | time | time(3) | timestamp | timestamp(3) | timestamp_ntz | uuid | json
            | array<int> | map<string,int> | struct<a:int>""",
        "Connect": """BOOLEAN | INT8 | INT16 | INT32 | INT64 | FLOAT32 | FLOAT64 | Decimal of scale 2, precision 12
            | STRING | STRING | BYTES | Date | Time in us | Time | Timestamp in us | Timestamp
            | Timestamp in us, no zone | STRING, io.debezium.data.Uuid | STRING, io.debezium.data.Json
            | ARRAY | MAP | STRUCT""",
        "Arrow, Parquet": """bool | int8 | int16 | int32 | int64 | float | double | decimal128(12, 2) | string | string
            | binary | date32[day] | time64[us] | time32[ms] | timestamp[us, tz=UTC] | timestamp[ms, tz=UTC]
            | timestamp[us] | string | string | list<item: int32> | map<string, int32> | struct<a: int32>""",
        "Spark": """boolean | tinyint | smallint | int | bigint | float | double | decimal(12,2) | string | string
            | binary | date | time(6) | time(6) | timestamp | timestamp | timestamp_ntz | string | string
            | array<int> | map<string,int> | struct<a:int>""",
        "Delta": """boolean | byte | short | integer | long | float | double | decimal(12,2) | string | string
            | binary | date | | | timestamp | timestamp | timestamp_ntz | string | string
            | array<integer> | map<string,integer> | struct<a:integer>""",
        "Iceberg": """boolean | int | int | int | long | float | double | decimal(12, 2) | string | string
            | binary | date | time | time | timestamptz | timestamptz | timestamp | string | string
            | list<int> | map<string, int> | struct<a: int>""",
        "Avro objects": """boolean | int | int | int | long | float | double | bytes decimal | string | string
            | bytes | int date | long time-micros | int time-millis | long timestamp-micros | long timestamp-millis
            | long local-timestamp-micros | string | string | array | map | record""",
        "PostgreSQL": """BOOLEAN | SMALLINT | SMALLINT | INTEGER | BIGINT | REAL | DOUBLE PRECISION | NUMERIC(12,2)
            | TEXT | TEXT | BYTEA | DATE | TIME | TIME | TIMESTAMPTZ | TIMESTAMPTZ | TIMESTAMP | UUID | JSONB
            | TEXT | TEXT | TEXT""",
        "MySQL": """BOOLEAN | SMALLINT | SMALLINT | INT | BIGINT | FLOAT | DOUBLE | DECIMAL(12,2) | LONGTEXT | LONGTEXT
            | LONGBLOB | DATE | TIME(6) | TIME(3) | DATETIME(6) | DATETIME(3) | DATETIME(6) | CHAR(36) | JSON
            | LONGTEXT | LONGTEXT | LONGTEXT""",
        "SQLite": """BOOLEAN | INTEGER | INTEGER | INTEGER | INTEGER | REAL | REAL | TEXT | TEXT | TEXT | BLOB | TEXT
            | TEXT | TEXT | TEXT | TEXT | TEXT | TEXT | TEXT | TEXT | TEXT | TEXT""",
        "JSON": """true | 7 | 7 | 7 | 7 | 5.7 | 5.7 | "JQ==" | "a" | "a" | "AAE=" | 20000 | 11045123 | 11045123
            | 1764237600123 | 1764237600123 | 1764237600123 | "6ba7b810-9dad-11d1-80b4-00c04fd430c8" | "{}"
            | [7,null] | {"k":7} | {"a":7}""",
    }.items()
}
"""For each room what it has for each declared type, in the order of `declared`. Empty: no place, and validate says so.

JSON: as JsonConverter writes the values true, 7, 5.7, 0.37 and so on; with decimal.format=NUMERIC a decimal is 0.37.
"""
_FORMATS: Final = ("parquet", "delta", "iceberg", "avro", "csv", "jsonl", "json", "lines")


def holds(format_name: str, kind: ColumnType) -> bool:
    """Whether the format has a place for values of the type, what is inside of it aside."""
    match format_name:
        case "delta":
            return kind.name != "time"
        case "avro":
            return kind.name != "map" or (kind.key is not None and kind.key.name in _TEXTS)
        case "lines":
            return kind.name in (*_TEXTS, "binary")
        case "parquet" | "iceberg":
            return kind.name != "struct" or bool(kind.columns)
        case _:
            return True


_TEXTS: Final = ("string", "varchar", "char", "uuid", "json", "variant")


def refusals(format_name: str, settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a sink that writes the format finds wrong with declared schemas: pairs of setting and message."""
    for name, text in declarations(settings, is_sink=True).items():
        try:
            kind = declared_type(text, settings)
        except ConfigError:
            continue  # shown by who reads all connectors' declarations
        for place, part in _parts("", kind):
            if not holds(format_name, part):
                others = [other for other in _FORMATS if holds(other, part)]
                where = f"Column {place}: " if place else ""
                yield (
                    name,
                    f"{where}{format_name} has no place for {part}. {', '.join(others[:-1])} and {others[-1]} have",
                )


def _parts(place: str, kind: ColumnType) -> Iterator[tuple[str, ColumnType]]:
    """The type and those inside of it, each with its place; of a value's own struct only what is inside."""
    if place or kind.name != "struct":
        yield place, kind
    for column in kind.columns:
        yield from _parts(f"{place}.{column.name}" if place else column.name, column.type)
    for inner, suffix in ((kind.key, " (key)"), (kind.item, "[]")):
        if inner is not None:
            yield from _parts(f"{place}{suffix}", inner)

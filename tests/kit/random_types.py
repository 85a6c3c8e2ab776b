"""Random schemas of declared types and values of them: one strategy for every round trip."""

from __future__ import annotations

import datetime
import decimal
import json
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from kconnect.api import Schema, Struct, Type
from kconnect.api.columns import arrow_type, values_of
from kconnect.builtin.types.column_type import ColumnType, schema_of
from kconnect.builtin.types.declared import declared_type
from kit.examples import share_of

__all__ = ["Drawn", "drawings", "shown", "try_all"]

CASES: Final = int(os.environ.get("KCONNECT_ROUND_TRIPS", "0"))
"""Values that the long form (`make roundtrips`) takes through all rooms; 0 for the small form."""
SEED: Final = int(os.environ.get("KCONNECT_ROUND_TRIPS_SEED", "1"))
_KEYS: Final = ("string", "int", "date")  # of maps
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_EXACT: Final = decimal.Context(prec=60)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[decimal.Decimal]:
    most = 10**digits - 1
    return (st.integers(-most, most) | st.integers(-1000, 1000)).map(
        lambda n: decimal.Decimal(n).scaleb(-scale, _EXACT)
    )


def _instants(per_ms: int) -> st.SearchStrategy[datetime.datetime]:
    """All of the years 1 to 9999, most of them near today."""
    near = st.integers(-(2**42) * per_ms, 2**42 * per_ms)
    far = st.integers(_FIRST_MS * per_ms, _LAST_MS * per_ms)
    micros = 1000 // per_ms
    return (near | far).map(lambda n: _EPOCH + datetime.timedelta(microseconds=n * micros))


def _clock(per_ms: int) -> st.SearchStrategy[datetime.time]:
    micros = 1000 // per_ms
    return st.integers(0, 86_400_000 * per_ms - 1).map(
        lambda n: (_EPOCH + datetime.timedelta(microseconds=n * micros)).time()
    )


_TEXT: Final = st.text(max_size=6) | st.sampled_from(["null", "{}", "1", "NaN", "true", '"', "\\", "a,b", "'", " "])
LEAVES: Final[dict[str, st.SearchStrategy[Any]]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
    "decimal(12,2)": _decimals(12, 2),
    "decimal(38,10)": _decimals(38, 10),
    "decimal(20,0)": _decimals(20, 0),
    "string": _TEXT,
    "varchar(20)": _TEXT,
    "binary": st.binary(max_size=5),
    "date": st.dates(),
    "time": _clock(1000),
    "time(3)": _clock(1),
    "timestamp": _instants(1000),
    "timestamp(3)": _instants(1),
    "timestamp_ntz": _instants(1000),
    "uuid": st.uuids().map(str),
    "json": st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
        max_leaves=3,
    ).map(lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"))),
}
"""Values of each declared type, without NaN, infinities and -0.0, which Java's JSON does not give back."""
NOT_A_NUMBER: Final = st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0])
_MILLIS: Final = {"time": _clock(1), "timestamp": _instants(1), "timestamp_ntz": _instants(1)}


class Drawn:
    """A schema of a few columns, the first of which numbers the rows, and values of it as Connect has them."""

    def __init__(self, ddl: str, rows: Collection[dict[str, Any]], is_fine: bool) -> None:
        self.ddl = ddl
        self.kind: ColumnType = declared_type(ddl)
        self.schema = schema_of(self.kind, is_fine=is_fine)
        self.values: list[Struct] = [connect(self.schema, {"n": n, **row}) for n, row in enumerate(rows)]

    def __repr__(self) -> str:
        return f"{self.ddl}: {self.wanted}"

    @property
    def wanted(self) -> list[str]:
        return [shown(value) for value in self.values]

    def of_table(self, table: pa.Table) -> list[str]:
        """The rows of a table, in the order of the first column. Errors: ArrowException where a cast loses anything."""
        names = [field.name for field in self.schema.fields]
        table = table.select(names).sort_by(names[0]).cast(pa.schema(list(arrow_type(self.schema))))
        return self.of_column(table.to_struct_array().combine_chunks())

    def of_column(self, column: pa.Array) -> list[str]:
        return [shown(value) for value in values_of(self.schema, column, len(column))]

    def of_values(self, values: Collection[Any]) -> list[str]:
        """Values that came back with a schema of their own, in the order of the first column."""
        return [shown(value) for value in sorted(values, key=lambda value: value.get("n"))]


def drawings(
    without: Collection[str] = (),
    *,
    is_fine: bool = False,
    has_nan: bool = False,
    others: Mapping[str, st.SearchStrategy[Any]] | None = None,
    of_protobuf: bool = False,
) -> st.SearchStrategy[Drawn]:
    """Schemas and values. `is_fine`: times have microseconds, as on the way to a sink, and not Connect's milliseconds.

    `without`: types that a room has no place for. `has_nan`: NaN, infinities and -0.0 too. `others`:
    values of types of which a room cannot hold all. `of_protobuf`: lists and maps are never null, have no null, and no
    list or map in them.
    """
    leaves = {**LEAVES, **({} if is_fine else _MILLIS)}
    if has_nan:
        leaves |= {name: leaves[name] | NOT_A_NUMBER for name in ("float", "double")}
    leaves |= others or {}
    kept = {name: values for name, values in leaves.items() if not {name, name.partition("(")[0]} & {*without}}
    leaf = st.sampled_from(sorted(kept)).map(lambda name: (name, kept[name]))
    of_keys = {key: kept[key] for key in _KEYS}
    types = st.recursive(leaf, lambda inner: _nested(inner, of_keys, of_protobuf), max_leaves=4)
    return _drawn(types, is_fine, of_protobuf)


_Pair = tuple[str, st.SearchStrategy[Any]]


def _nested(
    inner: st.SearchStrategy[_Pair], keys: dict[str, st.SearchStrategy[Any]], of_protobuf: bool
) -> st.SearchStrategy[_Pair]:
    parts = inner.filter(lambda pair: not _repeats(pair[0])) if of_protobuf else inner
    lists = parts.map(lambda pair: (f"array<{pair[0]}>", st.lists(_or_null(pair, not of_protobuf), max_size=3)))
    maps = st.tuples(st.sampled_from(sorted(keys)), parts).map(
        lambda both: (
            f"map<{both[0]},{both[1][0]}>",
            st.dictionaries(keys[both[0]], _or_null(both[1], not of_protobuf), max_size=2),
        )
    )
    structs = st.tuples(inner, inner).map(
        lambda both: (
            f"struct<a:{both[0][0]}, b:{both[1][0]}>",
            st.fixed_dictionaries(
                {
                    name: _or_null(pair, not (of_protobuf and _repeats(pair[0])))
                    for name, pair in zip("ab", both, strict=True)
                }
            ),
        )
    )
    return lists | maps | structs


def _repeats(kind: str) -> bool:
    return kind.startswith(("array", "map"))


def _or_null(pair: _Pair, holds_null: bool) -> st.SearchStrategy[Any]:
    return st.none() | pair[1] if holds_null else pair[1]


@st.composite
def _drawn(draw: st.DrawFn, types: st.SearchStrategy[_Pair], is_fine: bool, of_protobuf: bool) -> Drawn:
    columns, values = ["n int"], {}
    for number, pair in enumerate(draw(st.lists(types, min_size=1, max_size=4))):
        is_required = draw(st.booleans()) and draw(st.booleans())
        columns.append(f"f{number} {pair[0]}{' NOT NULL' if is_required else ''}")
        values[f"f{number}"] = _or_null(pair, not (is_required or (of_protobuf and _repeats(pair[0]))))
    ddl = ", ".join(columns)
    row = st.fixed_dictionaries(values)
    rows = st.lists(row, min_size=1, max_size=6)
    if CASES:  # to draw and to use a schema costs more than twenty rows of it
        rows |= st.lists(row, min_size=20, max_size=30)
    return Drawn(ddl, draw(rows), is_fine)


def connect(schema: Schema | None, value: Any) -> Any:
    """A drawn value in Connect's form: structs in place of dicts where the schema says so."""
    if value is None or schema is None:
        return value
    if schema.type is Type.STRUCT:
        return Struct.from_values(schema, [connect(field.schema, value[field.name]) for field in schema.fields])
    if isinstance(value, list):
        return [connect(schema.value_schema, item) for item in value]
    if isinstance(value, dict):
        return {key: connect(schema.value_schema, item) for key, item in value.items()}
    return value


def shown(value: Any) -> str:
    """A value as text that shows all of it, but not the order of a map."""
    if isinstance(value, Struct):
        return f"{{{', '.join(f'{field.name}={shown(value.get(field))}' for field in value.schema.fields)}}}"
    if isinstance(value, dict):
        return f"map{sorted((repr(key), shown(item)) for key, item in value.items())}"
    return f"[{', '.join(map(shown, value))}]" if isinstance(value, list) else repr(value)


# --- how many ---

# A schema of the long form has about so many rows
_ROWS: Final = 12


def try_all(
    room: str, drawn: st.SearchStrategy[Drawn], run: Callable[[Drawn], object], *, small: int, share: float
) -> None:
    """Run it on `small` drawings; in the long form on this share of CASES values, and print how many they were."""
    given_schemas = given_values = 0

    @settings(
        deadline=None,
        max_examples=max(small, int(CASES * share / _ROWS)) if CASES else share_of(small),
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate] if CASES else list(Phase),  # to find the smallest of a long run takes minutes
        database=None,
    )
    @given(drawn)
    def all_of_them(one: Drawn) -> None:
        nonlocal given_schemas, given_values
        given_schemas, given_values = given_schemas + 1, given_values + len(one.values)
        run(one)

    (seed(SEED) if CASES else lambda test: test)(all_of_them)()
    if CASES:
        print(f"{room}: {given_values:,} values of {given_schemas:,} schemas, seed {SEED}")  # noqa: T201 - the counts

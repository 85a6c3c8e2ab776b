"""What arguments of functions may be: as they are, cast as Spark casts them by itself, or refused.

DuckDB would take some that Spark refuses, and give something: the length of a text for size(text).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kconnect.api import DataError
from kconnect.builtin.sql.spark_casts import NULL_TYPE, WHOLE, Term, is_number, shown, spark_type

_TIMES: Final = ("DATE", "TIMESTAMP")


def taken(name: str, terms: Sequence[Term]) -> list[Term]:
    """The arguments of a function, cast where Spark does so by itself. Errors: DataError for a type it has none for."""
    kinds = _TAKES.get(name, ())
    return [*(kind.of(term) for kind, term in zip(kinds, terms, strict=False)), *terms[len(kinds) :]]


def integer(term: Term) -> str:
    """A whole number, of 64 bits as JSON's too. Errors: DataError for a fraction, which DuckDB would round."""
    if term.type not in (*WHOLE, "VARCHAR", NULL_TYPE):
        raise _misfit(term, "a whole number")
    return f"CAST({term.sql} AS INTEGER)"


def _misfit(term: Term, wanted: str) -> DataError:
    return DataError(f"{shown(term.node)} is {spark_type(term.type)}, and {wanted} is needed")


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of argument. `cast_to` is the type that others than those that it `holds` are cast to, if they may."""

    word: str
    holds: Callable[[str], bool]
    cast_to: str = ""
    may: Callable[[str], bool] = lambda kind: False

    def of(self, term: Term) -> Term:
        """Errors: DataError for a type that it does not hold."""
        if term.type == NULL_TYPE or self.holds(term.type):
            return term
        if self.may(term.type):
            return term.cast(self.cast_to)
        raise _misfit(term, self.word)


def _is_plain(kind: str) -> bool:
    return is_number(kind) or kind in ("BOOLEAN", *_TIMES)


_STRING: Final = _Kind("a text", lambda kind: kind == "VARCHAR")
_TEXT: Final = _Kind(
    "a text", lambda kind: kind == "VARCHAR", "VARCHAR", lambda kind: _is_plain(kind) or kind == "BLOB"
)
# Of bytes Spark gives bytes, or their number
_NO_BYTES: Final = _Kind("a text", lambda kind: kind == "VARCHAR", "VARCHAR", _is_plain)
_TEXT_OR_BYTES: Final = _Kind("a text", lambda kind: kind in ("VARCHAR", "BLOB"), "VARCHAR", _is_plain)
_BYTES: Final = _Kind("a binary value", lambda kind: kind == "BLOB", "BLOB", lambda kind: kind == "VARCHAR")
_NUMBER: Final = _Kind("a number", is_number, "DOUBLE", lambda kind: kind == "VARCHAR")
_ONLY_NUMBER: Final = _Kind("a number", is_number)
_WHOLE: Final = _Kind("a whole number", lambda kind: kind in WHOLE)
_DAYS: Final = _Kind("a whole number", lambda kind: kind in (*WHOLE, "VARCHAR"))
# As Spark makes a BIGINT of others
_BITS: Final = _Kind(
    "a whole number", lambda kind: kind in WHOLE, "BIGINT", lambda kind: is_number(kind) or kind == "VARCHAR"
)
_BITS_OR_BYTES: Final = _Kind("a number or text", lambda kind: kind in (*WHOLE, "VARCHAR", "BLOB"), "BIGINT", is_number)
_DATE: Final = _Kind("a date", lambda kind: kind == "DATE")
_TIMESTAMP: Final = _Kind("a timestamp", lambda kind: kind == "TIMESTAMP")
_TIME: Final = _Kind("a timestamp", lambda kind: kind in (*_TIMES, "VARCHAR"))
_LIST: Final = _Kind("an array", lambda kind: kind.endswith("[]"))
_MAP: Final = _Kind("a map", lambda kind: kind.startswith("MAP("))
_ITEMS: Final = _Kind("an array or a map", lambda kind: kind.endswith("[]") or kind.startswith("MAP("))


def _all(names: str, *kinds: _Kind) -> dict[str, tuple[_Kind, ...]]:
    return dict.fromkeys(names.split(), kinds)


_TAKES: Final[Mapping[str, tuple[_Kind, ...]]] = {
    **_all("upper ucase lower lcase trim ltrim rtrim btrim ascii repeat replace translate encode like", _TEXT),
    **_all("regexp_extract regexp_replace regexp_like split split_part", _TEXT),
    **_all("contains startswith endswith instr locate", _TEXT, _TEXT),
    **_all("substring substr left right lpad rpad bit_length", _NO_BYTES),
    **_all("octet_length", _TEXT_OR_BYTES),
    **_all("decode", _BYTES),
    **_all("get_json_object", _STRING),
    **_all("abs sin cos tan atan degrees radians cbrt exp sqrt ln log10 log2 sign signum round isnan", _NUMBER),
    **_all("pow power atan2 log nanvl", _NUMBER, _NUMBER),
    **_all("ceil ceiling floor", _ONLY_NUMBER),
    **_all("bin", _BITS),
    **_all("hex", _BITS_OR_BYTES),
    **_all("timestamp_millis timestamp_seconds", _WHOLE),
    **_all("date_from_unix_date", _DAYS),
    **_all("unix_date", _DATE),
    **_all("unix_millis unix_seconds", _TIMESTAMP),
    **_all("unix_timestamp hour minute second from_utc_timestamp to_utc_timestamp", _TIME),
    **_all("size cardinality", _ITEMS),
    **_all("array_size array_max array_min get array_contains", _LIST),
    **_all("map_keys map_values", _MAP),
    "date_trunc": (_STRING, _TIME),
}

"""Functions of Spark's SQL that can be used, each with what DuckDB is to evaluate for it.

Only what is here may be used, and tests/golden/sql compares each with Spark: another function of the same name could
give something else in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from kconnect.api import ConfigError, DataError
from kconnect.builtin.sql.spark_arguments import integer, taken
from kconnect.builtin.sql.spark_casts import (
    Term,
    alike,
    cast_sql,
    comparable,
    json_of,
    quoted_text,
    require_no_decimals,
    shown,
    strftime_pattern,
    strptime_pattern,
    text_of,
    without_floats,
)

Make = Callable[[Sequence[Term]], str]
_ANY_NUMBER: Final = 1000
QUOTE: Final = "'"


@dataclass(frozen=True, slots=True)
class Function:
    """How many arguments it takes, which of them must be written out, and its translation."""

    make: Make
    fewest: int
    most: int
    literals: Mapping[int, Callable[[exp.Expression], str]] = field(default_factory=dict)
    """By the argument's index: what is wrong with it, empty when nothing is."""

    def check(self, name: str, arguments: Sequence[exp.Expression]) -> None:
        """Errors: ConfigError for arguments that it does not take."""
        if not self.fewest <= len(arguments) <= self.most:
            wanted = f"{self.fewest}" if self.fewest == self.most else f"{self.fewest} to {self.most}"
            raise ConfigError(f"{name}() takes {wanted} arguments here, found {len(arguments)}")
        for index, problem_of in self.literals.items():
            if index < len(arguments) and (problem := problem_of(arguments[index])):
                raise ConfigError(f"{name}(): {shown(arguments[index])} {problem}")

    def sql(self, name: str, terms: Sequence[Term]) -> str:
        """What DuckDB evaluates. Errors: DataError for types it is not made for."""
        try:
            return self.make(taken(name, terms))
        except DataError as err:
            raise DataError(f"{name}(): {err}") from err


def _text(node: exp.Expression) -> str:
    return "" if node.is_string else "must be written out as text"


def _text_with_content(node: exp.Expression) -> str:
    return "" if node.is_string and node.name else "must be written out as text that is not empty"


def _number(node: exp.Expression) -> str:
    inner = node.this if isinstance(node, exp.Neg) else node
    return "" if isinstance(inner, exp.Literal) and inner.name.isdigit() else "must be written out as a whole number"


def _shift(node: exp.Expression) -> str:
    return "" if isinstance(node, exp.Literal) and node.name in map(str, range(32)) else "must be 0 to 31"


def _number_but_zero(node: exp.Expression) -> str:
    return _number(node) or ("must not be 0" if node.name == "0" else "")


def _one_of(*texts: str) -> Callable[[exp.Expression], str]:
    def problem(node: exp.Expression) -> str:
        return "" if node.is_string and node.name.lower() in texts else f"must be one of {', '.join(texts)}"

    return problem


def _json_path(node: exp.Expression) -> str:
    is_plain = node.is_string and re.fullmatch(r"\$(\.\w+|\[\d+\])*", node.name)
    return "" if is_plain else "must be a path such as '$.a.b[0]'"


def _replacement(node: exp.Expression) -> str:
    is_plain = node.is_string and not re.search(r"\\|\$(?!\d)|\$\d\d", node.name)
    return "" if is_plain else "must be written out; $1 to $9 stand for groups"


def _day(node: exp.Expression) -> str:
    units = ("day", "dd", "week", "month", "mon", "mm", "quarter", "year", "yyyy", "yy", "hour", "minute", "second")
    return _one_of(*units)(node)


def _date_pattern(node: exp.Expression) -> str:
    return "must be written out as text" if not node.is_string else strftime_pattern(node.name)[1]


def _parsed_pattern(node: exp.Expression) -> str:
    return "must be written out as text" if not node.is_string else strptime_pattern(node.name)[1]


def _as(template: str, *, count: int = 1, most: int | None = None, **literals: Callable[..., str]) -> Function:
    """`{0}` is the first argument; `a1=..` checks the second."""
    checks = {int(name[1:]): problem for name, problem in literals.items()}
    return Function(lambda terms: template.format(*(term.sql for term in terms)), count, most or count, checks)


def _by_sqlglot(name: str, fewest: int, most: int, kind: str = "") -> Function:
    """What sqlglot says for DuckDB, in Spark's type where DuckDB's is another."""

    def make(terms: Sequence[Term]) -> str:
        given = [term.node.copy() if isinstance(term.node, exp.Literal) else exp.Var(this=term.sql) for term in terms]
        sql = exp.func(name, *given, dialect="spark").sql(dialect="duckdb")
        return f"CAST({sql} AS {kind})" if kind else f"({sql})"

    return Function(make, fewest, most)


def _all_by_sqlglot(*names: str, count: int = 1, most: int | None = None, kind: str = "") -> dict[str, Function]:
    return {name: _by_sqlglot(name, count, most or count, kind) for name in names}


def _checked(function: Function, **literals: Callable[[exp.Expression], str]) -> Function:
    """The same, with checks of arguments: `a1=..` of the second."""
    return replace(function, literals={int(name[1:]): problem for name, problem in literals.items()})


def _one_of_all(name: str, fewest: int, most: int = _ANY_NUMBER) -> Function:
    """A function that gives one of its arguments."""
    return Function(lambda terms: f"{name}({', '.join(alike(terms))})", fewest, most)


def _cast_to(kind: str) -> Function:
    return Function(lambda terms: cast_sql(terms[0], kind), 1, 1)


def _zone(node: exp.Expression) -> str:
    is_known = node.is_string and re.fullmatch(r"UTC|GMT|[+-]\d\d:\d\d|[A-Z][A-Za-z]+(/[A-Z][\w+-]*)+", node.name)
    return "" if is_known else "must be a time zone written out, such as 'Europe/Berlin' or '+02:00'"


def _in_zone(macro: str, sign: int) -> Function:
    """A timestamp, in UTC as all are, as clocks in the zone show it, or the other way round."""

    def make(terms: Sequence[Term]) -> str:
        time, zone = cast_sql(terms[0], "TIMESTAMP"), terms[1].node.name
        if zone[0] not in "+-":
            return f"{macro}({time}, {quoted_text(zone)})"
        minutes = (int(zone[1:3]) * 60 + int(zone[4:])) * (sign if zone[0] == "+" else -sign)
        return f"({time} + to_minutes({minutes}))"

    return Function(make, 2, 2, {1: _zone})


def _length(terms: Sequence[Term]) -> str:
    name = "octet_length" if terms[0].type == "BLOB" else "length"
    return f"CAST({name}({terms[0].sql if name != 'length' else text_of(terms[0])}) AS INTEGER)"


def _substring(terms: Sequence[Term]) -> str:
    return f"spark_substring{len(terms) - 1}({', '.join([terms[0].sql, *map(integer, terms[1:])])})"


def _concat(terms: Sequence[Term]) -> str:
    return "(" + " || ".join(text_of(term) for term in terms) + ")"


def _concat_ws(terms: Sequence[Term]) -> str:
    return f"concat_ws({', '.join(text_of(term) for term in terms)})"


def _whole(name: str) -> Make:
    def make(terms: Sequence[Term]) -> str:
        if terms[0].type.startswith("DECIMAL"):
            raise DataError("for decimals Spark derives a precision: write CAST(double(..) AS BIGINT) or round(..)")
        if terms[0].type in ("DOUBLE", "FLOAT"):
            return f"CASE WHEN isnan({terms[0].sql}) THEN 0 ELSE CAST({name}({terms[0].sql}) AS BIGINT) END"
        return f"CAST({terms[0].sql} AS BIGINT)"

    return make


def _round(terms: Sequence[Term]) -> str:
    """By the decimal text of a double, as Spark: 1.005 becomes 1.01, although the double is a little less."""
    digits = "0" if len(terms) == 1 else terms[1].node.sql()
    if terms[0].type in ("DOUBLE", "FLOAT"):
        return f"CAST(spark_round({terms[0].sql}, {digits}) AS {terms[0].type})"
    if terms[0].type.startswith("DECIMAL") and int(digits) < 0:
        raise DataError("a decimal cannot be rounded to tens here")
    return f"round({terms[0].sql}, {digits})"


def _date_of(term: Term) -> str:
    return cast_sql(term, "DATE")


def _dates(template: str) -> Make:
    """Each argument as a date; `{0}` is the first."""
    return lambda terms: template.format(*(_date_of(term) for term in terms))


def _days_added(sign: str) -> Make:
    return lambda terms: f"CAST({_date_of(terms[0])} {sign} {integer(terms[1])} AS DATE)"


def _day_of_number(terms: Sequence[Term]) -> str:
    return f"CAST(DATE '1970-01-01' + {integer(terms[0])} AS DATE)"


def _months_added(terms: Sequence[Term]) -> str:
    return f"CAST({_date_of(terms[0])} + to_months({integer(terms[1])}) AS DATE)"


def _to_date(terms: Sequence[Term]) -> str:
    if len(terms) == 1:
        return _date_of(terms[0])
    return f"CAST({_parsed(terms[0], terms[1].node.name)} AS DATE)"


def _to_timestamp(terms: Sequence[Term]) -> str:
    if len(terms) == 1:
        return cast_sql(terms[0], "TIMESTAMP")
    return _parsed(terms[0], terms[1].node.name)


def _parsed(text: Term, pattern: str) -> str:
    """By a pattern of fixed width, which DuckDB alone would not insist on."""
    return f"spark_parsed({text.sql}, {quoted_text(strptime_pattern(pattern)[0])}, {len(pattern.replace(QUOTE, ''))})"


def _unix_timestamp(terms: Sequence[Term]) -> str:
    """Seconds, of a text by its pattern; of dates and timestamps a pattern says nothing."""
    time = terms[0].sql
    if terms[0].type == "VARCHAR":
        time = _parsed(terms[0], terms[1].node.name if len(terms) > 1 else "yyyy-MM-dd HH:mm:ss")
    return f"(epoch_us({time}) // 1000000)"


def _date_format(terms: Sequence[Term]) -> str:
    pattern = quoted_text(strftime_pattern(terms[1].node.name)[0])
    return f"strftime({cast_sql(terms[0], 'TIMESTAMP')}, {pattern})"


def _truncated(unit: int, other: int, kind: str) -> Make:
    names = {"dd": "day", "mon": "month", "mm": "month", "yyyy": "year", "yy": "year"}

    def make(terms: Sequence[Term]) -> str:
        name = terms[unit].node.name.lower()
        value = cast_sql(terms[other], kind)
        return f"CAST(date_trunc({quoted_text(names.get(name, name))}, {value}) AS {kind})"

    return make


def _time_part(name: str) -> Function:
    return Function(lambda terms: f"CAST({name}({cast_sql(terms[0], 'TIMESTAMP')}) AS INTEGER)", 1, 1)


def _date_part(template: str) -> Function:
    return Function(lambda terms: f"CAST({template.format(_date_of(terms[0]))} AS INTEGER)", 1, 1)


def _regexp_replace(terms: Sequence[Term]) -> str:
    replacement = re.sub(r"\$(\d)", r"\\\1", terms[2].node.name)
    return f"regexp_replace({terms[0].sql}, {terms[1].sql}, {quoted_text(replacement)}, 'g')"


def _regexp_extract(terms: Sequence[Term]) -> str:
    group = "1" if len(terms) == 2 else terms[2].node.name
    return f"regexp_extract({terms[0].sql}, {terms[1].sql}, {group})"


def _element_at(is_strict: bool) -> Make:
    def make(terms: Sequence[Term]) -> str:
        outer, index = terms
        if outer.type.startswith("MAP"):
            return f"({outer.sql})[{index.sql}]"
        if not outer.type.endswith("[]") or _number_but_zero(index.node):
            raise DataError("it takes a map and a key, or an array and a number other than 0 that is written out")
        return f"{'spark_element' if is_strict else 'list_extract'}({outer.sql}, {index.sql})"

    return make


def _size(terms: Sequence[Term]) -> str:
    """Spark 4 gives NULL for NULL."""
    name = "cardinality" if terms[0].type.startswith("MAP") else "len"
    return f"CAST({name}({terms[0].sql}) AS INTEGER)"


def _array_contains(terms: Sequence[Term]) -> str:
    return f"spark_contains({terms[0].sql}, {terms[1].sql})"


def _struct(terms: Sequence[Term]) -> str:
    if any(not term.name for term in terms):
        raise DataError("each value needs a name: value AS name")
    return "{" + ", ".join(f"{quoted_text(term.name)}: {term.sql}" for term in terms) + "}"


def _named_struct(terms: Sequence[Term]) -> str:
    names, values = terms[::2], terms[1::2]
    if len(names) != len(values) or any(_text(term.node) for term in names):
        raise DataError("it takes names, written out, and values in turn")
    pairs = zip(names, values, strict=True)
    return "{" + ", ".join(f"{quoted_text(name.node.name)}: {value.sql}" for name, value in pairs) + "}"


def _map(terms: Sequence[Term]) -> str:
    if len(terms) % 2:
        raise DataError("it takes keys and values in turn")
    keys, values = (", ".join(alike(part)) for part in (terms[::2], terms[1::2]))
    return f"map([{keys}], [{values}])"


def _nvl2(terms: Sequence[Term]) -> str:
    return f"CASE WHEN {terms[0].sql} IS NOT NULL THEN {' ELSE '.join(alike(terms[1:]))} END"


def _try_divide(terms: Sequence[Term]) -> str:
    require_no_decimals(terms)
    dividend, divisor = without_floats(terms, of_floats=True)
    return f"CASE WHEN {divisor} <> 0 THEN {dividend} / {divisor} END"


def _nanvl(terms: Sequence[Term]) -> str:
    value, other = alike([term if term.type == "FLOAT" else term.cast("DOUBLE") for term in terms])
    return f"CASE WHEN isnan({value}) THEN {other} ELSE {value} END"


def _nullif(terms: Sequence[Term]) -> str:
    """The first as it is: it is cast for the comparison alone."""
    first, second = comparable(terms)
    return f"CASE WHEN {first} = {second} THEN NULL ELSE {terms[0].sql} END"


def _modulo(macro: str) -> Function:
    return Function(lambda terms: f"{macro}({', '.join(without_floats(terms))})", 2, 2)


def _with_last(name: str, default: str, second: Callable[[Term], str] = lambda term: term.sql) -> Function:
    """A function of three arguments, of which the last may be left out. `second`: DuckDB's text for that one."""

    def make(terms: Sequence[Term]) -> str:
        given = [terms[0].sql, second(terms[1]), *(term.sql for term in terms[2:])]
        return f"{name}({', '.join(given if len(given) == 3 else [*given, default])})"

    return Function(make, 2, 3)


def _positive(name: str) -> Function:
    return _as(f"CASE WHEN {{0}} > 0 THEN {name}({{0}}) END")


_UTF8 = _one_of("utf-8", "utf8")
_SUBSTRING = Function(_substring, 2, 3)
_UPPER, _LOWER, _SIGN = _as("spark_upper({0})"), _as("spark_lower({0})"), _as("spark_sign({0})")
_CEIL = Function(_whole("ceil"), 1, 1)
_DAY, _DATEDIFF = _date_part("day({0})"), Function(_dates("CAST(({0} - {1}) AS INTEGER)"), 2, 2)
_SIZE, _LENGTH = Function(_size, 1, 1), Function(_length, 1, 1)

FUNCTIONS: Final[Mapping[str, Function]] = {
    # What sqlglot says gives what Spark gives
    **_all_by_sqlglot("ltrim", "rtrim", "ascii", "md5", "sha1", "unbase64", "hex", "unhex", "abs", "cbrt", "exp"),
    **_all_by_sqlglot("sin", "cos", "tan", "atan", "degrees", "radians", "bin", "unix_millis"),
    **_all_by_sqlglot("map_keys", "map_values", "array_max", "array_min"),
    **_all_by_sqlglot("repeat", "startswith", "endswith", "contains", "pow", "power", "atan2", "array_join", count=2),
    **_all_by_sqlglot("translate", "make_date", count=3),
    "pi": _by_sqlglot("pi", 0, 0),
    "regexp_like": _checked(_by_sqlglot("regexp_like", 2, 2), a1=_text),
    "split_part": _checked(_by_sqlglot("split_part", 3, 3), a1=_text_with_content, a2=_number_but_zero),
    # The same, but of type BIGINT there
    **_all_by_sqlglot("instr", "locate", count=2, kind="INTEGER"),
    **_all_by_sqlglot("bit_length", "unix_date", kind="INTEGER"),
    # What follows would give something else as sqlglot says it: a test has an expression, or the reason, for each
    # casts
    "int": _cast_to("INTEGER"),
    "bigint": _cast_to("BIGINT"),
    "double": _cast_to("DOUBLE"),
    "float": _cast_to("FLOAT"),
    "string": _cast_to("VARCHAR"),
    "boolean": _cast_to("BOOLEAN"),
    "date": _cast_to("DATE"),
    # nulls and conditions
    "coalesce": _one_of_all("coalesce", 1),
    "nvl": _one_of_all("coalesce", 2, 2),
    "ifnull": _one_of_all("coalesce", 2, 2),
    "nvl2": Function(_nvl2, 3, 3),
    "nullif": Function(_nullif, 2, 2),
    "isnull": _as("({0} IS NULL)"),
    "isnotnull": _as("({0} IS NOT NULL)"),
    "isnan": _as("coalesce(isnan({0}), false)"),
    "nanvl": Function(_nanvl, 2, 2),
    "greatest": _one_of_all("greatest", 2),
    "least": _one_of_all("least", 2),
    # text
    "upper": _UPPER,
    "ucase": _UPPER,
    "lower": _LOWER,
    "lcase": _LOWER,
    "length": _LENGTH,
    "char_length": _LENGTH,
    "octet_length": Function(lambda t: f"CAST(octet_length({cast_sql(t[0], 'BLOB')}) AS INTEGER)", 1, 1),
    "substring": _SUBSTRING,
    "substr": _SUBSTRING,
    "left": _as("left({0}, greatest({1}, 0))", count=2),
    "right": _as("right({0}, greatest({1}, 0))", count=2),
    "concat": Function(_concat, 1, _ANY_NUMBER),
    "concat_ws": Function(_concat_ws, 2, _ANY_NUMBER, {0: _text}),
    "split": _as("string_split_regex({0}, {1})", count=2, a1=_text_with_content),
    "regexp_extract": Function(_regexp_extract, 2, 3, {1: _text, 2: _number}),
    "regexp_replace": Function(_regexp_replace, 3, 3, {1: _text, 2: _replacement}),
    "lpad": _with_last("lpad", "' '", integer),
    "rpad": _with_last("rpad", "' '", integer),
    "btrim": _as("trim({0})"),
    "replace": _with_last("replace", "''"),
    "sha2": _as("sha256({0})", count=2, a1=lambda node: "" if node.name == "256" else "must be 256"),
    "base64": Function(lambda terms: f"base64({cast_sql(terms[0], 'BLOB')})", 1, 1),
    "encode": _as("encode({0})", count=2, a1=_UTF8),
    "decode": _as("decode({0})", count=2, a1=_UTF8),
    "to_json": Function(lambda terms: json_of(terms[0]), 1, 1),
    "get_json_object": _as("spark_json({0}, {1})", count=2, a1=_json_path),
    # numbers
    "sign": _SIGN,
    "signum": _SIGN,
    "round": Function(_round, 1, 2, {1: _number}),
    "floor": Function(_whole("floor"), 1, 1),
    "ceil": _CEIL,
    "ceiling": _CEIL,
    "sqrt": _as("spark_sqrt({0})"),
    "ln": _positive("ln"),
    "log": Function(lambda t: f"spark_log({', '.join(term.sql for term in t)})", 2, 2),
    "log10": _positive("log10"),
    "log2": _positive("log2"),
    "e": _as("exp(1.0)", count=0, most=0),
    "mod": _modulo("spark_mod"),
    "pmod": _modulo("spark_pmod"),
    "shiftright": _as("({0} >> {1})", count=2, a1=_shift),
    "try_divide": Function(_try_divide, 2, 2),
    # lists, maps and structs
    "size": _SIZE,
    "cardinality": _SIZE,
    "array_size": _SIZE,
    "array": Function(lambda terms: f"[{', '.join(alike(terms))}]", 1, _ANY_NUMBER),
    "array_contains": Function(_array_contains, 2, 2),
    "get": _as("spark_get({0}, {1})", count=2, a1=_number),
    "element_at": Function(_element_at(True), 2, 2),
    "try_element_at": Function(_element_at(False), 2, 2),
    "map": Function(_map, 2, _ANY_NUMBER),
    "struct": Function(_struct, 1, _ANY_NUMBER),
    "named_struct": Function(_named_struct, 2, _ANY_NUMBER),
    # dates and times
    **{name: _date_part(f"{name}({{0}})") for name in ("year", "quarter", "month", "dayofyear", "weekofyear")},
    "day": _DAY,
    "dayofmonth": _DAY,
    "dayofweek": _date_part("dayofweek({0}) + 1"),
    "weekday": _date_part("isodow({0}) - 1"),
    **{name: _time_part(name) for name in ("hour", "minute", "second")},
    "last_day": Function(_dates("last_day({0})"), 1, 1),
    "date_add": Function(_days_added("+"), 2, 2),
    "date_sub": Function(_days_added("-"), 2, 2),
    "datediff": _DATEDIFF,
    "date_diff": _DATEDIFF,
    "add_months": Function(_months_added, 2, 2),
    "trunc": Function(_truncated(1, 0, "DATE"), 2, 2, {1: _one_of("week", "month", "mon", "mm", "quarter", "year")}),
    "date_trunc": Function(_truncated(0, 1, "TIMESTAMP"), 2, 2, {0: _day}),
    "to_date": Function(_to_date, 1, 2, {1: _parsed_pattern}),
    "to_timestamp": Function(_to_timestamp, 1, 2, {1: _parsed_pattern}),
    "from_utc_timestamp": _in_zone("spark_to_zone", 1),
    "to_utc_timestamp": _in_zone("spark_from_zone", -1),
    "date_format": Function(_date_format, 2, 2, {1: _date_pattern}),
    "unix_timestamp": Function(_unix_timestamp, 1, 2, {1: _parsed_pattern}),
    "unix_seconds": _as("spark_seconds({0})"),
    "date_from_unix_date": Function(_day_of_number, 1, 1),
    "timestamp_millis": _as("make_timestamp(CAST({0} AS BIGINT) * 1000)"),
    "timestamp_seconds": _as("make_timestamp(CAST({0} AS BIGINT) * 1000000)"),
}

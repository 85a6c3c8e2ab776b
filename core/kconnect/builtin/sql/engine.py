"""DuckDB over one Arrow table, with the functions that Spark has and it has not."""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any, Final

import duckdb

from kconnect.api import DataError

if TYPE_CHECKING:
    import pyarrow as pa

TABLE: Final = "records"

# One thread: a slot's tasks share its cores. Nothing outside of the records can be read or written, and a query cannot
# change that: the configuration is locked once the macros are there.
_CONFIG: Final[dict[str, Any]] = {
    "threads": 1,
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
}


class UnfitTypesError(DataError):
    """An expression is not made for the types of what is in it."""


class Engine:
    """One connection to a database in memory, of its own for each transformation.

    Threads: the task's. Errors: DataError with DuckDB's first line.
    """

    def __init__(self) -> None:
        self._statements: dict[str, duckdb.Statement] = {}
        # Those that are there when Python ends are complained of on stderr, so they go before, closed or not
        weakref.finalize(self, self._statements.clear)
        self._connection = duckdb.connect(":memory:", config=_CONFIG)
        self._connection.execute("SET TimeZone = 'UTC'")
        capitals = ", ".join(f"'{letter}': '{several}'" for letter, several in CAPITALS.items())
        self._connection.execute(f"SET VARIABLE capitals = MAP {{{capitals}}}")
        for macro in MACROS:
            self._connection.execute(f"CREATE MACRO {macro}")
        self._connection.execute("SET lock_configuration = true")

    def use(self, table: pa.Table) -> None:
        """The rows that `records` names from now on."""
        self._connection.register(TABLE, table)

    def type_of(self, sql: str) -> str:
        """DuckDB's name of the type that an expression has over the rows. Errors: UnfitTypesError, too."""
        try:
            return str(self._connection.sql(f"SELECT {sql} AS r FROM {TABLE}").types[0])
        except (duckdb.BinderException, duckdb.ConversionException) as err:
            raise UnfitTypesError(_first_line(err)) from None  # as below
        except duckdb.Error as err:
            raise DataError(_first_line(err)) from None  # DuckDB's says no more than this, save for the query

    def evaluate(self, query: str) -> pa.Table:
        """The result; in the order of the rows, as there is one thread."""
        try:
            return self._connection.sql(query).to_arrow_table()
        except duckdb.Error as err:
            raise DataError(_first_line(err)) from None  # DuckDB's says no more than this, save for the query

    def row(self, query: str, values: list[Any]) -> tuple[Any, ...] | None:
        """The first row that a query gives for its parameters; None for none. The query is parsed once."""
        try:
            statement = self._statements.get(query)
            if statement is None:
                (statement,) = self._connection.extract_statements(query)
                self._statements[query] = statement
            found: list[tuple[Any, ...]] = self._connection.execute(statement, values).fetchall()
        except duckdb.Error as err:
            raise DataError(_first_line(err)) from None  # as above
        return found[0] if found else None

    def close(self) -> None:
        """Frees DuckDB's memory. Called once; nothing else may be called afterwards."""
        self._statements.clear()
        self._connection.close()
        del self._connection


def _first_line(err: duckdb.Error) -> str:
    """Errors that our own macros raise need no word before them: `[DIVIDE_BY_ZERO] Division by zero`.

    Nor has the name of a column behind them a meaning to others: it is our own, c0.
    """
    return _OUR_COLUMN.sub("", str(err).strip().split("\n", 1)[0].removeprefix("Invalid Input Error: "))


_OUR_COLUMN: Final = re.compile(r" when casting from source column c\d+$")


# Letters that become several in capitals, as Java's and Python's tables have them
CAPITALS: Final = {chr(code): chr(code).upper() for code in range(0x10000) if len(chr(code).upper()) > 1}
_SEVERAL: Final = "".join(CAPITALS)
_ZERO: Final = "error('[DIVIDE_BY_ZERO] Division by zero')"
_INDEX: Final = "error('[INVALID_ARRAY_INDEX] The array has no item ' || i || ', it has ' || len(a))"
_WHOLE: Final = r"regexp_full_match(s, '\s*[+-]?\d+\s*')"
_NUMBER: Final = r"regexp_full_match(s, '\s*[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)\s*', 'i')"
# Text of a double: DuckDB's digits are the shortest, as Java's; where the exponent begins and how it looks differ
_PLAIN: Final = r"-?([1-9]\d{0,6}\.\d+|0\.0|0\.0{0,2}[1-9]\d*)"
# Functions of Spark's SQL that DuckDB has not, or has with other results
MACROS: Final = (
    f"spark_divide(a, b) AS CASE WHEN b = 0 AND a IS NOT NULL THEN {_ZERO} ELSE a / b END",
    f"spark_div(a, b) AS CASE WHEN b = 0 AND a IS NOT NULL THEN {_ZERO} ELSE a // b END",
    f"spark_mod(a, b) AS CASE WHEN b = 0 AND a IS NOT NULL THEN {_ZERO} ELSE a % b END",
    "spark_pmod(a, b) AS CASE WHEN spark_mod(a, b) < 0 THEN (a % b + b) % b ELSE a % b END",
    f"spark_whole_text(s) AS CASE WHEN {_WHOLE} THEN s "
    "ELSE error('[CAST_INVALID_INPUT] ' || s || ' is not a whole number') END",
    f"spark_whole_text_or_null(s) AS CASE WHEN {_WHOLE} THEN s END",
    f"spark_number_text(s) AS CASE WHEN {_NUMBER} THEN s "
    "ELSE error('[CAST_INVALID_INPUT] ' || s || ' is not a number') END",
    f"spark_number_text_or_null(s) AS CASE WHEN {_NUMBER} THEN s END",
    "spark_parsed(s, p, n) AS CASE WHEN length(s) = n THEN strptime(s, p) WHEN s IS NOT NULL "
    "THEN error('[CANNOT_PARSE_TIMESTAMP] ' || s || ' does not have the form of the pattern') END",
    "spark_lower(s) AS CASE WHEN strlen(s) = length(s) THEN lower(s) "
    "ELSE lower(regexp_replace(replace(s, 'İ', 'i̇'), '(\\pL)Σ(\\PL|$)', '\\1ς\\2', 'g')) END",
    "spark_sign(x) AS CASE WHEN isnan(x) THEN CAST('NaN' AS DOUBLE) ELSE CAST(sign(x) AS DOUBLE) END",
    "spark_seconds(t) AS (epoch_us(t) - spark_pmod(epoch_us(t), 1000000)) // 1000000",
    "spark_float(x) AS CASE WHEN abs(x) > 3.4028235677973366e38 AND NOT isnan(x) "
    "THEN CAST(CASE WHEN x > 0 THEN 'inf' ELSE '-inf' END AS FLOAT) ELSE CAST(x AS FLOAT) END",
    f"spark_upper(s) AS CASE WHEN strlen(s) = length(s) OR NOT regexp_matches(s, '[{''.join(CAPITALS)}]') "
    "THEN upper(s) ELSE array_to_string(list_transform(regexp_extract_all(s, '(?s).'), "
    "lambda c: coalesce(getvariable('capitals')[c], upper(c))), '') END",
    "spark_substring1(s, p) AS substring(s, CASE WHEN p = 0 THEN 1 ELSE p END)",
    "spark_substring2(s, p, n) AS CASE WHEN p < 0 AND -p > length(s) "
    "THEN substring(s, 1, greatest(n + p + length(s), 0)) "
    "ELSE substring(s, CASE WHEN p = 0 THEN 1 ELSE p END, greatest(n, 0)) END",
    "spark_json(j, p) AS CASE WHEN json_valid(j) THEN j ->> p END",
    "spark_sqrt(x) AS CASE WHEN x < 0 THEN CAST('NaN' AS DOUBLE) ELSE sqrt(x) END",
    "spark_log(b, x) AS CASE WHEN b > 0 AND x > 0 THEN ln(x) / ln(b) END",
    "spark_round(x, n) AS CASE WHEN isnan(x) OR isinf(x) OR abs(x) >= 1e15 THEN x "
    "ELSE CAST(round(CAST(CAST(x AS VARCHAR) AS DECIMAL(38, 20)), n) AS DOUBLE) END",
    f"spark_item(a, i) AS CASE WHEN i >= len(a) THEN {_INDEX} ELSE a[i + 1] END",
    "spark_get(a, i) AS CASE WHEN i >= 0 THEN a[i + 1] END",
    f"spark_element(a, i) AS CASE WHEN abs(i) > len(a) THEN {_INDEX} ELSE a[i] END",
    "spark_contains(a, v) AS CASE WHEN list_contains(a, v) THEN true "
    "WHEN v IS NULL OR len(list_filter(a, lambda x: x IS NULL)) > 0 THEN NULL ELSE list_contains(a, v) END",
    # Each text is named once, by lambdas: DuckDB plans every copy that a macro makes, which took longer than the rows
    "spark_exponent(m, e) AS e + CASE WHEN starts_with(m, '0.') THEN length(ltrim(m, '0.')) - length(m) + 1 "
    "ELSE length(split_part(m, '.', 1)) - 1 END",
    "spark_scientific(t) AS list_transform([{'s': CASE WHEN starts_with(t, '-') THEN '-' ELSE '' END, "
    "'m': split_part(ltrim(t, '-'), 'e', 1), 'e': coalesce(TRY_CAST(split_part(t, 'e', 2) AS INTEGER), 0)}], "
    "lambda p: regexp_replace(regexp_replace(p.s || trim(replace(p.m, '.', ''), '0'), '^(-?\\d)', '\\1.'), "
    "'\\.$', '.0') || 'E' || spark_exponent(p.m, p.e))[1]",
    f"spark_double_text(t) AS CASE WHEN regexp_full_match(t, '{_PLAIN}') THEN t WHEN isfinite(CAST(t AS DOUBLE)) "
    "THEN spark_scientific(t) ELSE MAP {'nan': 'NaN', '-nan': 'NaN', 'inf': 'Infinity', '-inf': '-Infinity'}[t] END",
    "spark_json_number(t) AS regexp_replace(spark_double_text(t), '^(-?[NI].*)$', '\"\\1\"')",
    # As Java writes a BigDecimal whose first digit is behind the sixth place: with an exponent
    "spark_json_decimal(t, n) AS CASE WHEN NOT regexp_full_match(t, '-?0\\.0{6}\\d+') THEN t ELSE list_transform("
    "[{'s': CASE WHEN starts_with(t, '-') THEN '-' ELSE '' END, 'd': ltrim(t, '-0.')}], "
    "lambda p: CASE WHEN p.d = '' THEN '0E-' || n ELSE p.s || regexp_replace(p.d, '^(\\d)(\\d)', '\\1.\\2') || "
    "'E' || (length(p.d) - 1 - n) END)[1] END",
    "spark_json_list(texts) AS '[' || array_to_string(texts, ',') || ']'",
    "spark_json_map(texts) AS '{' || array_to_string(texts, ',') || '}'",
    "spark_to_zone(t, z) AS timezone(z, CAST(t AS TIMESTAMPTZ))",
    # Of a time that comes twice in autumn Java takes the first, DuckDB the second
    "spark_from_zone_later(t, z) AS CAST(timezone(z, t) AS TIMESTAMP)",
    "spark_before(t, u, z) AS t - (spark_to_zone(u - INTERVAL 1 DAY, z) - (u - INTERVAL 1 DAY))",
    "spark_earlier(t, u, o, z) AS CASE WHEN o < u AND spark_to_zone(o, z) = t THEN o ELSE u END",
    "spark_from_zone(t, z) AS spark_earlier(t, spark_from_zone_later(t, z), "
    "spark_before(t, spark_from_zone_later(t, z), z), z)",
)

"""What a table says of its columns: a sink that starts again goes on with these, not with others."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kconnect.builtin.types.contracts import Contract, Contracts
from kconnect.builtin.types.evolution import plain_schema
from kconnect.builtin.types.seen import joined_schemas, with_members
from kconnect.spark.arrow_types import arrow_schema
from kconnect.spark.query.formats import known
from kconnect.spark.query.topic_rows import ABOUT

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.spark.query.sink_settings import SinkQuerySettings

log = logging.getLogger(__name__)

# A batch has as many as Spark has tasks, each with all columns; a store tells their times in seconds
_NEWEST: Final = 5
_MOST_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class TableColumns:
    """`schema`: the columns of rows. `fixed`: all that the table has, in lower case, where Spark adds none to them."""

    schema: pa.Schema
    fixed: tuple[str, ...] | None = None


def table_columns(session: Any, settings: SinkQuerySettings, seen: pa.Schema, contracts: Contracts) -> TableColumns:
    """The columns of rows for the sink's table, whose records have those in `seen`.

    A table that keeps its types has its own types for them: what does not fit is an error of its record, where Spark
    and databases would round or cut it without a word. Files have their own columns, and those that may be added.
    Just `seen` where there is no table yet, its format tells no types, or a query makes its rows of others.
    Errors: Spark's, of a folder of files.
    """
    format_ = known(settings.format)
    if settings.query:
        return TableColumns(seen)
    if settings.table or format_.is_table:
        table = _of_table(session, settings)
        return TableColumns(seen) if table is None else typed_by_table(table, seen, settings)
    if not format_.tells_types or not settings.options.get("path"):
        return TableColumns(seen)
    files = _of_files(session, settings)
    return TableColumns(seen if files is None else with_table_columns(files, seen, contracts))


def with_table_columns(table: pa.Schema, seen: pa.Schema, contracts: Contracts) -> pa.Schema:
    """The table's columns, then those that records have beside and that may be added.

    Spark does not tell upper and lower case apart: a column has the name that records give it.
    """
    import pyarrow as pa

    names = {field.name.lower(): field.name for field in seen}
    own = [pa.field(names.pop(field.name.lower(), field.name), field.type) for field in table]
    more = [field for field in seen if field.name.lower() in names and contracts.of(field.name) is Contract.EVOLVE]
    return pa.schema([*own, *more])


def typed_by_table(table: pa.Schema, seen: pa.Schema, settings: SinkQuerySettings) -> TableColumns:
    """The columns in `seen` with the types of the table; without those that it has beside, which have defaults there.

    A table that takes no more columns has rows without them: a record with one is an error, not the batch. A database
    may read a text as what its column is.
    """
    import pyarrow as pa

    own = {field.name.lower(): field.type for field in table}
    grows = any(name.lower() == "mergeschema" and said.lower() == "true" for name, said in settings.options.items())
    is_database = settings.format.lower() == "jdbc"
    # Where the table has none of them Spark says so, which names the table's own
    there = [field for field in seen if grows or field.name.lower() in own] or seen
    typed = []
    for field in there:
        kind = own.get(field.name.lower(), field.type)
        if (is_database and pa.types.is_string(field.type)) or _is_rounded(field.type, kind):
            kind = field.type
        typed.append(pa.field(field.name, with_members(kind, field.type) if grows else kind))
    return TableColumns(pa.schema(typed), None if grows else tuple(own))


def _is_rounded(seen: pa.DataType, kind: pa.DataType) -> bool:
    """Whether doubles go as they are: a column of floats is for what is nearest, and Spark gives a numeric column of no
    precision one of 38 digits.
    """
    import pyarrow as pa

    is_any = pa.types.is_decimal(kind) and kind.precision == _MOST_DIGITS
    return bool(pa.types.is_floating(seen) and (pa.types.is_float32(kind) or is_any))


def with_exact_numbers(session: Any, settings: SinkQuerySettings, declared: pa.Schema) -> pa.Schema:
    """The columns that are declared; numbers with a fraction as the table has them, where it would round them."""
    import pyarrow as pa

    is_known = settings.table or known(settings.format).is_table
    table = _of_table(session, settings) if is_known and not settings.query else None
    own = {field.name.lower(): field.type for field in table or ()}

    def kind(field: pa.Field) -> pa.DataType:
        old = own.get(field.name.lower(), field.type)
        return old if _cuts(field.type, old) else field.type

    return pa.schema([pa.field(field.name, kind(field)) for field in declared])


def _cuts(declared: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a column of `kind` has fewer decimal places."""
    import pyarrow as pa

    types = pa.types
    if not (types.is_integer(kind) or types.is_decimal(kind)) or _is_rounded(declared, kind):
        return False
    places = 0 if types.is_integer(kind) else kind.scale
    return bool(types.is_floating(declared) or (types.is_decimal(declared) and declared.scale > places))


def _of_table(session: Any, settings: SinkQuerySettings) -> pa.Schema | None:
    """The columns of a catalog's table, or of one that its format knows; None, which is logged, where it tells none."""
    try:
        if settings.table:
            if not session.catalog.tableExists(settings.table):
                return None
            rows = session.table(settings.table)
        else:
            rows = session.read.format(settings.format).options(**settings.options).load()
        return plain_schema(arrow_schema(rows.schema))
    except Exception as error:  # Spark's, py4j's and a format's share no root
        log.info("%s does not tell its columns, and may not be there yet: %s", settings.where, _first_line(error))
        return None


def _of_files(session: Any, settings: SinkQuerySettings) -> pa.Schema | None:
    """The columns of the newest files in the sink's folder, but for those about records; None where there are none."""
    import pyarrow as pa

    newest = _newest(session, settings.options["path"], settings)
    schemas = [found for file in newest if (found := _columns(session, file, settings))]
    if not schemas:
        return None
    return pa.schema([field for field in joined_schemas(schemas) if field.name not in ABOUT])


def _newest(session: Any, folder: str, settings: SinkQuerySettings) -> list[str]:
    """Paths of the newest files, without those that readers of Spark leave out."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as f

    try:
        files = session.read.format("binaryFile").options(**_options(settings)).load(folder)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise
    newest = files.select("path", "modificationTime").orderBy(f.col("modificationTime").desc(), "path").limit(_NEWEST)
    return [row["path"] for row in newest.collect()]


def _columns(session: Any, file: str, settings: SinkQuerySettings) -> pa.Schema | None:
    """The columns of a file; None, which is logged, where it cannot be read: others may write into the folder, too."""
    try:
        rows = session.read.format(settings.format).options(**_options(settings)).load(file)
        return plain_schema(arrow_schema(rows.schema))
    except Exception as error:  # Spark's, py4j's and a format's share no root
        log.warning("%s does not tell its columns, and is left out: %s", file, _first_line(error))
        return None


def _options(settings: SinkQuerySettings) -> dict[str, str]:
    return {name: value for name, value in settings.options.items() if name != "path"}


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]

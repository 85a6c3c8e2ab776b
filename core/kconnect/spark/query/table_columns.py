"""What the files of a table say of its columns: a sink that starts again goes on with these, not with others."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from kconnect.builtin.types.contracts import Contract, Contracts
from kconnect.builtin.types.evolution import plain_schema
from kconnect.builtin.types.seen import joined_schemas
from kconnect.spark.arrow_types import arrow_schema
from kconnect.spark.query.formats import known
from kconnect.spark.query.topic_rows import ABOUT

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.spark.query.sink_settings import SinkQuerySettings

log = logging.getLogger(__name__)

# A batch has as many as Spark has tasks, each with all columns; a store tells their times in seconds
_NEWEST: Final = 5


def table_columns(session: Any, settings: SinkQuerySettings) -> pa.Schema | None:
    """The columns of the newest files in the sink's folder.

    None where there are no files, their format tells no types, a catalog has the columns, or a query makes them of
    others. Errors: Spark's, of the folder.
    """
    import pyarrow as pa

    folder = settings.options.get("path", "")
    if not known(settings.format).tells_types or settings.query or settings.table or not folder:
        return None
    schemas = [found for file in _newest(session, folder, settings) if (found := _columns(session, file, settings))]
    if not schemas:
        return None
    return pa.schema([field for field in joined_schemas(schemas) if field.name not in ABOUT])


def with_table_columns(table: pa.Schema, seen: pa.Schema, contracts: Contracts) -> pa.Schema:
    """The table's columns, then those that records have beside and that may be added.

    Spark does not tell upper and lower case apart: a column has the name that records give it.
    """
    import pyarrow as pa

    names = {field.name.lower(): field.name for field in seen}
    own = [pa.field(names.pop(field.name.lower(), field.name), field.type) for field in table]
    more = [field for field in seen if field.name.lower() in names and contracts.of(field.name) is Contract.EVOLVE]
    return pa.schema([*own, *more])


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
        log.warning("%s does not tell its columns, and is left out: %s", file, str(error).partition("\n")[0])
        return None


def _options(settings: SinkQuerySettings) -> dict[str, str]:
    return {name: value for name, value in settings.options.items() if name != "path"}

"""DeltaLakeTable: a Delta Lake table by the package deltalake; offsets are transactions of Delta, one a partition."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from kconnect.api import ConnectError, RetriableError, TopicPartition
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.tables.partition_columns import Places, is_local_path
from kconnect.builtin.connectors.tables.table_format import (
    StaleOffsetsError,
    TableWrite,
    depth_of,
    full_names,
    stale_offsets,
)
from kconnect.builtin.connectors.tables.upserts import DELETED, with_deletes
from kconnect.builtin.stores.hive_paths import HIVE_NULL
from kconnect.builtin.stores.store_errors import store_error
from kconnect.builtin.types.evolution import plain_schema
from kconnect.builtin.types.seen import with_members

if TYPE_CHECKING:
    import pyarrow as pa


def _folder(name: str, value: Any) -> str:
    """Deltalake writes all digits of a double."""
    text = f"{Decimal(repr(value)):f}" if isinstance(value, float) and math.isfinite(value) else str(value)
    return f"{quote(name, safe='')}={quote(text, safe='')}"


_PLACES: Final = Places("Delta Lake", _folder, nulls=("", HIVE_NULL), takes_negative_decimals=False)
# A level takes three of the 128 to which deltalake reads JSON
_DEEPEST: Final = 40
# Somebody else's commits in between: deltalake itself goes on after appends, these are for changes of the table
_TRIES = 10
# Without them a store that is away is tried for three minutes, and the task hears nothing of a stop meanwhile
_DEADLINES = {"timeout": "20s", "connect_timeout": "5s", "retry_timeout": "20s"}
_LOCAL: Final = "timestampNtz"
_FORGOTTEN = -1
"""The version of a transaction whose offset was reset: Delta cannot remove one."""


class DeltaLakeTable:
    """Implements TableFormat. The offset of a partition is the version of the transaction `kconnect:WRITER:TOPIC-N`.

    Delta refuses a commit with a transaction that another commit has changed since the table was read.
    """

    joins_partitions = True

    def __init__(
        self,
        where: str,
        options: Mapping[str, str],
        writer: str,
        partition_by: Sequence[str],
        compression: str,
        properties: Mapping[str, str],
        *,
        is_declared: bool = False,
    ) -> None:
        """`is_declared`: the columns' types are what they shall be."""
        self.where = where
        self._is_declared = is_declared
        self._options = {**_DEADLINES, **options} if "://" in where else dict(options)
        self._writer = writer
        self._partition_by = list(partition_by)
        self._compression = compression
        self._properties = dict(properties)
        self._table: Any = None  # a deltalake.DeltaTable

    def schema(self) -> pa.Schema | None:
        import pyarrow as pa

        self._load()
        return None if self._table is None else plain_schema(pa.schema(self._table.schema().to_arrow()))

    def stored_type(self, kind: pa.DataType) -> pa.DataType:
        """Delta has times in us, and no time of day: ms since midnight instead, or text of one that has us.

        Whole numbers are bigint, as a column cannot become wider later, unless a schema is declared.
        """
        import pyarrow as pa

        if pa.types.is_time(kind):
            return pa.int32() if pa.types.is_time32(kind) else pa.string()
        if pa.types.is_timestamp(kind):
            return pa.timestamp("us", "UTC" if kind.tz else None)
        if pa.types.is_integer(kind) and not self._is_declared:
            return pa.int64()
        if pa.types.is_float16(kind):
            return pa.float32()
        return kind

    def can_widen(self, column: str, old: pa.DataType, new: pa.DataType) -> bool:
        """Deltalake cannot write tables with widened types."""
        return False

    def refusal(self, schema: pa.Schema) -> str:
        """Delta Lake does not tell upper and lower case apart, and deltalake cannot read types of many levels again."""
        if max(map(depth_of, schema.types), default=0) > _DEEPEST:
            return f"a column is nested more than {_DEEPEST} levels deep, which Delta Lake cannot read again"
        if all(map(_hides_local_times, schema.types)):
            return "it has maps with times without a zone and no other column, of which deltalake can make no table"
        seen: dict[tuple[str, str], str] = {}
        for outer, name in full_names(schema):
            place = f" of {outer}" if outer else ""
            twin = seen.setdefault((outer.lower(), name.lower()), name)
            if twin != name:
                return f"{twin} and {name}{place} differ in case alone, and are one to Delta Lake"
        return ""

    def misplaced(self, rows: pa.RecordBatch) -> str:
        columns = self._partition_by if self._table is None else self._table.metadata().partition_columns
        return _PLACES.misplaced(rows, columns, is_local=is_local_path(self.where))

    def open(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.offsets(partitions)

    def offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self._load()
        found = {at: self._offset(at) for at in partitions}
        return {at: offset for at, offset in found.items() if offset is not None}

    def write(self, write: TableWrite) -> None:
        import pyarrow as pa

        if self._table is None:
            self._create(write.rows.schema)
        for _ in range(_TRIES):
            self._check(write)
            try:
                self._commit(write)
                return
            except StaleOffsetsError:
                raise
            except pa.ArrowException as error:
                raise ConnectError(f"Table {self.where} refuses {write}: {error}") from error
            except Exception as error:  # of deltalake, whose errors are of many kinds
                if self._has(write):
                    return  # it was committed, and failed afterwards
                if not _is_conflict(error):
                    raise store_error(f"write {write} to", f"table {self.where}", error) from error
        raise RetriableError(
            f"Table {self.where} was changed by others {_TRIES} times while {write} were written to it"
        )

    def set_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        self._load()
        if self._table is None:
            return
        for _ in range(_TRIES):
            changed = {
                at: offset
                for at, offset in offsets.items()
                if self._offset(at) is not None and self._offset(at) != offset
            }
            if not changed:
                return
            try:
                self._write_transactions(self._properties_of(changed))
            except Exception as error:  # as in write
                if not _is_conflict(error):
                    raise store_error("set offsets in", f"table {self.where}", error) from error
            self._load()
        raise RetriableError(f"Table {self.where} was changed by others {_TRIES} times while its offsets were set")

    def compact(self, small_bytes: int) -> str | None:
        self._load()
        if self._table is None:
            return None
        try:
            done = self._table.optimize.compact(target_size=small_bytes)
        except Exception as error:  # as in write
            if _is_conflict(error):
                return None  # somebody changed these files: later
            raise store_error("compact", f"table {self.where}", error) from error
        if not done["numFilesRemoved"]:
            return None
        return f"{pluralize(done['numFilesRemoved'], 'file')} became {done['numFilesAdded']}"

    def close(self) -> None:
        self._table = None

    # --- the table ---

    def _load(self) -> None:
        """Read the table's state, or what is new of it."""
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError

        try:
            if self._table is not None:
                self._table.update_incremental()
            else:
                with contextlib.suppress(TableNotFoundError):
                    self._table = DeltaTable(self.where, storage_options=self._options)
        except Exception as error:  # as in write
            raise store_error("read", f"table {self.where}", error) from error

    def _create(self, schema: pa.Schema) -> None:
        import pyarrow as pa
        from deltalake import DeltaTable

        try:
            self._table = DeltaTable.create(
                self.where,
                pa.schema([field for field in schema if not _hides_local_times(field.type)]),
                partition_by=self._partition_by,
                storage_options=self._options,
                configuration=self._properties or None,
            )
        except Exception as error:  # as in write
            self._load()  # another task may have been faster
            if self._table is None:
                raise store_error("create", f"table {self.where}", error) from error

    def _commit(self, write: TableWrite) -> None:
        from deltalake import WriterProperties, write_deltalake

        transactions = self._properties_of({span.at: span.stop for span in write.ranges})
        codec: Any = "UNCOMPRESSED" if self._compression == "none" else self._compression.upper()
        writer = WriterProperties(compression=codec)
        self._allow_local_times(write.rows.schema)
        if write.keys:
            self._merge(write, transactions, writer)
            return
        write_deltalake(
            self._table,
            write.rows,
            mode="append",
            schema_mode="merge",
            writer_properties=writer,
            commit_properties=transactions,
        )

    def _allow_local_times(self, schema: pa.Schema) -> None:
        """Say that the table has times without a zone where deltalake would not: it could not read it again.

        Errors: those of deltalake.
        """
        from deltalake import TableFeatures

        if any(map(_hides_local_times, schema.types)) and _LOCAL not in (self._table.protocol().writer_features or ()):
            feature = TableFeatures.TimestampWithoutTimezone
            self._table.alter.add_feature(feature, allow_protocol_versions_increase=True)
            self._load()

    def _merge(self, write: TableWrite, transactions: Any, writer: Any) -> None:
        """Replace and remove rows by their keys. Delta does not commit what changes nothing: then offsets alone.

        Errors: StaleOffsetsError; those of deltalake.
        """
        self._widen(write.rows.schema)
        merge = self._table.merge(
            with_deletes(write),
            " AND ".join(f"t.`{name}` = s.`{name}`" for name in write.keys),
            source_alias="s",
            target_alias="t",
            writer_properties=writer,
            commit_properties=transactions,
        )
        merge.when_matched_delete(f"s.{DELETED}").when_matched_update_all(
            except_cols=[DELETED]
        ).when_not_matched_insert_all(f"NOT s.{DELETED}", except_cols=[DELETED]).execute()
        if not self._has(write):
            self._check(write)  # somebody else may have committed before the table was read again
            self._write_transactions(transactions)

    def _widen(self, schema: pa.Schema) -> None:
        """Give the table the columns of rows, in a commit of its own.

        A merge that does it as well makes null of a struct in rows that it only copies, where a list in it has structs
        that get a member (deltalake 1.6). Errors: those of deltalake.
        """
        import pyarrow as pa
        from deltalake import write_deltalake

        known = pa.struct(list(plain_schema(pa.schema(self._table.schema().to_arrow()))))
        if with_members(known, pa.struct(list(schema))) != known:
            write_deltalake(self._table, schema.empty_table(), mode="append", schema_mode="merge")
            self._load()

    def _write_transactions(self, transactions: Any) -> None:
        """Commit offsets, and no rows."""
        self._table.create_write_transaction(
            actions=[],
            mode="append",
            schema=self._table.schema(),
            partition_by=self._table.metadata().partition_columns,
            commit_properties=transactions,
        )
        self._load()

    def _properties_of(self, offsets: Mapping[TopicPartition, int | None]) -> Any:
        from deltalake import CommitProperties, Transaction

        return CommitProperties(
            app_transactions=[
                Transaction(self._transaction(at), _FORGOTTEN if offset is None else offset)
                for at, offset in offsets.items()
            ]
        )

    def _check(self, write: TableWrite) -> None:
        """Errors: StaleOffsetsError when the table, as it was read last, has other offsets than the writer knows."""
        known = {span.at: self._offset(span.at) for span in write.ranges}
        if any(known[span.at] != span.base for span in write.ranges):
            raise stale_offsets(self.where, write, known)

    def _has(self, write: TableWrite) -> bool:
        """Whether the commit is in the table, which is read again."""
        self._load()
        return all(span.stop != span.base and self._offset(span.at) == span.stop for span in write.ranges)

    def _offset(self, at: TopicPartition) -> int | None:
        version = None if self._table is None else self._table.transaction_version(self._transaction(at))
        return None if version is None or version == _FORGOTTEN else int(version)

    def _transaction(self, at: TopicPartition) -> str:
        return f"kconnect:{self._writer}:{at.topic}-{at.partition}"


def _hides_local_times(kind: pa.DataType, *, is_in_map: bool = False) -> bool:
    """Whether a map in it has times without a zone, which deltalake does not see there."""
    import pyarrow as pa

    if pa.types.is_timestamp(kind):
        return is_in_map and kind.tz is None
    is_in_map = is_in_map or bool(pa.types.is_map(kind))
    return any(_hides_local_times(kind.field(index).type, is_in_map=is_in_map) for index in range(kind.num_fields))


def _is_conflict(error: Exception) -> bool:
    from deltalake.exceptions import CommitFailedError

    return isinstance(error, CommitFailedError)

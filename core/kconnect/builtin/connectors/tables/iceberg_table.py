"""IcebergTable: an Iceberg table by the package pyiceberg; each snapshot says how far it has each partition."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from kconnect.api import ConnectError, RetriableError, TopicPartition
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.tables.partition_columns import Places, is_local_path
from kconnect.builtin.connectors.tables.table_format import TableWrite, full_names, stale_offsets
from kconnect.builtin.stores.store_errors import store_error
from kconnect.builtin.types.evolution import plain_schema
from kconnect.builtin.types.iceberg_catalog import LOCATION_CLASS, catalog_problem, close_catalog, open_catalog

if TYPE_CHECKING:
    import pyarrow as pa


def _folder(name: str, value: Any) -> str:
    text = base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
    return f"{quote(name, safe='')}={quote(text, safe='')}"


_PLACES: Final = Places("Iceberg", _folder, takes_bytes=True, takes_nan=False)
_TRIES = 10
# Each reads and writes the files again; the next compaction goes on
_JOIN_TRIES = 3
_OFFSETS = "kconnect.offsets."
"""Begins the property with a writer's offsets: of snapshots, and of the table for when those have expired."""
# A table or a file's scan task of pyiceberg: Any keeps its import, which takes half a second, out of start-up
Table = Any
FileTask = Any

# Fewer are not worth a commit
_LEAST = 4


class IcebergTable:
    """Implements TableFormat. The property `kconnect.offsets.WRITER` has JSON: {"orders": {"0": 4711}}.

    The newest snapshot in the current one's line that has it counts: a table that is rolled back takes its offsets
    with it. Commits check that nobody has committed since the table was read; pyiceberg's own retries would not look
    at the offsets again, so they are switched off.
    """

    joins_partitions = True

    def __init__(
        self,
        where: str,
        catalog: Mapping[str, str],
        writer: str,
        partition_by: Sequence[str],
        compression: str,
        properties: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        self.where = where
        self._catalog_properties = catalog
        self._timeout_s = timeout_s
        self._key = f"{_OFFSETS}{writer}"
        self._partition_by = list(partition_by)
        self._properties = {
            "write.parquet.compression-codec": "uncompressed" if compression == "none" else compression,
            # Each commit is a metadata file: without this they stay endlessly
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "100",
            **properties,
        }
        self._catalog: Any = None  # a pyiceberg.catalog.Catalog
        self._table: Any = None  # a pyiceberg.table.Table

    def schema(self) -> pa.Schema | None:
        self._load()
        return None if self._table is None else plain_schema(self._table.schema().as_arrow())

    def stored_type(self, kind: pa.DataType) -> pa.DataType:
        """Iceberg has integers of 32 and 64 bits, and times in us."""
        import pyarrow as pa

        if pa.types.is_integer(kind):
            is_long = kind.bit_width == 64 or (pa.types.is_unsigned_integer(kind) and kind.bit_width == 32)
            return pa.int64() if is_long else pa.int32()
        if pa.types.is_float16(kind):
            return pa.float32()
        if pa.types.is_time(kind):
            return pa.time64("us")
        if pa.types.is_timestamp(kind):
            return pa.timestamp("us", "UTC" if kind.tz else None)
        return kind

    def can_widen(self, column: str, old: pa.DataType, new: pa.DataType) -> bool:
        import pyarrow as pa

        if pa.types.is_decimal(old) and pa.types.is_decimal(new):
            return bool(old.scale == new.scale)
        return (old, new) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64()))

    def refusal(self, schema: pa.Schema) -> str:
        """Iceberg finds fields by their full names, with points, and its files have none without a name."""
        seen: set[str] = set()
        for outer, name in full_names(schema):
            full = f"{outer}.{name}" if outer else name
            if not name:
                return f"a field{f' of {outer}' if outer else ''} has an empty name, which Iceberg cannot have"
            if full in seen:
                return f"{full} is the name of a column and of a field in another, and Iceberg cannot tell them apart"
            seen.add(full)
        return ""

    def misplaced(self, rows: pa.RecordBatch) -> str:
        columns, table = self._partition_by, self._table
        if table is not None:
            schema = table.schema()
            found = (schema.find_column_name(one.source_id) for one in table.spec().fields if _is_itself(one))
            columns = [name for name in found if name]
        where = self._catalog_properties.get("warehouse", "store://") if table is None else table.location()
        return _PLACES.misplaced(rows, columns, is_local=is_local_path(where))

    def open(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self.offsets(partitions)

    def offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self._load()
        known = self._offsets()
        return {at: known[at] for at in partitions if at in known}

    def write(self, write: TableWrite) -> None:
        if self._table is None:
            self._create(write.rows.schema)
        for _ in range(_TRIES):
            known = self._offsets()
            if any(known.get(span.at) != span.base for span in write.ranges):
                raise stale_offsets(self.where, write, known)
            try:
                self._commit(write, {**known, **{span.at: span.stop for span in write.ranges}})
                return
            except Exception as error:  # of pyiceberg and its catalogs, whose errors are of many kinds
                if self._has(write):
                    return  # it was committed, and the answer was lost
                if not _is_conflict(error):
                    raise self._problem(f"write {write} to", error) from error
        raise RetriableError(
            f"Table {self.where} was changed by others {_TRIES} times while {write} were written to it"
        )

    def set_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        self._load()
        if self._table is None:
            return
        for _ in range(_TRIES):
            known: dict[TopicPartition, int | None] = dict(self._offsets())
            wanted = {**known, **{at: offset for at, offset in offsets.items() if at in known}}
            if wanted == known:
                return
            try:
                self._commit(None, {at: offset for at, offset in wanted.items() if offset is not None})
            except Exception as error:  # as in write
                if not _is_conflict(error):
                    raise self._problem("set offsets in", error) from error
            self._load()
        raise RetriableError(f"Table {self.where} was changed by others {_TRIES} times while its offsets were set")

    def compact(self, small_bytes: int) -> str | None:
        removed = added = 0
        for _ in range(_JOIN_TRIES):
            self._load()
            if self._table is None:
                return None
            try:
                for tasks in small_files(self._table, small_bytes):
                    added += join_files(self._table, tasks)
                    removed += len(tasks)
                    # Pyiceberg's retries end with an error even if the others only added rows
                    self._table.metadata.properties["commit.retry.num-retries"] = "0"
                expire_snapshots(self._table)
                return f"{pluralize(removed, 'file')} became {added}" if removed else None
            except Exception as error:  # as in write
                if not _is_conflict(error):
                    raise self._problem("compact", error) from error
        if removed:
            return f"{pluralize(removed, 'file')} became {added}"
        raise RetriableError(f"Table {self.where} was changed by others {_JOIN_TRIES} times while files were joined")

    def close(self) -> None:
        self._table = None
        if self._catalog is not None:
            close_catalog(self._catalog)
        self._catalog = None

    # --- the table ---

    def _load(self) -> None:
        """Read the state of the table again."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        try:
            if self._catalog is None:
                keep_null_lists()
                self._catalog = open_catalog(
                    self._catalog_properties, self._timeout_s, self._properties.get(LOCATION_CLASS)
                )
            self._table = self._catalog.load_table(self.where)
            self._table.metadata.properties["commit.retry.num-retries"] = "0"  # here, not in the catalog
        except (NoSuchTableError, NoSuchNamespaceError):
            self._table = None
        except Exception as error:  # as in write
            raise self._problem("read", error) from error

    def _create(self, schema: pa.Schema) -> None:
        from pyiceberg.exceptions import TableAlreadyExistsError

        try:
            self._catalog.create_namespace_if_not_exists(self.where.rsplit(".", 1)[0])
            table = self._catalog.create_table(self.where, schema=schema, properties=self._properties)
            if self._partition_by:
                with table.update_spec() as spec:
                    for name in self._partition_by:
                        spec.add_identity(name)
        except TableAlreadyExistsError:
            pass  # another task was faster
        except Exception as error:  # as in write
            raise self._problem("create", error) from error
        self._load()

    def _problem(self, what: str, error: Exception) -> ConnectError:

        return store_error(
            what, f"table {self.where}", catalog_problem(error, self._catalog_properties, self._timeout_s)
        )

    def _commit(self, write: TableWrite | None, offsets: Mapping[TopicPartition, int]) -> None:
        import pyarrow as pa

        text = _as_json(offsets)
        change = self._table.transaction()
        columns = plain_schema(self._table.schema().as_arrow())
        if write is not None and write.rows.schema != columns:
            with change.update_schema() as update:
                update.union_by_name(write.rows.schema)
        change.set_properties({self._key: text})
        # Without rows as well: only a snapshot makes the commits of others fail that do not know these offsets
        rows = pa.Table.from_batches([], columns) if write is None else write.rows
        if write is not None and write.keys and self._table.current_snapshot() is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # pyiceberg warns where no row has one of the keys
                change.delete(_with_keys_of(write), snapshot_properties={self._key: text})
        change.append(rows, snapshot_properties={self._key: text})
        change.commit_transaction()
        self._table.metadata.properties["commit.retry.num-retries"] = "0"

    def _has(self, write: TableWrite) -> bool:
        """Whether the commit is in the table, which is read again."""
        self._load()
        known = {} if self._table is None else self._offsets()
        return all(span.stop != span.base and known.get(span.at) == span.stop for span in write.ranges)

    def _offsets(self) -> dict[TopicPartition, int]:
        """What the table has for this writer, as it was read last."""
        if self._table is None:
            return {}
        snapshot = self._table.current_snapshot()
        while snapshot is not None:
            text = snapshot.summary and snapshot.summary.additional_properties.get(self._key)
            if text:
                return _from_json(text)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else self._table.snapshot_by_id(parent)
        return _from_json(self._table.properties.get(self._key) or "{}")


def _is_itself(part: Any) -> bool:  # a field of pyiceberg's PartitionSpec
    """Whether rows are parted by a column as it is, and not by its month, say."""
    return str(part.transform) == "identity"


def _is_conflict(error: Exception) -> bool:
    """Whether somebody else has committed since the table was read."""
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

    if isinstance(error, CommitFailedException | CommitStateUnknownException):
        return True
    return "database is locked" in str(error)  # SQLite's, where the catalog is a file


def _with_keys_of(write: TableWrite) -> Any:
    """The condition of pyiceberg for the rows that a commit replaces or removes."""
    import pyarrow as pa
    from pyiceberg.table.upsert_util import create_match_filter

    keys = [table.select(list(write.keys)) for table in (write.rows, write.deletes) if table is not None]
    return create_match_filter(pa.concat_tables(keys, promote_options="permissive"), list(write.keys))


def _as_json(offsets: Mapping[TopicPartition, int]) -> str:
    by_topic: dict[str, dict[str, int]] = {}
    for at, offset in sorted(offsets.items()):
        by_topic.setdefault(at.topic, {})[str(at.partition)] = offset
    return json.dumps(by_topic, separators=(",", ":"))


def _from_json(text: str) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in json.loads(text).items()
        for partition, offset in partitions.items()
    }


def small_files(table: Table, aim_bytes: int) -> list[list[FileTask]]:
    """Files to join: of one partition each, together about as large as asked for, without deletes of rows."""
    by_partition: dict[Any, list[FileTask]] = {}
    for task in table.scan().plan_files():
        if task.file.file_size_in_bytes < aim_bytes // 2 and not task.delete_files:
            key = (task.file.spec_id, tuple(task.file.partition[place] for place in range(len(task.file.partition))))
            by_partition.setdefault(key, []).append(task)
    groups: list[list[FileTask]] = []
    for tasks in by_partition.values():
        group: list[FileTask] = []
        size = 0
        for task in tasks:
            if group and size + task.file.file_size_in_bytes > aim_bytes:
                groups.append(group)
                group, size = [], 0
            group.append(task)
            size += task.file.file_size_in_bytes
        groups.append(group)
    return [group for group in groups if len(group) >= _LEAST]


def join_files(table: Table, tasks: Sequence[FileTask]) -> int:
    """Commit one file, or a few, with the rows of these; gives how many. Errors: pyiceberg's, when one is gone."""
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files

    rows = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_table(tasks)
    change = table.transaction()
    with change.update_snapshot().overwrite() as snapshot:
        made = list(
            _dataframe_to_data_files(
                table_metadata=change.table_metadata, df=rows, io=table.io, write_uuid=snapshot.commit_uuid
            )
        )
        for task in tasks:
            snapshot.delete_data_file(task.file)
        for file in made:
            snapshot.append_data_file(file)
    change.commit_transaction()
    return len(made)


def expire_snapshots(table: Table) -> None:
    """Forget snapshots older than the table itself says (history.expire.max-snapshot-age-ms); without it, none.

    Each commit is a snapshot, and each snapshot makes each later commit longer. Their files stay.
    """
    age_ms = table.properties.get("history.expire.max-snapshot-age-ms")
    if age_ms is not None:
        oldest = datetime.now(UTC) - timedelta(milliseconds=int(age_ms))
        table.maintenance.expire_snapshots().older_than(oldest.replace(tzinfo=None)).commit()


def keep_null_lists() -> None:
    """Have pyiceberg write and read null lists and maps of structs as null, where it makes empty ones of them.

    Differs: from pyiceberg 0.12, whose ArrowProjectionVisitor makes such lists again without what is null in them.
    """
    from pyiceberg.io.pyarrow import ArrowProjectionVisitor as Visitor

    if getattr(Visitor, "keeps_nulls", False):
        return
    for name in ("list", "map"):
        setattr(Visitor, name, _with_nulls(getattr(Visitor, name)))
    setattr(Visitor, "keeps_nulls", True)  # noqa: B010 - mypy knows no such attribute


def _with_nulls(method: Callable[..., Any]) -> Callable[..., Any]:
    def with_nulls(self: Any, kind: Any, given: Any, *parts: Any) -> Any:
        made = method(self, kind, given, *parts)
        if made is None or made.null_count == given.null_count:
            return made
        import pyarrow as pa
        import pyarrow.compute as pc

        # Not if_else, whose type lacks the field ids by which the table finds columns in its files
        inner = [made.keys, made.items] if pa.types.is_map(made.type) else [made.values]
        offsets = pc.add(made.offsets, pa.scalar(0, made.offsets.type))  # a mask goes with offsets of their own only
        return type(made).from_arrays(offsets, *inner, type=made.type, mask=given.is_null())

    return with_nulls

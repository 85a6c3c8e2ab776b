"""Upkeep of an Iceberg table: joins small data files, which pyiceberg has no call for, and forgets old snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

# A table or a file's scan task of pyiceberg: Any keeps its import, which takes half a second, out of start-up
Table = Any
FileTask = Any

# Fewer are not worth a commit
_LEAST = 4


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

"""BatchWriter on Delta and Iceberg: a batch is in the table once, and no old one after a newer, whoever tries when.

`make queries-tables`, in environments with the versions of Spark that the jars of these formats run on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kconnect.spark.query.batch_writer import BatchWriter, IcebergBatches
from kconnect.spark.query.sink_settings import SinkQuerySettings
from kit.query_tables import read_query_table, sink_settings, spark_settings, table_formats
from kit.spark_session import local_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

_CHANGES = "id bigint, name string, _offset bigint, _deleted boolean"


class Tables:
    """Writers and readers of tables in one session. Each writer is one start of a query."""

    def __init__(self, session: Any, folder: Path) -> None:
        self._session, self._folder = session, folder

    def writer(self, kind: str, table: str, query_id: str, **more: str) -> BatchWriter:
        return BatchWriter(SinkQuerySettings.parse(sink_settings(kind, self._folder, table, **more)), query_id)

    def merger(self, kind: str, table: str, query_id: str) -> BatchWriter:
        return self.writer(kind, table, query_id, spark_mode="merge", merge_keys="id")

    def rows(self, *ids: int) -> Any:
        return self._session.createDataFrame([(each,) for each in ids], "id bigint")

    def changes(self, *changes: tuple[int, str | None, int]) -> Any:
        """Key, name (None: a tombstone) and offset of each."""
        return self._session.createDataFrame([(*each, each[1] is None) for each in changes], _CHANGES)

    def ids(self, kind: str, table: str) -> list[int]:
        return sorted(read_query_table(kind, self._folder, table).column("id").to_pylist())

    def names(self, kind: str, table: str) -> dict[int, str]:
        found = read_query_table(kind, self._folder, table)
        return dict(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))

    def sql(self, text: str) -> None:
        self._session.sql(text)

    def batches(self, table: str, query_id: str) -> IcebergBatches:
        return IcebergBatches(self._session, f"lake.db.{table}", query_id)

    def append(self, table: str, *ids: int) -> Callable[[], object]:
        return lambda: self.rows(*ids).write.format("iceberg").mode("append").saveAsTable(f"lake.db.{table}")


def batches_are_in_tables_once(tmp_path: Path) -> None:
    with local_session(tmp_path, spark_settings(tmp_path)) as session:
        tables = Tables(session, tmp_path)
        for kind in table_formats():
            _appends_once(tables, kind)
            _merges_in_order(tables, kind)
        if "iceberg" in table_formats():
            _replaces_all_rows(tables)
            _one_of_two_appends_is_published(tables)
            _a_merge_is_computed_again_after_other_commits(tables)
            _an_old_merge_that_was_held_up_changes_nothing(tables)


def _appends_once(tables: Tables, kind: str) -> None:
    writer = tables.writer(kind, "once", "q")
    for batch, ids in ((1, (1, 2)), (1, (1, 2)), (2, (3,)), (1, (1, 2)), (2, (3,))):
        writer.write(tables.rows(*ids), batch)
    tables.writer(kind, "once", "another").write(tables.rows(1), 1)

    assert tables.ids(kind, "once") == [1, 1, 2, 3]


def _merges_in_order(tables: Tables, kind: str) -> None:
    writer = tables.merger(kind, "merged", "q")
    first = tables.changes((1, "a", 1), (2, "b", 2), (1, "c", 3))
    writer.write(first, 1)
    assert tables.names(kind, "merged") == {1: "c", 2: "b"}
    writer.write(tables.changes((1, None, 4), (2, "bb", 5), (9, None, 6)), 2)
    writer.write(first, 1)  # of a query that was cut off, and wakes
    assert tables.names(kind, "merged") == {2: "bb"}
    writer.write(tables.changes((9, None, 7)), 3)
    assert tables.names(kind, "merged") == {2: "bb"}


def _replaces_all_rows(tables: Tables) -> None:
    """As a query with aggregations does, with spark.output.mode=complete."""
    writer = tables.writer("iceberg", "whole", "q", spark_output_mode="complete")
    for batch, ids, seen in ((1, (1,), [1]), (2, (1, 2), [1, 2]), (1, (1,), [1, 2]), (3, (3,), [3])):
        writer.write(tables.rows(*ids), batch)
        assert tables.ids("iceberg", "whole") == seen


def _one_of_two_appends_is_published(tables: Tables) -> None:
    other = tables.writer("iceberg", "both", "q")
    other.write(tables.rows(1), 1)
    held_up = tables.batches("both", "q")
    pick = held_up._pick

    def after_the_other(staged: Any) -> None:
        other.write(tables.rows(2), 2)
        pick(staged)

    held_up._pick = after_the_other  # type: ignore[method-assign]  # between staging and publishing
    held_up.append(2, tables.append("both", 2))
    assert tables.ids("iceberg", "both") == [1, 2]

    def after_somebody_else(staged: Any) -> None:
        tables.append("both", 100)()
        pick(staged)

    held_up._pick = after_somebody_else  # type: ignore[method-assign]  # as above
    held_up.append(3, tables.append("both", 3))
    assert tables.ids("iceberg", "both") == [1, 2, 3, 100]


def _a_merge_is_computed_again_after_other_commits(tables: Tables) -> None:
    tables.merger("iceberg", "busy", "q").write(tables.changes((1, "a", 1)), 1)
    batches = tables.batches("busy", "q")
    move, commits = batches._move_to, iter(["insert into lake.db.busy values (2, 'from elsewhere')"])

    def after_a_commit(staged: Any) -> None:
        for commit in commits:
            tables.sql(commit)
        move(staged)

    batches._move_to = after_a_commit  # type: ignore[method-assign]  # between staging and publishing
    upper = "merge into lake.db.busy t using (select 2 as id, 'mine' as name) s on t.id = s.id"
    batches.change(
        2, lambda: tables.sql(f"{upper} when matched then update set name = s.name when not matched then insert *")
    )

    assert tables.names("iceberg", "busy") == {1: "a", 2: "mine"}


def _an_old_merge_that_was_held_up_changes_nothing(tables: Tables) -> None:
    """Held up after it looked whether the table has its batch: then it sees, and would change, what came since."""
    newer = tables.merger("iceberg", "held", "q")
    newer.write(tables.changes((1, "a", 1)), 1)

    def late() -> None:
        newer.write(tables.changes((1, "b", 2)), 2)
        newer.write(tables.changes((1, "c", 3)), 3)
        tables._session.conf.set("spark.wap.id", "kconnect-q-2")  # both are in one session here
        tables.sql(
            "merge into lake.db.held t using (select 1 as id) s on t.id = s.id when matched then update set name = 'b'"
        )

    tables.batches("held", "q").change(2, late)

    assert tables.names("iceberg", "held") == {1: "c"}


if os.environ.get("KCONNECT_QUERIES_TABLES"):  # `make queries-tables`
    test_batches_are_in_tables_once = batches_are_in_tables_once

"""TopicOrder: what the processes that read topics for a query get. Plain values: it is pickled by Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kconnect.spark.slot_spec import TallyAddress

SourceOffset = dict[str, dict[str, int]]
"""Has the form of Spark's own Kafka source: topic -> partition -> the next offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOrder:
    """All that the reading processes need. Plain values: it is pickled."""

    key: str
    """Names this start of the query: what a process has kept of an earlier one is not used."""
    spec: Mapping[str, Any]
    """The task's, as JSON, with references as written."""
    plugin_path: str | None
    plugins: tuple[str, ...] = ()
    """Plugin folders that were shipped to executors, by name."""
    schema: Mapping[str, Any]
    """Spark's, as JSON: the value's columns, then those of `about`."""
    about: tuple[str, ...]
    """Which of the columns of topic_reader.ABOUT follow the value's."""
    is_inferred: bool
    """The schema was found in records: a field that is not in it ends the query, which finds it again."""
    fixed: tuple[str, ...] | None = None
    """The columns of a table that Spark does not change, in lower case."""
    keeps_tombstones: bool
    merge_keys: tuple[str, ...] = ()
    """Columns that a record without value takes from its key."""
    max_records: int
    begin: SourceOffset
    """Where the next batch begins. Spark 4.1 does not say it to the source."""
    first: SourceOffset | None = None
    """Where the first batch of the checkpoint begins, if the query keeps that itself."""
    tally: TallyAddress | None = None
    """Where to say what failed in records."""

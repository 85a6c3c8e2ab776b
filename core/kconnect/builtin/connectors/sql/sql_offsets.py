"""Exactly once: a sink's offsets in a table of the database that it writes to, in the transaction of their rows.

Each commit first moves the offsets from where this task knows them to be to behind its records, and is refused where
they are elsewhere. So of two writers that both take a partition for theirs (one was cut off and does not know) the rows
of a record are written by one, whichever commits first; the other goes on from what the table has. Nothing is kept in
the session, so that a pooler may stand between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kconnect.api import ConnectError, DataError, RecordBatch, RetriableError, SinkRecord, TopicPartition
from kconnect.builtin.connectors.sql.sql_sink_database import SinkDatabase

COLUMNS: Final = ("connector", "topic", "kafka_partition", "next_offset")
# Names differ by case, which MySQL's texts do not
_KEY_TYPES: Final = {"mysql": "VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"}
_ENDINGS: Final = {"mysql": " ENGINE=InnoDB"}


@dataclass(frozen=True, slots=True)
class Span:
    """Records of one partition that a transaction writes: from `start` up to before `stop`."""

    at: TopicPartition
    base: int | None
    """The offset that the table has for the partition as far as this task knows; None when it has none."""
    start: int
    stop: int


class MovedOffsetsError(ConnectError):
    """The table has other offsets than this task knows: another has written, and nothing of this transaction is."""


class OffsetTable:
    """The statements. Its methods run in the transaction of a cursor. Errors of all: the driver's."""

    def __init__(self, database: SinkDatabase, name: str, connector: str) -> None:
        dialect = database.dialect
        self.name, self.may_pass, self._connector = name, database.may_pass, connector
        self._dialect, self._parts = dialect.name, dialect.parts
        percent = "%%" if database.driver.paramstyle in ("format", "pyformat") else "%"
        table = dialect.name_of(name.replace("%", percent))
        columns = [dialect.column(column) for column in COLUMNS]
        key, text = columns[:3], _KEY_TYPES.get(dialect.name, "VARCHAR(255)")
        self._create = (
            f"CREATE TABLE IF NOT EXISTS {table.replace(percent, '%')} ({columns[0]} {text} NOT NULL, "
            f"{columns[1]} {text} NOT NULL, {columns[2]} INTEGER NOT NULL, {columns[3]} BIGINT NOT NULL, "
            f"PRIMARY KEY ({', '.join(key)})){_ENDINGS.get(dialect.name, '')}"
        )
        marks = database.marks(5)

        def where(names: Sequence[str], first: int) -> str:
            return " AND ".join(f"{name} = {mark}" for name, mark in zip(names, marks[first:], strict=False))

        self._read = f"SELECT {', '.join(columns[1:])} FROM {table} WHERE {where(key[:1], 0)}"
        self._move = f"UPDATE {table} SET {columns[3]} = {marks[0]} WHERE {where(columns, 1)}"
        self._set = f"UPDATE {table} SET {columns[3]} = {marks[0]} WHERE {where(key, 1)}"
        self._forget = f"DELETE FROM {table} WHERE {where(key, 0)}"
        values = f"INTO {table} ({', '.join(columns)}) VALUES ({', '.join(marks[:4])})"
        is_mysql = dialect.name == "mysql"
        self._begin = f"INSERT IGNORE {values}" if is_mysql else f"INSERT {values} ON CONFLICT DO NOTHING"

    def create(self, cursor: Any) -> None:
        """In a transaction of its own, as MySQL ends one here."""
        cursor.execute(self._create)

    def read(self, cursor: Any) -> dict[TopicPartition, int]:
        """The offset to go on from, of each partition that has one."""
        cursor.execute(self._read, (self._connector,))
        return {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in cursor.fetchall()}

    def move(self, cursor: Any, spans: Iterable[Span]) -> None:
        """First in a transaction: it locks the rows of the offsets until the end. Errors: MovedOffsetsError."""
        for span in spans:
            place = (self._connector, span.at.topic, span.at.partition)
            if span.base is None:
                cursor.execute(self._begin, (*place, span.stop))
            else:
                cursor.execute(self._move, (span.stop, *place, span.base))
            if cursor.rowcount != 1:
                raise MovedOffsetsError(f"{self.name} has another offset of {span.at} than {span.base}")

    def set(self, cursor: Any, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Other offsets for partitions of which there is one; None removes it."""
        for at, offset in offsets.items():
            place = (self._connector, at.topic, at.partition)
            if offset is None:
                cursor.execute(self._forget, place)
            else:
                cursor.execute(self._set, (offset, *place))

    def require_transactions(self, cursor: Any, tables: Collection[str]) -> None:
        """Look at tables before they are written to. Errors: ConnectError if one's engine knows no transactions."""
        if self._dialect != "mysql":
            return
        cursor.execute("SELECT engine FROM information_schema.engines WHERE transactions = 'YES'")
        able = {row[0].lower() for row in cursor.fetchall()}
        for table in tables:
            schema, name = self._parts(table)
            given = "DATABASE()" if not schema else "'" + schema.replace("'", "''") + "'"
            cursor.execute(
                "SELECT engine FROM information_schema.tables WHERE engine IS NOT NULL AND table_schema = "
                f"{given} AND table_name = '" + name.replace("'", "''").replace("\\", "\\\\") + "'"
            )
            for (engine,) in cursor.fetchall():
                if engine.lower() not in able:
                    raise ConnectError(
                        f"Table {table} cannot have each record once: its engine {engine} knows no transactions",
                        hint=f"ALTER TABLE {table} ENGINE=InnoDB, or set delivery.guarantee=at_least_once.",
                    )


def found_offsets(
    table: OffsetTable, begin: Callable[[], Any], connection: Callable[[], Any]
) -> dict[TopicPartition, int]:
    """What the table has, in a transaction of its own; it is made if it is missing. Errors: the driver's.

    `begin` gives a cursor of a new transaction on the `connection`.
    """
    try:
        found = table.read(begin())
    except Exception as error:  # a driver's: it may be missing, or made by another task at this moment
        if table.may_pass(error):
            raise
        connection().rollback()
        try:
            table.create(begin())
            connection().commit()
        except Exception as error:  # as above
            if table.may_pass(error):
                raise
            connection().rollback()
        found = table.read(begin())
    connection().rollback()
    return found


def alter(table: OffsetTable, database: SinkDatabase, offsets: Mapping[TopicPartition, int | None]) -> None:
    """Change offsets from outside of a task. Errors: RetriableError, ConnectError."""
    try:
        with contextlib.closing(database.connect()) as connection:
            beginning = database.begin(connection)

            def begin() -> Any:
                cursor = connection.cursor()
                if beginning:
                    cursor.execute(beginning)
                return cursor

            found_offsets(table, begin, lambda: connection)
            table.set(begin(), offsets)
            connection.commit()
    except Exception as error:  # a driver's: any class of its own
        kind = RetriableError if database.may_pass(error) else ConnectError
        raise kind(f"The offsets in table {table.name} cannot be changed: {type(error).__name__}: {error}") from error


def writer_of(props: Mapping[str, str]) -> str:
    """By which name a connector's offsets are in the table."""
    return props.get("name") or "sql-sink"


class WrittenOffsets:
    """What a task knows of its partitions' offsets in the table. Pure. Threads: one."""

    def __init__(self) -> None:
        self._base: dict[TopicPartition, int | None] = {}
        self.sought: set[TopicPartition] = set()
        """Partitions that are read from another offset after this put: what came before is dropped."""

    def unknown(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        return {at for at in partitions if at not in self._base}

    def learn(
        self, found: Mapping[TopicPartition, int], partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """What the table has of these; gives the places to read from."""
        for at in partitions:
            self._base[at] = found.get(at)
        return {at: offset for at in partitions if (offset := self._base[at]) is not None}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        for at in partitions:
            self._base.pop(at, None)
            self.sought.discard(at)

    def spans(self, ranges: Mapping[TopicPartition, tuple[int, int]]) -> tuple[Span, ...]:
        """What these offsets of records move. Errors: ConnectError where the table has them: a topic was made again."""
        for at, (start, _) in ranges.items():
            base = self._base[at]
            if base is not None and start < base:
                raise ConnectError(
                    f"{at} begins again at offset {start}, and the table of offsets has everything before {base}: "
                    "was the topic created again?",
                    hint="`connect offsets reset NAME` makes the table forget its offsets.",
                )
        return tuple(Span(at, self._base[at], start, stop) for at, (start, stop) in ranges.items())

    def written(self, spans: Iterable[Span]) -> None:
        for span in spans:
            self._base[span.at] = span.stop

    def moved(self, spans: Sequence[Span], found: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Where to read on after a refused transaction; empty if it was written, and only its answer was lost.

        Errors: ConnectError where an offset was taken out of the table.
        """
        if all(found.get(span.at) == span.stop for span in spans):
            self.written(spans)
            return {}
        for span in spans:
            if span.at not in found and span.base is not None:
                raise ConnectError(
                    f"The offset of {span.at} was reset while this task ran",
                    hint="Restart the task: it begins where the consumer group stands.",
                )
        places = {**{span.at: span.start for span in spans}, **self.learn(found, [span.at for span in spans])}
        self.sought.update(places)
        return places


def ranges_of(records: Iterable[SinkRecord]) -> dict[TopicPartition, tuple[int, int]]:
    """For each partition the offset of the first record, and that behind the last. Errors: as of `place_of`."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    at: TopicPartition | None = None
    topic, partition, start, last = "", -1, 0, 0
    for record in records:  # 0.1 us each, as neighbours are of one partition
        if record.original_kafka_partition != partition or record.original_topic != topic:
            if at is not None:
                found[at] = (start, last + 1)
            at = place_of(record)
            topic, partition = at.topic, at.partition
            start = found[at][0] if at in found else record.original_kafka_offset or 0
        last = record.original_kafka_offset or 0
    if at is not None:
        found[at] = (start, last + 1)
    return found


def range_of_batch(batch: RecordBatch) -> dict[TopicPartition, tuple[int, int]]:
    """The same of a batch, which is of one partition. Errors: DataError for one that was not read."""
    offsets, partition = batch.kafka_offsets, batch.original_kafka_partition
    if offsets is None or partition is None:
        raise DataError(f"A batch of topic {batch.topic} has no position in Kafka")
    if not len(offsets):
        return {}
    return {TopicPartition(batch.original_topic, partition): (offsets[0].as_py(), offsets[-1].as_py() + 1)}


def place_of(record: SinkRecord) -> TopicPartition:
    """Where a record was read. Errors: DataError for one that was not."""
    if record.original_topic is None or record.original_kafka_partition is None:
        raise DataError(f"A record of topic {record.topic} has no position in Kafka")
    return TopicPartition(record.original_topic, record.original_kafka_partition)

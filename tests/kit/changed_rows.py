"""Changes of rows, made whatever happens to their database, and what a topic has of them held against them."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import orjson
import psycopg
from confluent_kafka import Message

from kit.waiting import eventually

__all__ = ["FIRST", "Change", "ChangedRows", "assert_in_order", "planned_changes"]

Change = tuple[str, int, int]
"""What was done (c, u, d or, in a snapshot, r), to which id, and its number: of a deletion that of the row before."""
FIRST: Change = ("r", -1, 0)
"""The row that is there before, so that there is a snapshot, and an offset once it is done."""
_PER_TRANSACTION = 20
_AWAY_S = 120.0
_GONE = ("08", "57P")
"""SQL states of a connection or server that ends."""


def planned_changes(count: int, seed: int, ids: int) -> list[Change]:
    """Insertions, updates and deletions of so many ids, as chance has it, behind the row that is there before."""
    chance = random.Random(seed)
    last: dict[int, int] = {}
    made: list[Change] = [FIRST]
    for number in range(1, count + 1):
        one = chance.randrange(ids)
        if one not in last:
            made.append(("c", one, number))
        elif chance.random() < 0.25:
            made.append(("d", one, last.pop(one)))
            continue
        else:
            made.append(("u", one, number))
        last[one] = number
    return made


class ChangedRows:
    """Makes changes at a rate, each once, in transactions, although the server is killed now and then.

    How far it came stands in a table of its own, written in the same transaction.
    """

    def __init__(self, uri: str, changes: Sequence[Change], rate: int) -> None:
        assert changes[0] == FIRST
        self._uri, self._changes, self._rate = uri, changes[1:], rate
        self.done = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="test-changes")
        with psycopg.connect(uri, autocommit=True) as db:
            db.execute("CREATE TABLE rows (id int PRIMARY KEY, seq bigint NOT NULL, name text)")
            db.execute("ALTER TABLE rows REPLICA IDENTITY FULL")
            db.execute("INSERT INTO rows VALUES (-1, 0, 'there from the start')")
            db.execute("CREATE TABLE progress AS SELECT 0 AS done")

    def __enter__(self) -> ChangedRows:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(60)

    @property
    def is_done(self) -> bool:
        return self.done == len(self._changes)

    def await_done(self, count: int, within_s: float) -> None:
        def far() -> bool:
            if not (self._thread.is_alive() or self.is_done):
                raise RuntimeError(f"the changes ended with an error, after {self.done}")
            return self.done >= count

        eventually(far, within_s, f"{count} changes are made", pause_s=0.1)

    def rows(self, database: str = "postgres") -> list[tuple[int, int, str]]:
        """The table, by id, in one of the server's databases. Errors: psycopg.Error without it."""
        with psycopg.connect(self._uri, dbname=database, autocommit=True) as db:
            return list(db.execute("SELECT id, seq, name FROM rows ORDER BY id").fetchall())

    def _run(self) -> None:
        began = time.monotonic()
        while not self.is_done and not self._stop.is_set():
            with _killed_or_not(), self._connected() as db:
                found = db.execute("SELECT done FROM progress").fetchone()
                assert found is not None
                self.done = found[0]
                while not self.is_done and not self._stop.wait(
                    max(0.0, began + self.done / self._rate - time.monotonic())
                ):
                    batch = self._changes[self.done : self.done + _PER_TRANSACTION]
                    done = self.done + len(batch)
                    db.execute(_transaction(batch, done))
                    self.done = done

    def _connected(self) -> psycopg.Connection[tuple[int]]:
        def opened() -> psycopg.Connection[tuple[int]]:
            try:
                return psycopg.connect(self._uri, autocommit=True)
            except psycopg.OperationalError as err:
                raise AssertionError(f"{err}") from err

        return eventually(opened, _AWAY_S, "the database is back")


@contextmanager
def _killed_or_not() -> Iterator[None]:
    """Errors: those of statements; that the server is gone is none."""
    try:
        yield
    except psycopg.OperationalError as err:
        if err.sqlstate is not None and not err.sqlstate.startswith(_GONE):
            raise


def _transaction(batch: Iterable[Change], done: int) -> bytes:
    made = []
    for what, one, number in batch:
        if what == "c":
            made.append(f"INSERT INTO rows VALUES ({one}, {number}, 'name {number}')")
        elif what == "u":
            made.append(f"UPDATE rows SET seq = {number}, name = 'name {number}' WHERE id = {one}")
        else:
            made.append(f"DELETE FROM rows WHERE id = {one}")
    return "; ".join(["BEGIN", *made, f"UPDATE progress SET done = {done}", "COMMIT"]).encode()


def assert_in_order(changes: Sequence[Change], messages: Iterable[Message]) -> dict[str, int]:
    """Each change is there, and those of an id in order; what was sent again goes on to the end without a gap.

    Values are JSON with schema, flat, with __op. Gives how many records and repeated ones there were.
    """
    wanted: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for what, one, number in changes:
        wanted[one].append((what, number))
    places = {one: {change: place for place, change in enumerate(known)} for one, known in wanted.items()}
    at: dict[int, int] = {}
    farthest: dict[int, int] = {}
    records = repeated = 0
    for message in messages:
        value = message.value()
        if value is None:
            continue  # the tombstone after a deletion
        row = orjson.loads(value)["payload"]
        change, one = (row["__op"], row["seq"]), row["id"]
        assert change in places[one], f"id {one} at offset {message.offset()}: {change} was never made"
        place, before = places[one][change], at.get(one, -1)
        assert place <= before + 1, (
            f"id {one} at offset {message.offset()}: after change {before} came {place} of {wanted[one][: place + 2]}"
        )
        records += 1
        repeated += place <= farthest.get(one, -1)
        at[one] = place
        farthest[one] = max(place, farthest.get(one, -1))
    late = {one: known[-1] for one, known in wanted.items() if at.get(one) != len(known) - 1}
    assert not late, f"{len(late)} ids of {len(wanted)} are not at their last change: {dict(list(late.items())[:5])}"
    return {"records": records, "repeated": repeated}

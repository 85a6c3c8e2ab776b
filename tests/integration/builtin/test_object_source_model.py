"""ObjectSource under random kills, commits and new files: with its offsets each row counts once, and none is lost."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from kconnect.testing import SourceHarness
from kit.examples import examples
from kit.waiting import eventually

FORMATS = ("txt", "jsonl", "jsonl.gz", "json", "csv", "parquet")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("file"), st.sampled_from(FORMATS), st.integers(0, 9)),
        st.tuples(st.just("poll"), st.just(""), st.integers(1, 4)),
        st.tuples(st.just("commit"), st.just(""), st.just(0)),
        st.tuples(st.just("kill"), st.just(""), st.just(0)),
    ),
    min_size=1,
    max_size=16,
)


def write(folder: Path, number: int, kind: str, rows: range) -> None:
    file = folder / f"{number:03}.{kind}"
    lines = "".join(json.dumps({"n": row}) + "\n" for row in rows).encode()
    if kind == "txt":
        file.write_text("\n".join(map(str, rows)))
    elif kind == "jsonl":
        file.write_bytes(lines)
    elif kind == "jsonl.gz":
        file.write_bytes(gzip.compress(lines))
    elif kind == "json":
        file.write_text(json.dumps([{"n": row} for row in rows]))
    elif kind == "csv":
        file.write_text("n\n" + "".join(f"{row}\n" for row in rows))
    else:
        pq.write_table(pa.table({"n": pa.array(rows, pa.int64())}), file, row_group_size=3)


class World:
    """A source, what it gave since the last commit, and what was committed: as with exactly-once."""

    def __init__(self, folder: Path, after: str, tasks: int, settle_ms: int = 0, before: World | None = None) -> None:
        """`before`: another one, of which offsets and rows that were committed are taken over."""
        self.given: list[int] = []
        self.kept: list[int] = [] if before is None else before.kept
        config = {"object.url": str(folder / "in"), "topic": "t", "poll.interval.ms": "1", "batch.rows": "2"}
        config |= {"object.settle.ms": str(settle_ms)}
        offsets = [] if before is None else [(one.partition, one.offset) for one in before.source.offsets]
        config |= {"object.after": after, "object.move.url": str(folder / "done"), "tasks.max": str(tasks)}
        self.source = SourceHarness("ObjectSource", config, offsets=offsets).start()

    def poll(self) -> None:
        for record in self.source.poll_once():
            value = record.value
            self.given.append(
                int(value if isinstance(value, str) else value["n"] if isinstance(value, dict) else value.get("n"))
            )

    def commit(self) -> None:
        self.source.commit()
        self.kept, self.given = self.kept + self.given, []

    def kill(self) -> None:
        self.source.crash()
        self.given = []
        self.source.start()


@examples(30)
@given(steps=STEPS, after=st.sampled_from(["keep", "delete", "move"]), tasks=st.integers(1, 2))
def test_each_row_counts_once(steps: list[tuple[str, str, int]], after: str, tasks: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        world, rows, files = World(folder, after, tasks), 0, 0
        for step, kind, number in steps:
            if step == "file":
                write(folder / "in", files, kind, range(rows, rows + number))
                rows, files = rows + number, files + 1
            elif step == "poll":
                for _ in range(number):
                    world.poll()
            elif step == "commit":
                world.commit()
            else:
                world.kill()

        def is_over() -> bool:
            for _ in range(10):
                world.poll()
            world.commit()
            left = len(list((folder / "in").iterdir()))
            return len(world.kept) >= rows and (after == "keep" or left == 0)

        eventually(is_over, 10, "all is read")
        assert Counter(world.kept) == Counter(range(rows))
        world.source.crash()


@examples(25)
@given(
    kind=st.sampled_from(["txt", "jsonl", "csv"]),
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("write"), st.integers(1, 9)),
            st.tuples(st.just("poll"), st.integers(1, 3)),
            st.tuples(st.just("commit"), st.just(0)),
            st.tuples(st.just("kill"), st.just(0)),
        ),
        max_size=20,
    ),
    ends=st.booleans(),
)
def test_each_line_of_a_growing_file_counts_once_and_none_is_half(
    kind: str, steps: list[tuple[str, int]], ends: bool
) -> None:
    """The file is written byte by byte, in the midst of lines and characters; its last line may have no end."""
    rows = range(10, 22)
    lines = {"txt": "{}\n", "jsonl": '{{"n": {}, "s": "ä"}}\n', "csv": "{},ä\n"}[kind]
    text = ("n,s\n" if kind == "csv" else "") + "".join(lines.format(row) for row in rows)
    whole = (text if ends else text[:-1]).encode()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        file, at = folder / "in" / f"a.{kind}", 0
        world = World(folder, "keep", 1, settle_ms=600_000)
        for step, number in steps:
            if step == "write":
                with file.open("ab") as out:
                    out.write(whole[at : at + number])
                at += number
            elif step == "poll":
                for _ in range(number):
                    world.poll()
            elif step == "commit":
                world.commit()
            else:
                world.kill()
        with file.open("ab") as out:
            out.write(whole[at:])
        world.commit()
        world.source.crash()
        last = World(folder, "keep", 1, settle_ms=0, before=world)

        def is_over() -> bool:
            for _ in range(4):
                last.poll()
            last.commit()
            return len(last.kept) >= len(rows)

        eventually(is_over, 10, "all is read")
        assert last.kept == list(rows)
        last.source.crash()

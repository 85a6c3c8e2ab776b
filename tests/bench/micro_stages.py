"""Micro bench of the stages, one process, no Kafka: lines of a file to lists of bytes, and back to a file.

    python tests/bench/micro_stages.py --lines 500000 --width 100 --repeat 5

Prints one JSON object: seconds of CPU a record in microseconds (best of the repeats) and records a second, a case.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kconnect.api import RecordBatch, Schema, SchemaBuilder, SourceRecord, Struct, TimestampType
from kconnect.builtin.connectors.file_sink import FileStreamSinkTask
from kconnect.builtin.connectors.file_source import FileStreamSourceTask
from kconnect.builtin.converters.bytes_converter import ByteArrayConverter
from kconnect.builtin.converters.json_converter import JsonConverter
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.builtin.transforms.hoist_field import HoistFieldValue
from kconnect.builtin.transforms.insert_field import InsertFieldValue
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.fetched import FetchedBatch
from kconnect.runtime.pipeline.polled_lists import PolledLists
from kconnect.runtime.pipeline.stages import TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain

JSON = {"schemas.enable": "true"}
PLAIN_JSON = {"schemas.enable": "false"}


class Offsets:
    def offset(self, partition: Any) -> None:
        return None


class Context:
    """A task context that stops the bench when the file has ended."""

    ended = False

    def offset_storage_reader(self) -> Offsets:
        return Offsets()

    def wait(self, timeout_s: float) -> bool:
        self.ended = True
        return True

    def wake(self) -> None:
        """The file does not grow while it is measured."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=500_000)
    parser.add_argument("--width", type=int, default=100, help="bytes of a line with its end")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--escapes", action="store_true", help="put a quote into every line, so that JSON must escape")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lines.txt"
        body = ('"' if args.escapes else "") + "x" * (args.width - 9 - (2 if args.escapes else 1))
        file.write_text("".join(f"{number:09d}{body}\n" for number in range(args.lines)))
        results = {name: measure(run, args) for name, run in cases(file, args.lines)}
    print(json.dumps({"python": sys.version.split()[0], **vars(args), "results": results}, indent=2))  # noqa: T201 - its purpose
    return 0


def measure(run: Callable[[], int], args: argparse.Namespace) -> dict[str, float]:
    best = float("inf")
    for _ in range(args.repeat):
        begin = time.process_time()
        count = run()
        best = min(best, time.process_time() - begin)
        if count != args.lines:
            raise SystemExit(f"{count} records instead of {args.lines}")
    return {"us_per_record": round(best / args.lines * 1e6, 4), "records_per_s": round(args.lines / best)}


def cases(file: Path, lines: int) -> list[tuple[str, Callable[[], int]]]:
    transforms = (
        (HoistFieldValue, {"field": "line"}),
        (InsertFieldValue, {"static.field": "src", "static.value": "bench", "timestamp.field": "ts"}),
    )
    smt = []
    for kind, config in transforms:
        step = kind()
        step.configure(config)
        smt.append(TransformStep(step))
    texts = [line.encode() for line in file.read_text().splitlines()]
    sunk = file.parent / "sunk.txt"
    return [
        ("poll only", lambda: source(file, None, None)),
        ("poll + String", lambda: source(file, [], converters(StringConverter, {}))),
        (
            "poll + String, batch.size=2000",
            lambda: source(file, [], converters(StringConverter, {}), {"batch.size": "2000"}),
        ),
        ("poll + Json with schema", lambda: source(file, [], converters(JsonConverter, JSON))),
        ("poll + Hoist + Insert + Json with schema", lambda: source(file, smt, converters(JsonConverter, JSON))),
        ("poll + Hoist + Insert + Json", lambda: source(file, smt, converters(JsonConverter, PLAIN_JSON))),
        ("records: poll + String", lambda: source(file, [], converters(StringConverter, {}), by_records=True)),
        (
            "records: poll + Hoist + Insert + Json with schema",
            lambda: source(file, smt, converters(JsonConverter, JSON), by_records=True),
        ),
        ("lists: dicts + Json", lambda: lists(lines, dict_of, converters(JsonConverter, PLAIN_JSON))),
        ("lists: structs + Json with schema", lambda: lists(lines, struct_of, converters(JsonConverter, JSON))),
        ("String + sink file", lambda: sink(sunk, texts, converters(StringConverter, {}))),
        ("ByteArray + sink file", lambda: sink(sunk, texts, converters(ByteArrayConverter, {}))),
        *[
            (f"{way}plain Json of {width} B", partial(plain, texts_of_plain(width, lines), by_records=bool(way)))
            for width in (80, 315)
            for way in ("", "records: ")
        ],
        ("records: String + sink file", lambda: sink(sunk, texts, converters(StringConverter, {}), by_records=True)),
    ]


def converters(kind: Any, config: dict[str, str]) -> Converters:
    key, value = kind(), kind()
    key.configure(config, True)
    value.configure(config, False)
    return Converters(key, value, StringConverter())


def source(
    file: Path,
    steps: list[TransformStep] | None,
    to_kafka: Converters | None,
    config: dict[str, str] | None = None,
    by_records: bool = False,
) -> int:
    task = FileStreamSourceTask()
    context = Context()
    task.initialize(context)  # type: ignore[arg-type]  # all that the task asks of it
    task.start({"file": str(file), "topic": "t", **(config or {})})
    chain = TransformChain(steps or [])
    count = 0
    while not context.ended:
        batch = task.poll()
        if batch is None:
            continue
        batch.last_source_offset()
        count += len(batch)
        if to_kafka is None:
            continue
        if by_records:
            to_kafka.to_kafka_records(chain.apply_records(batch.to_records()))
            continue
        after = chain.apply_batch(batch)
        assert isinstance(after, RecordBatch)
        to_kafka.to_kafka_batch(after)
    task.stop()
    return count


def lists(lines: int, value_of: Callable[[int], Any], to_kafka: Converters) -> int:
    """What a custom source gives: a thousand SourceRecords at a time, made by it, through the source loop's way."""
    chain = TransformChain([])
    polled_lists = PolledLists(chain)
    for first in range(0, lines, 1000):
        records = []
        for number in range(first, min(first + 1000, lines)):
            value = value_of(number)
            schema = ROW if isinstance(value, Struct) else None
            records.append(SourceRecord({"s": 1}, {"n": number}, "t", value, value_schema=schema))
        given = polled_lists.columns_of(records)
        if isinstance(given, RecordBatch):
            to_kafka.to_kafka_batch(given)
        else:
            to_kafka.to_kafka_list(given)
    return lines


def dict_of(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"name {number}", "ok": True, "price": number * 0.25}


def struct_of(number: int) -> Struct:
    return Struct.from_values(ROW, [number, f"name {number}", True, number * 0.25])


ROW = (
    SchemaBuilder.struct()
    .field("id", Schema.INT64_SCHEMA)
    .field("name", Schema.STRING_SCHEMA)
    .field("ok", Schema.BOOLEAN_SCHEMA)
    .field("price", Schema.FLOAT64_SCHEMA)
    .build()
)


def texts_of_plain(width: int, lines: int) -> list[bytes]:
    """Objects of five members, about so many bytes each."""
    return [
        b'{"id":%d,"name":"customer %d","amount":%d.%02d,"ok":true,"note":"%b"}'
        % (number, number % 1000, number % 977, number % 100, b"x" * (width - 73))
        for number in range(lines)
    ]


def plain(texts: list[bytes], by_records: bool) -> int:
    """Schemaless JSON as a sink gets it: columns, or records."""
    to_connect = converters(JsonConverter, PLAIN_JSON)
    for start in range(0, len(texts), 10_000):
        part = texts[start : start + 10_000]
        numbers = list(range(len(part)))
        fetched = FetchedBatch("t", 0, numbers, None, part, numbers, TimestampType.CREATE_TIME, None)
        if by_records:
            to_connect.to_connect_records(fetched)
        else:
            assert isinstance(to_connect.to_connect_batch(fetched), RecordBatch)
    return len(texts)


def sink(file: Path, texts: list[bytes], to_connect: Converters, by_records: bool = False) -> int:
    task = FileStreamSinkTask()
    task.start({"file": str(file)})
    count = 0
    for start in range(0, len(texts), 10_000):
        part = texts[start : start + 10_000]
        numbers = list(range(len(part)))
        fetched = FetchedBatch("t", 0, numbers, None, part, numbers, TimestampType.CREATE_TIME, None)
        if by_records:
            task.put(to_connect.to_connect_records(fetched))
        else:
            batch = to_connect.to_connect_batch(fetched)
            assert isinstance(batch, RecordBatch)
            task.put_batch(batch)
        count += len(part)
    task.stop()
    os.unlink(file)
    return count


if __name__ == "__main__":
    sys.exit(main())

"""Confluent's S3 sink under random kills and commits: each record in one object, which its first offset names."""

from __future__ import annotations

import io
import json
import uuid
from collections import Counter
from collections.abc import Mapping

import fastavro
import fsspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import ConnectHeaders, Schema, SinkRecord, SinkTask
from kconnect.builtin.connectors.objects.s3_sink import S3SinkConnector, S3SinkTask
from kconnect.builtin.stores.file_store import StoreSettings, file_store
from kconnect.builtin.stores.flush_plan import FlushLimits
from kconnect.testing import SinkHarness
from kit.examples import examples

PARTITIONER = "io.confluent.connect.storage.partitioner."
COUNT = 30


class TaskInMemory(S3SinkTask):
    """Its bucket is a folder of this process."""

    def set_up(self, props: Mapping[str, str]) -> FlushLimits:
        limits = super().set_up(props)
        self._store = file_store(f"memory://{props['s3.bucket.name']}", {}, StoreSettings("", ""))
        return limits


class SinkInMemory(S3SinkConnector):
    def task_class(self) -> type[SinkTask]:
        return TaskInMemory


@examples(40)
@given(
    kind=st.sampled_from(["Default", "Hourly", "Field"]),
    flush=st.integers(1, 5),
    rotate_ms=st.sampled_from([-1, 1_800_000]),
    late=st.booleans(),
    rows=st.lists(st.tuples(st.integers(0, 8), st.sampled_from("ab")), min_size=COUNT, max_size=COUNT),
    steps=st.lists(st.sampled_from([1, 2, 6, "commit", "kill"]), max_size=15),
)
def test_each_record_is_in_one_object(
    kind: str, flush: int, rotate_ms: int, late: bool, rows: list[tuple[int, str]], steps: list[int | str]
) -> None:
    bucket = uuid.uuid4().hex
    config = {
        "s3.bucket.name": bucket,
        "flush.size": str(flush),
        "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
        "topics": "t",
        "partitioner.class": f"{PARTITIONER}{kind}Partitioner",
        "partition.field.name": "land",
        "locale": "en",
        "timezone": "UTC",
        "timestamp.extractor": "Record",
        "rotate.interval.ms": str(rotate_ms),
        "append.late.data": str(late),
    }
    records = [
        SinkRecord("t", 0, None, None, None, {"n": n, "land": land}, n, timestamp=1_767_268_800_000 + quarter * 900_000)
        for n, (quarter, land) in enumerate(rows)
    ]
    sink, at = SinkHarness(SinkInMemory, config).start(), 0
    for step in steps:
        if step == "kill":
            sink.crash()
            sink.start()
            sink.deliver()
        elif step == "commit":
            sink.commit()
        else:
            assert isinstance(step, int)
            sink.put_records(records[at : at + step])
            at = min(at + step, COUNT)
    sink.put_records(records[at:])
    sink.commit(is_end=True)
    sink.crash()
    files, found = fsspec.filesystem("memory"), Counter[int]()
    for path in files.find(f"/{bucket}"):
        numbers = [json.loads(line)["n"] for line in files.cat(path).splitlines()]
        assert path.endswith(f"+{numbers[0]:010d}.json")
        assert len(numbers) <= flush
        found.update(numbers)
    assert found == Counter(range(COUNT))


JSON, AVRO, PARQUET, BYTES = (
    f"io.confluent.connect.s3.format.{name}Format"
    for name in ("json.Json", "avro.Avro", "parquet.Parquet", "bytearray.ByteArray")
)


def objects_of(sink: SinkHarness, records: list[SinkRecord]) -> dict[str, bytes]:
    """What is in the bucket behind the records, by the names below the topic."""
    bucket = sink._run.config["s3.bucket.name"]
    with sink:
        sink.put_records(records)
        sink.commit()
    files = fsspec.filesystem("memory")
    return {path.partition("/topics/t/")[2]: files.cat_file(path) for path in files.find(f"/{bucket}")}


def storing(kind: str, keys: str, **more: str) -> SinkHarness:
    config = {
        "s3.bucket.name": uuid.uuid4().hex,
        "topics": "t",
        "errors.tolerance": "all",
        "flush.size": "2",
        "format.class": kind,
        "keys.format.class": keys,
        "store.kafka.keys": "true",
    }
    return SinkHarness(SinkInMemory, {**config, **{name.replace("_", "."): value for name, value in more.items()}})


def test_keys_and_headers_are_in_objects_beside_the_values_line_by_line() -> None:
    headers = ConnectHeaders().add("from", "shop", Schema.STRING_SCHEMA)
    records = [SinkRecord("t", 0, None, f"k{n}", None, {"n": n}, n, headers=headers) for n in range(2)]
    records.append(SinkRecord("t", 0, None, None, None, {"n": 2}, 2, headers=headers))
    records.append(SinkRecord("t", 0, None, "k3", None, {"n": 3}, 3))
    sink = storing(JSON, BYTES, store_kafka_headers="true", headers_format_class=JSON)
    assert objects_of(sink, records) == {
        "partition=0/t+0+0000000000.json": b'{"n":0}\n{"n":1}\n',
        "partition=0/t+0+0000000000.keys.bin": b"k0\nk1\n",
        "partition=0/t+0+0000000000.headers.json": b'{"headers":[{"key":"from","value":"shop"}]}\n' * 2,
    }
    assert [str(errant.error).rpartition(": ")[2] for errant in sink.errant] == ["It has no key", "It has no headers"]


@pytest.mark.parametrize(("partitioner", "folder"), [("Default", "partition=0"), ("Field", "land=a")])
def test_tombstones_are_written_as_keys_in_a_folder_of_their_own(partitioner: str, folder: str) -> None:
    values = [{"land": "a"}, None, {"land": "a"}, None]
    records = [SinkRecord("t", 0, None, {"id": n}, None, value, n) for n, value in enumerate(values)]
    more = {"partitioner_class": f"{PARTITIONER}{partitioner}Partitioner", "partition_field_name": "land"}
    sink = storing(JSON, JSON, behavior_on_null_values="WRITE", flush_size="4", **more)
    assert objects_of(sink, records) == {
        f"{folder}/t+0+0000000000.json": b'{"land":"a"}\n{"land":"a"}\n',
        f"{folder}/t+0+0000000000.keys.json": b'{"id":0}\n{"id":2}\n',
        "tombstone/t+0+0000000001.keys.json": b'{"id":1}\n{"id":3}\n',
    }
    assert sink.errant == []


def test_keys_are_columns_where_the_format_has_some() -> None:
    records = [SinkRecord("t", 0, Schema.INT32_SCHEMA, n, None, {"n": n}, n) for n in range(2)]
    found = objects_of(storing(JSON, PARQUET), records)["partition=0/t+0+0000000000.keys.snappy.parquet"]
    assert pq.read_table(io.BytesIO(found)).to_pylist() == [{"key": 0}, {"key": 1}]
    found = objects_of(storing(JSON, AVRO), records)["partition=0/t+0+0000000000.keys.avro"]
    assert list(fastavro.reader(io.BytesIO(found))) == [{"value": 0}, {"value": 1}]

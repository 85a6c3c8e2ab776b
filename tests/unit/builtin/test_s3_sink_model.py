"""Confluent's S3 sink under random kills and commits: each record in one object, which its first offset names."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping

import fsspec
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import SinkRecord, SinkTask
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

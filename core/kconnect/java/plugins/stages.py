"""Java's transformations, predicates and converters in chains of ours: columns out, columns in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from kconnect.api import (
    ConfigDef,
    ConnectRecord,
    Converter,
    HeaderConverter,
    Headers,
    Monitorable,
    PluginMetrics,
    Predicate,
    RecordBatch,
    Schema,
    SchemaAndValue,
    SinkRecord,
    SourceRecord,
    Transformation,
)
from kconnect.api.config_parse import ConfigType, Password, convert_to_string
from kconnect.api.stages import PartlyAppliedError
from kconnect.java.plugins.blocks import BlockReader, BlockWriter
from kconnect.java.plugins.connection import JavaConnection
from kconnect.java.plugins.descriptions import settings_of, version_of
from kconnect.java.plugins.hosting import Deferrable, Hosted
from kconnect.java.plugins.java_error import java_error
from kconnect.java.plugins.plugin_metrics import JavaMetrics
from kconnect.java.plugins.row_headers import KafkaHeaders, read_headers, written_headers
from kconnect.java.plugins.runs import Column, Run, batch_of_one, run_head, write_run

_RowHeaders = Sequence[KafkaHeaders]
"""Kafka's headers of each row; nothing where nobody looks at them."""


class _JavaStage(Hosted, Deferrable, Monitorable):
    """One object in Java for the life of a task."""

    def __init__(self) -> None:
        self._java: JavaConnection | None = None
        self._metrics: JavaMetrics | None = None
        self._given: tuple[str, Mapping[str, Any], bool] | None = None
        self._looks_at_headers = False
        """Whether a converter does; known once it is configured."""

    def with_plugin_metrics(self, metrics: PluginMetrics) -> None:
        """Has no effect on a class that is not Monitorable in Java."""
        if not self.is_deferred:
            self._metrics = JavaMetrics(metrics)
            self._opened().call("monitor", tags=dict(self._metrics.tags))

    def config(self) -> ConfigDef:
        return settings_of(type(self))

    def version(self) -> str:
        return version_of(type(self))

    def close(self) -> None:
        made, self._java = self._java, None
        if made is not None:
            try:
                made.call("close")
            finally:
                made.close()
                if self._metrics is not None:
                    self._metrics.close()

    def _configure(self, kind: str, configs: Mapping[str, Any], is_key: bool = False) -> None:
        self._given = kind, configs, is_key
        if not self.is_deferred:
            self._opened()

    def _opened(self) -> JavaConnection:
        if self._java is None:
            assert self._given is not None, f"{self.java_class} is not configured"
            self._java = self._made(*self._given)
        return self._java

    def _made(self, kind: str, configs: Mapping[str, Any], is_key: bool) -> JavaConnection:
        made = self.connect("stage", event=self._event)
        texts = {name: _text(value) for name, value in configs.items()}
        try:
            self._looks_at_headers = made.call("configure", kind=kind, config=texts, key=is_key)["headers"]
        except BaseException:
            made.close()
            raise
        return made

    def _event(self, what: str, arguments: Any) -> None:
        if self._metrics is not None:
            self._metrics.reported(what, arguments)

    def _exchange(self, head: Mapping[str, Any], write: Any) -> Any:
        block = BlockWriter(head)
        write(block)
        return self._opened().block(block.done())

    def _raise(self, head: Mapping[str, Any]) -> None:
        failure = head.get("failure")
        if failure is not None:
            raise java_error(failure["error"], self.folder)


class JavaTransformation(_JavaStage, Transformation):
    """Runs o.a.k.connect.transforms.Transformation in the host JVM."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._configure("transformation", configs)

    def apply(self, record: Any) -> Any:
        batch, key, value = batch_of_one(record)
        block, head = self._apply(batch, key, value)
        self._raise(head)
        if not head["runs"]:
            return None
        run = Run(block, head["runs"][0], by_rows=True)
        ((made_key, made_value, time, headers),) = run.records()
        return _like(record, run, made_key, made_value, time, headers)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any | None:
        """Gives a list of records where they are no batch any more: Java may keep in mind what it was given.

        Errors: PartlyAppliedError with what was made before a record that failed.
        """
        key, value = Column.of_batch(batch.key_schema, batch.key), Column.of_batch(batch.value_schema, batch.value)
        block, head = self._apply(batch, key, value)
        runs = [Run(block, one) for one in head["runs"]]
        if (failure := head.get("failure")) is not None:
            done = _records(batch, head["rows"], runs)
            raise PartlyAppliedError(done, failure["row"], java_error(failure["error"], self.folder))
        if not head["rows"]:
            return None
        run = runs[0]
        if len(runs) > 1 or not run.is_columnar:
            return _records(batch, head["rows"], runs)
        kept = batch if len(head["rows"]) == len(batch) else batch.filter(_mask(head["rows"], len(batch)))
        return kept.with_(
            topic=run.topic,
            kafka_partition=run.partition,
            key_schema=run.key.schema,
            key=run.key.column,
            value_schema=run.value.schema,
            value=run.value.column,
            timestamp=run.timestamps(),
            headers=run.headers(),
        )

    def _apply(self, batch: RecordBatch, key: Column, value: Column) -> tuple[BlockReader, dict[str, Any]]:
        body = self._exchange(
            {"m": "apply", "run": run_head(batch, key, value)}, lambda block: write_run(block, batch, key, value)
        )
        block = BlockReader(body)
        return block, block.head()


class JavaPredicate(_JavaStage, Predicate):
    """Runs o.a.k.connect.transforms.predicates.Predicate in the host JVM."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._configure("predicate", configs)

    def test(self, record: Any) -> bool:
        return bool(self._test(*batch_of_one(record))[0])

    def test_batch(self, batch: RecordBatch) -> Any:
        key, value = Column.of_batch(batch.key_schema, batch.key), Column.of_batch(batch.value_schema, batch.value)
        return pa.array(self._test(batch, key, value), pa.bool_())

    def _test(self, batch: RecordBatch, key: Column, value: Column) -> list[bool]:
        found: list[bool] = self._exchange(
            {"m": "test", "run": run_head(batch, key, value)}, lambda block: write_run(block, batch, key, value)
        )
        return found


class _BytesStage(_JavaStage):
    """What converters of values and of headers share."""

    def _to_bytes(
        self, topic: str, column: Column, count: int, header: str | None = None, rows: _RowHeaders = ()
    ) -> pa.Array:
        head = {"m": "to_bytes", "topic": topic, "header": header, "rows": count, "column": column.head}
        block = BlockReader(self._exchange({**head, "headers": written_headers(rows)}, column.write))
        reported = block.head()
        self._raise(reported)
        _change(rows, reported)
        return block.binary(count)

    def _from_bytes(
        self, topic: str, column: pa.Array, header: str | None = None, rows: _RowHeaders = (), *, by_rows: bool = False
    ) -> list[Run]:
        head = {"m": "from_bytes", "topic": topic, "header": header, "rows": len(column)}
        body = self._exchange({**head, "headers": written_headers(rows)}, lambda writer: writer.binary(column))
        block = BlockReader(body)
        reported = block.head()
        self._raise(reported)
        _change(rows, reported)
        return [Run(block, run, by_rows=by_rows) for run in reported["runs"]]

    def _one_from_bytes(
        self, topic: str, value: bytes | None, header: str | None = None, rows: _RowHeaders = ()
    ) -> SchemaAndValue:
        (run,) = self._from_bytes(topic, pa.array([value], pa.binary()), header, rows, by_rows=True)
        return SchemaAndValue(run.value.schema, run.value.values()[0])


class JavaConverter(_BytesStage, Converter):
    """Runs o.a.k.connect.storage.Converter in the host JVM."""

    def configure(self, configs: Mapping[str, Any], is_key: bool = False) -> None:
        self._configure("converter", configs, is_key)

    @property
    def takes_kafka_headers(self) -> bool:  # type: ignore[override]  # known once it is configured
        """Whether its class has a form of its own that looks at headers."""
        return self._opened() is not None and self._looks_at_headers

    @property
    def ignores_headers(self) -> bool:  # type: ignore[override]  # likewise
        return not self.takes_kafka_headers

    def from_connect_data(
        self, topic: str, schema: Schema | None, value: Any, headers: Headers | None = None
    ) -> bytes | None:
        with _as_row(headers if self.takes_kafka_headers else None) as rows:  # else they are the record's, of any type
            found: bytes | None = self._to_bytes(topic, Column.of_values(schema, [value]), 1, rows=rows)[0].as_py()
        return found

    def to_connect_data(self, topic: str, value: bytes | None, headers: Headers | None = None) -> SchemaAndValue:
        with _as_row(headers) as rows:
            return self._one_from_bytes(topic, value, rows=rows)

    def from_connect_batch(self, topic: str, schema: Schema | None, column: Any, headers: _RowHeaders = ()) -> Any:
        """`headers`: of each row, which are changed in place, where it takes Kafka's."""
        count = len(headers) if column is None else len(column)
        return self._to_bytes(topic, Column.of_batch(schema, column), count, rows=headers)

    def to_connect_batch(self, topic: str, column: Any, headers: _RowHeaders = ()) -> Any:
        """`headers`: likewise."""
        runs = self._from_bytes(topic, column, rows=headers)
        if len(runs) != 1 or not runs[0].value.is_columnar:
            return NotImplemented
        return runs[0].value.schema, runs[0].value.column


class JavaHeaderConverter(_BytesStage, HeaderConverter):
    """Runs o.a.k.connect.storage.HeaderConverter in the host JVM."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._configure("header_converter", configs)

    def from_connect_header(self, topic: str, header_key: str, schema: Schema | None, value: Any) -> bytes | None:
        found: bytes | None = self._to_bytes(topic, Column.of_values(schema, [value]), 1, header_key)[0].as_py()
        return found

    def to_connect_header(self, topic: str, header_key: str, value: bytes | None) -> SchemaAndValue:
        return self._one_from_bytes(topic, value, header_key)


def _records(batch: RecordBatch, rows: Sequence[int], runs: Sequence[Run]) -> list[ConnectRecord]:
    """What these rows have become."""
    given = batch.with_(key=None, key_schema=None, value=None, value_schema=None).to_records()
    made = [(run, parts) for run in runs for parts in run.records()]
    return [_like(given[row], run, *parts) for row, (run, parts) in zip(rows, made, strict=True)]


def _like(record: ConnectRecord, run: Run, key: Any, value: Any, time: int | None, headers: Headers | None) -> Any:
    """The record as it came back, with what Java does not see of it."""
    more: dict[str, Any] = {
        "topic": run.topic,
        "kafka_partition": run.partition,
        "key_schema": run.key.schema,
        "key": key,
        "value_schema": run.value.schema,
        "value": value,
        "timestamp": time,
        "headers": headers,
    }
    assert isinstance(record, SourceRecord | SinkRecord)
    return record.new_record(**more)


def _change(rows: _RowHeaders, reported: Mapping[str, Any]) -> None:
    """Give rows the headers that a converter has left them."""
    if rows:
        for row, headers in read_headers(reported["headers"]).items():
            rows[row][:] = headers


@contextmanager
def _as_row(headers: Headers | None) -> Iterator[_RowHeaders]:
    """Kafka's headers of one record, changed in place at the end."""
    if headers is None:
        yield ()
        return
    row = [(header.key, header.value) for header in headers]
    before = list(row)
    yield (row,)
    if row != before:
        headers.clear()
        for key, value in row:
            headers.add(key, value)


def _mask(rows: Sequence[int], count: int) -> pa.Array:
    kept = set(rows)
    return pa.array([row in kept for row in range(count)], pa.bool_())


def _text(value: Any) -> str | None:
    """A setting as a properties file has it, also where a caller gives it typed."""
    if isinstance(value, Password):
        return value.value
    return convert_to_string(value, ConfigType.LIST if isinstance(value, list | tuple) else ConfigType.STRING)

"""Dead letters of a source without a broker: what their bytes and headers say, and what reads them again."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, cast

import pytest

from kconnect.api import ConnectHeaders, RecordBatch, Schema, SchemaBuilder, SourceRecord, Struct, Transformation
from kconnect.api import Decimal as ConnectDecimal
from kconnect.builtin.converters.string_converter import StringConverter
from kconnect.errors import ConfigError, DataError
from kconnect.model import ConnectorType, TaskId, TaskSpec
from kconnect.runtime.config.connector_config import DeadLetterSettings, SourceConnectorConfig
from kconnect.runtime.kafka import KafkaRecord
from kconnect.runtime.pipeline.fetched import FetchedRecord
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.pipeline.source_dead_letters import SOURCE_HEADER, SourceDeadLetters, make_letter_converters
from kconnect.runtime.pipeline.stages import Stage, StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kconnect.runtime.plugins import PluginRegistry
from kit.failing_transform import FailsOnText

PLUGINS = PluginRegistry.load()
ROW = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).field("price", ConnectDecimal.schema(2)).build()


def letters(*, context_headers: bool = False) -> SourceDeadLetters:
    control = TaskControl(TaskSpec(TaskId("orders", 3), 1, ConnectorType.SOURCE, {}, {}, {}), cast("Any", None))
    settings = DeadLetterSettings(topic="dlq", context_headers=context_headers)
    return SourceDeadLetters(settings, control, make_letter_converters(PLUGINS), cast("Any", None), PLUGINS.java_name)


def letter_of(record: SourceRecord, stage: Stage = Stage.VALUE_CONVERTER, **more: Any) -> KafkaRecord:
    made = letters(**more)
    made.report(StageError(stage, StringConverter, record, DataError("cannot")), 1)
    (letter,) = made.take()
    assert made.take() == []
    return letter


def note_of(letter: KafkaRecord) -> dict[str, Any]:
    note = dict(letter.headers or [])[SOURCE_HEADER]
    assert note is not None
    return cast("dict[str, Any]", json.loads(note))


def order(**changes: Any) -> SourceRecord:
    headers = ConnectHeaders()
    headers.add("count", 7, Schema.INT32_SCHEMA)
    value = Struct(ROW).put("id", 1).put("price", Decimal("9.90"))
    record = SourceRecord({"table": "a"}, {"row": 5}, "orders", value, value_schema=ROW, key=b"\xff\x00")
    return record.new_record(key_schema=Schema.BYTES_SCHEMA, timestamp=1_700_000_000_123, headers=headers, **changes)


def test_a_letter_gives_back_key_value_headers_and_schemas_exactly() -> None:
    given = order()
    letter = letter_of(given)
    note = note_of(letter)
    headers = [pair for pair in letter.headers or [] if pair[0] != SOURCE_HEADER]
    fetched = FetchedRecord("orders", 0, 0, letter.key, letter.value, None, cast("Any", None), headers)
    back = make_letter_converters(PLUGINS).to_connect_record(fetched)
    assert back is not None
    assert (back.key, back.key_schema) == (given.key, given.key_schema)
    assert (back.value, back.value_schema) == (given.value, given.value_schema)
    assert list(back.headers) == list(given.headers)
    assert (letter.topic, letter.timestamp) == ("dlq", 1_700_000_000_123)
    assert note == {
        "connector": "orders",
        "topic": "orders",
        "partition": None,
        "timestamp": 1_700_000_000_123,
        "stage": "VALUE_CONVERTER",
        "stepsDone": None,
        "sourcePartition": {"table": "a"},
        "sourceOffset": {"row": 5},
        "lossy": [],
    }


def test_what_json_has_no_form_for_is_text_and_the_letter_says_which_part() -> None:
    letter = letter_of(order(value_schema=Schema.INT32_SCHEMA, value={1, "set"}))
    assert note_of(letter)["lossy"] == ["value"]
    assert json.loads(letter.value or b"")["payload"] in ("{1, 'set'}", "{'set', 1}")
    assert json.loads(letter.key or b"")["payload"] == "/wA=", "the key is exact all the same"


def test_javas_context_headers_come_behind_and_have_no_offset() -> None:
    assert [name for name, _ in letter_of(order()).headers or []] == ["count", SOURCE_HEADER]
    headers = dict(letter_of(order(), context_headers=True).headers or [])
    context = {name.removeprefix("__connect.errors."): value for name, value in headers.items()}
    assert (context["topic"], context["partition"], context["offset"]) == (b"orders", None, None)
    assert (context["connector.name"], context["task.id"], context["stage"]) == (b"orders", b"3", b"VALUE_CONVERTER")


class _Columns(Transformation):
    """Takes batches, so that the chain is in columns when the next step fails."""

    supports_batches = True

    def configure(self, configs: Any) -> None: ...

    def apply(self, record: Any) -> Any:
        return record

    def apply_batch(self, batch: RecordBatch) -> RecordBatch:
        return batch

    def config(self) -> Any: ...


def test_a_failure_behind_columnar_steps_tells_how_many_steps_the_record_has_passed() -> None:
    class Keep:
        failures: list[StageError] = []  # noqa: RUF012

        def on_failure(self, failure: StageError, retry: Any) -> Any:
            self.failures.append(failure)
            raise failure

    chain = TransformChain([TransformStep(_Columns()), TransformStep(FailsOnText())], Keep())
    batch = RecordBatch.from_records([SourceRecord({}, {}, "t", "text", value_schema=Schema.STRING_SCHEMA)])
    assert batch is not None
    with pytest.raises(StageError):
        chain.apply_batch(batch)
    with pytest.raises(StageError):
        chain.apply_records(batch.to_records())
    assert [failure.steps_done for failure in Keep.failures] == [1, 0]


def test_a_source_without_a_topic_has_no_queue_and_a_wrong_value_is_named() -> None:
    props = {"name": "a", "connector.class": "X", "errors.deadletterqueue.topic.name": " dlq "}
    assert SourceConnectorConfig.parse({**props, "errors.deadletterqueue.topic.name": " "}).dead_letters is None
    assert SourceConnectorConfig.parse(props).dead_letters == DeadLetterSettings(topic="dlq")
    with pytest.raises(ConfigError, match=r"errors\.deadletterqueue\.context\.headers\.enable"):
        SourceConnectorConfig.parse({**props, "errors.deadletterqueue.context.headers.enable": "yes"})

"""PythonSource and PythonSink: functions of the user's own as connectors, through the harness."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ExactlyOnceSupport, RetriableError, Schema, SchemaBuilder, Struct
from kconnect.errors import ConfigError, ConnectError, DataError
from kconnect.testing import SinkHarness, SourceHarness
from kit.waiting import eventually

MODULE = """
import asyncio
import dataclasses
import threading
from typing import TYPE_CHECKING, NamedTuple

import duckdb
import pyarrow as pa

from kconnect.api import RetriableError, SinkRecord, SourceRecord

CALLS = []
SEEN = []
RELEASE = threading.Event()


@dataclasses.dataclass
class Reading:
    place: str
    value: float


class Place(NamedTuple):
    name: str
    level: int


class Pair(NamedTuple):
    key: str
    value: Place


def named():
    yield Place("north", 3)
    yield Pair("k", Place("south", 4))
    yield {"places": {Place("west", 5)}}


def relations(offset):
    yield duckdb.sql("SELECT range AS x FROM range(2)"), 1
    yield duckdb.sql("SELECT 1 AS x WHERE false"), 2
    yield pa.chunked_array([[1]]), 3


def circles(offset):
    if offset is None:
        circle = {}
        circle["me"] = circle
        yield circle, 1
        yield (1, 2, 3), 2
    yield {"x": 1}, 3


def kinds():
    yield {"a": 1}
    yield "key", "value"
    yield SourceRecord({"p": 1}, {"o": 1}, "other", "own")
    yield None
    yield Reading("north", 1.5)
    yield pa.table({"x": [1, 2]})
    yield "last"


def numbers(offset, upto: int = 5):
    CALLS.append(offset)
    for number in range((offset or 0) + 1, upto + 1):
        yield ("k", number), number


def tables(offset):
    CALLS.append(offset)
    if offset is None:
        yield pa.table({"x": [1, 2]}), {"page": 2}
    yield {"x": 3}, {"page": 3}


def one_too_many(offset):
    if offset is None:
        yield {"x": 0}
        yield pa.table({"x": pa.array([1, 2**63, 3], pa.uint64())}), {"page": 1}


def forms():
    lists = pa.array([[[1], None], None], pa.list_view(pa.list_view(pa.int64())))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2], pa.int32()), pa.array(["x", None]))
    uuids = pa.array([bytes(16), None], pa.uuid())
    inner = pa.StructArray.from_arrays([uuids, runs], names=["uuid", "run"])
    json = pa.array(['{"a":1}', None], pa.json_())
    flags = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([7, None], pa.int8()))
    yield pa.table({"list": lists, "run": runs, "uuid": uuids, "in": inner, "json": json, "flag": flags})


def divided(task: int, tasks: int, offset):
    CALLS.append((task, tasks, offset))
    for number in range((offset or 0) + 1, 10):
        if number % tasks == task:
            yield number, number


def listed():
    CALLS.append(None)
    return ["a", "b"] if len(CALLS) == 1 else None


async def ticks():
    yield 1
    await asyncio.sleep(0)
    yield 2
    await asyncio.sleep(3600)


async def fetched():
    await asyncio.sleep(0)
    return [{"n": 1}]


def failing(times: int = 1):
    yield "before"
    raise ValueError("no such sensor")


def away(offset):
    CALLS.append(offset)
    yield "a", 1
    if len(CALLS) == 1:
        raise RetriableError("the sensor sleeps")
    yield "b", 2


def triple():
    yield 1, 2, 3


def odd_offset(offset):
    yield 1, {"at": [1]}


def stuck():
    yield 1
    RELEASE.wait(60)


def needs(url):
    yield url


def each(record):
    if record.value == "bad":
        raise ValueError("refused")
    SEEN.append(record.value)


def some(records: list[SinkRecord], limit: int = 0):
    SEEN.append(([record.value for record in records], limit))


ODD = {"bad": ValueError("refused"), "down": ConnectionError("no route"), "odd": RuntimeError("odd")}


def strict(records: list[SinkRecord]):
    for record in records:
        if record.value in ODD:
            raise ODD[record.value]
    SEEN.extend(record.value for record in records)


def whole_numbers(table: pa.Table):
    SEEN.extend(table["x"].cast(pa.int32()).to_pylist())


def columns(table: pa.Table):
    SEEN.append(table.to_pylist())


async def slowly(record: SinkRecord):
    await asyncio.sleep(0)
    SEEN.append(record.value)


def later(record):
    raise RetriableError("full")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module `own_connectors`, as in a folder of plugin.path."""
    (tmp_path / "own_connectors.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    # The harness cannot be woken
    monkeypatch.setattr("kconnect.builtin.connectors.python.python_source._IDLE_S", 0.005)
    import own_connectors  # type: ignore[import-not-found]  # written just now

    yield own_connectors
    sys.modules.pop("own_connectors", None)


def source_of(function: str, **more: str) -> SourceHarness:
    settings = {key.replace("__", "."): value for key, value in more.items()}
    return SourceHarness("PythonSource", {"function": f"own_connectors:{function}", "topic": "t", **settings})


def sink_to(function: str, **more: str) -> SinkHarness:
    settings = {key.replace("__", "."): value for key, value in more.items()}
    return SinkHarness("PythonSink", {"function": f"own_connectors:{function}", "topics": "t", **settings})


def test_all_kinds_of_things_become_records(own: Any) -> None:
    with source_of("kinds") as source:
        records = source.poll(7)
        assert source.poll_once() == []
    assert [(record.topic, record.key, record.value) for record in records[:4]] == [
        ("t", None, {"a": 1}),
        ("t", "key", "value"),
        ("other", None, "own"),
        ("t", None, {"place": "north", "value": 1.5}),
    ]
    assert [record.value.get("x") for record in records[4:6]] == [1, 2]
    assert records[4].value_schema is not None
    assert records[6].value == "last"


def test_a_function_that_takes_an_offset_goes_on_where_it_was(own: Any) -> None:
    with source_of("numbers", function__args__upto="4") as source:
        assert [(record.key, record.value) for record in source.poll(4)] == [("k", n) for n in range(1, 5)]
        source.commit()
        assert source.offset(function="own_connectors:numbers") == {"offset": 4}
        source.restart()
        eventually(lambda: source.poll_once() or len(own.CALLS) == 2, 5, "called again")
        assert own.CALLS == [None, 4]


def test_a_row_of_a_table_that_no_record_can_have_is_given_up_alone(own: Any) -> None:
    with source_of("one_too_many", errors__tolerance="all") as source:
        assert [(record.value["x"], record.source_offset) for record in source.poll(3)] == [
            (0, None),
            (1, {"page": 1}),
            (3, {"page": 1}),
        ]
        (letter,) = source.errant
    assert letter.record.value == '{"x":9223372036854775808}'
    assert "Row 2 of a table of own_connectors:one_too_many: Column x: Integer value 9223372036854775808" in str(
        letter.error
    )


def test_a_table_may_have_its_values_in_any_form_of_arrow(own: Any) -> None:
    with source_of("forms") as source:
        first, second = (record.value for record in source.poll(2))
    assert [first[name] for name in ("list", "run", "json", "flag")] == [[[1], None], "x", '{"a":1}', True]
    assert (first["uuid"], first["in"]["uuid"], first["in"]["run"]) == (
        2 * ("00000000-0000-0000-0000-000000000000",) + ("x",)
    )
    assert [field.schema.name for field in first.schema.fields][2:5:2] == [
        "io.debezium.data.Uuid",
        "io.debezium.data.Json",
    ]
    assert [second[name] for name in ("list", "run", "uuid", "json", "flag")] == [None] * 5


def test_offsets_may_be_dicts_and_stand_behind_a_table(own: Any) -> None:
    with source_of("tables") as source:
        assert len(source.poll(2)) == 2
        source.commit()
        source.crash()
        source.start()
        assert [record.value for record in source.poll(1)] == [{"x": 3}]
        assert own.CALLS == [None, {"page": 2}]


def test_a_function_is_called_again_and_a_generator_is_not(own: Any) -> None:
    with source_of("listed", poll__interval__ms="1") as source:
        assert [record.value for record in source.poll(2)] == ["a", "b"]
        eventually(lambda: source.poll_once() or len(own.CALLS) > 2, 5, "called again")
    with source_of("kinds") as source:
        source.poll(7)
        assert eventually(lambda: source.poll_once() or source.task._next_call_s is None, 5, "over")


def test_asynchronous_ones_run_too_and_end_at_once(own: Any) -> None:
    with source_of("ticks") as source:
        assert [record.value for record in source.poll(2)] == [1, 2]
    with source_of("fetched") as source:
        assert [record.value for record in source.poll(1)] == [{"n": 1}]


def test_an_error_names_function_file_and_line_after_what_was_given_before(own: Any) -> None:
    with source_of("failing") as source:
        assert [record.value for record in source.poll(1)] == ["before"]
        with pytest.raises(ConnectError) as reported:
            source.poll(1)
    line = MODULE.splitlines().index('    raise ValueError("no such sensor")') + 1
    wanted = "own_connectors:failing raised ValueError: no such sensor, at own_connectors.py"
    assert str(reported.value) == f'{wanted}:{line}: raise ValueError("no such sensor")'
    assert isinstance(reported.value.__cause__, ValueError)


def test_a_retriable_error_calls_it_again_from_its_last_offset(own: Any) -> None:
    with source_of("away") as source:
        assert [record.value for record in source.poll(3)] == ["a", "a", "b"]
    assert own.CALLS == [None, 1]


def test_a_named_tuple_is_its_fields_unless_they_are_those_of_a_pair(own: Any) -> None:
    with source_of("named") as source:
        one, pair, inner = source.poll(3)
    assert (one.key, one.value) == (None, {"name": "north", "level": 3})
    assert (pair.key, pair.value) == ("k", {"name": "south", "level": 4})
    assert inner.value == {"places": [{"name": "west", "level": 5}]}


def test_what_gives_its_columns_to_arrow_is_a_table(own: Any) -> None:
    with source_of("relations") as source:
        assert [record.value["x"] for record in source.poll(2)] == [0, 1]
        with pytest.raises(ConnectError, match=r"A ChunkedArray is not a table: "):
            source.poll(1)


def test_an_item_that_is_no_record_is_given_up_alone_where_errors_are_tolerated(own: Any) -> None:
    with source_of("circles", **{"errors.tolerance": "all"}) as source:
        (record,) = source.poll(1)
        assert (record.value, record.source_offset) == ({"x": 1}, {"offset": 3})
        refused = [str(one.error) for one in source.errant]
    assert "A value contains itself, or is nested too deeply" in refused[0]
    assert "gave a tuple of 3: (1, 2, 3)" in refused[1]


@pytest.mark.parametrize(
    ("function", "reported"),
    [("triple", r"gave a tuple of 3: \(1, 2, 3\); a pair is \(key, value\)"), ("odd_offset", "at is a list")],
)
def test_what_is_no_record_is_refused(own: Any, function: str, reported: str) -> None:
    with source_of(function) as source, pytest.raises(DataError, match=reported):
        source.poll(1)


def test_one_that_does_not_end_is_reported_of_and_left(
    own: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kconnect.builtin.connectors.python.python_source._STOP_S", 0.01)
    with source_of("stuck") as source:
        source.poll(1)
    assert "own_connectors:stuck runs on" in caplog.text
    own.RELEASE.set()
    [thread] = [one for one in threading.enumerate() if one.name.startswith("python-source")] or [None]
    if thread is not None:
        thread.join(5)


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        ({"function": "own_connectors"}, "Must be module:function"),
        ({"function": "own_connectors:nothing"}, "Module own_connectors has no function nothing"),
        ({"function": "nowhere:f"}, "Module nowhere cannot be imported: ModuleNotFoundError"),
        ({"function": "own_broken:f"}, r"SyntaxError: '\(' was never closed, at own_broken.py:2: x = \("),
        ({"function": "own_connectors:needs"}, "It needs the argument url: set function.args.url"),
        ({"function": "own_connectors:numbers", "function.args.up": "1"}, "has no such argument; it has: offset, upto"),
        ({"function": "own_connectors:numbers", "function.args.upto": "x"}, "It must be of type int"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    own: Any, tmp_path: Path, settings: dict[str, str], reported: str
) -> None:
    (tmp_path / "own_broken.py").write_text("\nx = (\n")
    with pytest.raises(ConfigError, match=reported):
        SourceHarness("PythonSource", {"topic": "t", **settings}).start()


def test_exactly_once_is_possible_for_those_with_offsets(own: Any) -> None:
    with source_of("numbers") as source:
        support = source.connector.exactly_once_support
        assert support({"function": "own_connectors:numbers", "topic": "t"}) is ExactlyOnceSupport.SUPPORTED
        assert support({"function": "own_connectors:kinds", "topic": "t"}) is ExactlyOnceSupport.UNSUPPORTED


def test_a_module_that_was_edited_is_imported_again_at_the_next_start(own: Any, tmp_path: Path) -> None:
    with source_of("kinds") as source:
        source.poll(1)
    (tmp_path / "own_connectors.py").write_text("def kinds():\n    yield 'edited'\n")
    with source_of("kinds") as source:
        assert [record.value for record in source.poll(1)] == ["edited"]


# --- sink ---


def test_a_sinks_function_gets_what_its_annotation_says(own: Any) -> None:
    with sink_to("each") as sink:
        sink.put("a", "b")
    with sink_to("some", function__args__limit="3") as sink:
        sink.put("a", "b")
    with sink_to("columns") as sink:
        sink.put({"x": 1}, {"x": 2})
    with sink_to("slowly") as sink:
        sink.put("c")
    with sink_to("each", function__takes="records") as sink, pytest.raises(ConnectError, match="AttributeError"):
        sink.put("a")
    assert own.SEEN == ["a", "b", (["a", "b"], 3), [{"x": 1}, {"x": 2}], "c"]


def test_a_record_that_it_raises_for_is_given_up_with_its_place(own: Any) -> None:
    with sink_to("each", errors__tolerance="all") as sink:
        sink.put("a", "bad", "b")
        [errant] = sink.errant
        reported = str(errant.error)
    assert reported.startswith("own_connectors:each raised ValueError: refused, at own_connectors.py:")
    assert reported.endswith("(the record at t-0, offset 1)")
    assert own.SEEN == ["a", "b"]


def test_of_many_records_only_those_it_raises_for_are_given_up(own: Any) -> None:
    with sink_to("strict", errors__tolerance="all") as sink:
        sink.put("a", "bad", "b", "c", "odd", "bad", "d")
        assert [errant.record.kafka_offset for errant in sink.errant] == [1, 4, 5]
        assert str(sink.errant[0].error).endswith("(the record at t-0, offset 1)")
        sink.put("bad", "bad")
        assert len(sink.errant) == 5, "no value of them can be stored"
    assert own.SEEN == ["a", "b", "c", "d"]


def test_of_a_table_only_the_rows_it_raises_for_are_given_up(own: Any) -> None:
    schema = SchemaBuilder.struct().field("x", Schema.INT64_SCHEMA).build()
    with sink_to("whole_numbers", errors__tolerance="all") as sink:
        sink.put({"x": 1}, {"x": 2**40}, {"x": 3})
        sink.put(*(Struct(schema, {"x": number}) for number in (4, 2**40, 5)), schema=schema)
        assert [errant.record.kafka_offset for errant in sink.errant] == [1, 4]
    assert own.SEEN == [1, 3, 4, 5]


@pytest.mark.parametrize(
    ("values", "why"),
    [(("a", "down", "b"), "no route"), (("down",), "no route"), (("odd", "odd"), "odd")],
    ids=["a network", "a network, for one record", "nothing of several can be stored"],
)
def test_what_is_no_records_fault_fails_the_task(own: Any, values: tuple[str, ...], why: str) -> None:
    with sink_to("strict", errors__tolerance="all") as sink:
        with pytest.raises(ConnectError, match=why):
            sink.put(*values)
        assert not sink.errant


def test_later_means_later(own: Any) -> None:
    with sink_to("later") as sink, pytest.raises(RetriableError, match=r"own_connectors:later raised .*full"):
        sink.put("a")


def test_a_generator_is_no_sink(own: Any) -> None:
    with pytest.raises(ConfigError, match="It is a generator: nothing of it would run"):
        sink_to("kinds").start()


def test_a_function_that_takes_its_task_is_called_by_each_with_offsets_of_its_own(own: Any) -> None:
    source = source_of("divided", tasks__max="3")
    with source:
        assert sorted(record.value for record in source.poll(9)) == list(range(1, 10))
        source.commit()
    assert sorted(own.CALLS) == [(0, 3, None), (1, 3, None), (2, 3, None)]
    partitions = [dict(one.partition) for one in source.offsets]
    assert sorted(one["task"] for one in partitions) == [0, 1, 2]
    with source_of("numbers", tasks__max="3") as one:
        assert len(one.poll(5)) == 5, "a function that does not is called once"

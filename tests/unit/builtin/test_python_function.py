"""PythonTransform and PythonPredicate: functions of the user's own, for records and for batches."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import (
    ConfigError,
    DataError,
    Predicate,
    RecordBatch,
    Schema,
    SchemaBuilder,
    SourceRecord,
    Struct,
    Transformation,
)
from kconnect.builtin.python_function import PythonPredicate, PythonTransform
from kconnect.builtin.transforms.filter import Filter
from kconnect.runtime.pipeline.stages import StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain

MODULE = """
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

def shout(record):
    return None if record.value == "b" else record.new_record(value=record.value.upper())

def shout_all(batch):
    kept = batch.filter(pc.not_equal(batch.value, "b"))
    return kept.with_(value=pc.utf8_upper(kept.value)) if len(kept) else None

def is_a(record):
    return record.value == "a"

def are_a(batch):
    return pc.equal(batch.value, "a")

def all_of_t(batch):
    return batch.topic == "t"

def text(given):
    return "text"

def two(record, more):
    return record

def none_at_all():
    return None

def with_default(record, more=1):
    return record

def same_batch(batch):
    return batch

def has_a(batch):
    return pc.is_valid(batch.value.field("a"))

def not_yet(batch):
    return NotImplemented

class Place(NamedTuple):
    name: str
    tags: set

def places(record):
    return record.new_record(value=Place("north", {1}), key=Path("/x"))

def dicts(record):
    return record.new_record(value={"a": 1})

def raising(record):
    return record.value["nope"]

class Made:
    def same(record):
        return record

number = 5
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "own_functions.py").write_text(MODULE, "utf-8")
    (tmp_path / "broken_functions.py").write_text("import nowhere_to_be_found\n", "utf-8")
    (tmp_path / "ending_functions.py").write_text("raise SystemExit(3)\n", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("own_functions", None)


def configured(kind: type[Any], function: str, takes: str = "record") -> Any:
    made = kind()
    made.configure({"function": f"own_functions:{function}", "takes": takes})
    return made


def records_of(*values: str) -> list[SourceRecord]:
    return [SourceRecord({}, {"n": n}, "t", value, value_schema=Schema.STRING_SCHEMA) for n, value in enumerate(values)]


def results(steps: list[TransformStep], values: list[SourceRecord], *, as_batch: bool) -> list[tuple[int, Any]]:
    given = RecordBatch.from_records(values) if as_batch else None
    made = TransformChain(steps).apply_records(values) if given is None else TransformChain(steps).apply_batch(given)
    records = made.to_records() if isinstance(made, RecordBatch) else made or []
    return [(record.source_offset["n"], record.value) for record in records]  # type: ignore[union-attr]


@pytest.mark.parametrize("as_batch", [True, False])
@pytest.mark.parametrize(("function", "takes"), [("shout", "record"), ("shout_all", "batch")])
def test_a_function_changes_or_drops_each_record(function: str, takes: str, as_batch: bool) -> None:
    transform: Transformation = configured(PythonTransform, function, takes)
    assert transform.supports_batches == (takes == "batch")
    assert results([TransformStep(transform)], records_of("a", "b", "c"), as_batch=as_batch) == [(0, "A"), (2, "C")]


@pytest.mark.parametrize("as_batch", [True, False])
@pytest.mark.parametrize(
    ("function", "takes", "left"),
    [("is_a", "record", [(1, "b")]), ("are_a", "batch", [(1, "b")]), ("all_of_t", "batch", [])],
)
def test_a_function_says_where_a_transformation_applies(
    function: str, takes: str, left: list[Any], as_batch: bool
) -> None:
    predicate: Predicate = configured(PythonPredicate, function, takes)
    assert results([TransformStep(Filter(), predicate)], records_of("a", "b"), as_batch=as_batch) == left


def test_a_module_that_has_changed_is_imported_again(tmp_path: Path) -> None:
    record = records_of("a")[0]
    assert configured(PythonTransform, "shout").apply(record).value == "A"
    changed = MODULE.replace("record.value.upper()", 'record.value + "!"')
    (tmp_path / "own_functions.py").write_text(changed, "utf-8")
    assert configured(PythonTransform, "shout").apply(record).value == "a!"


def test_what_has_a_default_need_not_be_given() -> None:
    record = records_of("a")[0]
    assert configured(PythonTransform, "with_default").apply(record) is record


def test_a_method_can_be_named() -> None:
    record = records_of("a")[0]
    assert configured(PythonTransform, "Made.same").apply(record) is record


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("own_functions", "Must be module:function"),
        (":shout", "Must be module:function"),
        ("own_functions:whisper", "Module own_functions has no function whisper"),
        ("own_functions:number", "Module own_functions has no function number"),
        ("own_functions:two", "It must take one argument, the record or batch: missing a required argument: 'more'"),
        ("own_functions:none_at_all", "It must take one argument, the record or batch: too many positional arguments"),
        ("ending_functions:f", "cannot be imported: SystemExit: 3, at "),
        ("missing_functions:f", "Module missing_functions cannot be imported: ModuleNotFoundError"),
        ("broken_functions:f", "cannot be imported: ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    ],
)
@pytest.mark.parametrize("kind", [PythonTransform, PythonPredicate])
def test_what_is_no_function_is_refused(kind: Any, function: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        kind().configure({"function": function})
    assert why in str(caught.value)
    looked = str(caught.value).partition("; looked in ")[2]
    assert (sysconfig.get_path("purelib") in looked) == function.startswith("missing")


@pytest.mark.parametrize(
    ("kind", "function", "takes", "why"),
    [
        (PythonTransform, "text", "record", "own_functions:text returned a str; it must return a record or None"),
        (PythonTransform, "text", "batch", "own_functions:text returned a str; it must return a RecordBatch or None"),
        (PythonTransform, "not_yet", "batch", "it must return a RecordBatch or None"),
        (PythonPredicate, "text", "record", "own_functions:text returned a str; it must return True or False"),
        (PythonPredicate, "text", "batch", "returned a str; it must return True, False or a column of them"),
    ],
)
def test_a_wrong_result_names_the_function(kind: Any, function: str, takes: str, why: str) -> None:
    made = configured(kind, function, takes)
    call = made.apply if kind is PythonTransform else made.test
    with pytest.raises(DataError) as caught:
        call(records_of("a")[0])
    assert why in str(caught.value)


def test_a_dict_in_the_place_of_a_struct_is_refused_with_what_to_do() -> None:
    schema = SchemaBuilder.struct().field("a", SchemaBuilder.int64()).build()
    record = SourceRecord({}, {}, "t", Struct(schema).put("a", 1), value_schema=schema)
    with pytest.raises(DataError, match="own_functions:dicts returned a dict as the value") as caught:
        configured(PythonTransform, "dicts").apply(record)
    assert caught.value.hint == "Give new_record() value_schema=None too, or a Struct of that schema."
    assert configured(PythonTransform, "dicts").apply(record.new_record(value_schema=None)).value == {"a": 1}


def test_what_python_code_has_is_what_connect_has_behind_it() -> None:
    made = configured(PythonTransform, "places").apply(SourceRecord({}, {}, "t", "x"))
    assert (made.key, made.value) == ("/x", {"name": "north", "tags": [1]})
    assert (type(made.key), type(made.value)) == (str, dict)


def test_an_error_of_python_s_own_is_shown_with_its_type() -> None:
    record = SourceRecord({}, {}, "t", {"a": 1})
    with pytest.raises(StageError, match=r"failed in TRANSFORMATION of PythonTransform: KeyError: 'nope'"):
        TransformChain([TransformStep(configured(PythonTransform, "raising"))]).apply_records([record])


@pytest.mark.parametrize("key", [None, "k", {"id": 7}])
def test_a_record_without_schema_is_a_batch_of_the_types_seen_in_it(key: Any) -> None:
    record = SourceRecord({}, {"n": 0}, "t", {"a": 1, "tags": ["x"], "in": {"b": 0.5, "c": None}}, key=key)
    assert configured(PythonTransform, "same_batch", "batch").apply(record) == record
    assert configured(PythonPredicate, "has_a", "batch").test(record)
    assert configured(PythonTransform, "same_batch", "batch").apply(record.new_record(value=None)).value is None


def test_a_value_without_schema_that_no_column_holds_says_which_setting_takes_it() -> None:
    record = SourceRecord({}, {}, "t", {"mixed": [1, "x"]})
    with pytest.raises(DataError, match="no column has what this record has") as caught:
        configured(PythonTransform, "same_batch", "batch").apply(record)
    assert caught.value.hint is not None
    assert "takes=record" in caught.value.hint

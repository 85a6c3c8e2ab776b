"""Letters as documents that people edit: by a patch, a function or by hand; and the bytes that come of it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.dead_letters.archive import archived, read_archive
from kconnect.admin.dead_letters.chain import SourceChain, plugin_settings, sink_documents, source_documents
from kconnect.admin.dead_letters.document import Documents
from kconnect.admin.dead_letters.edits import Edits, FileEdit, FunctionEdit, JsonPatchEdit
from kconnect.admin.dead_letters.letter import NO_PARTITION, DeadLetter, dead_letter
from kconnect.admin.dead_letters.marks import Marks
from kconnect.admin.dead_letters.views import letter_view
from kconnect.api import ConsumerRecord, Schema, SchemaBuilder, SinkRecord, SourceRecord, Struct
from kconnect.api import Decimal as ConnectDecimal
from kconnect.errors import ConfigError, DataError
from kconnect.runtime.pipeline.source_dead_letters import make_letter_converters
from kconnect.runtime.plugins import PluginRegistry

PLUGINS = PluginRegistry.load()
JSON, TEXT = "org.apache.kafka.connect.json.JsonConverter", "org.apache.kafka.connect.storage.StringConverter"
SCHEMALESS = {"value.converter": JSON, "value.converter.schemas.enable": "false", "key.converter": TEXT}
WITH_SCHEMA = {"value.converter": JSON, "key.converter": TEXT}
ROW = SchemaBuilder.struct().field("id", Schema.INT64_SCHEMA).field("price", ConnectDecimal.schema(2)).build()


def documents(config: Mapping[str, str] = SCHEMALESS) -> Documents:
    return sink_documents({"name": "sink", "connector.class": "X", **config}, {}, PLUGINS)


def record(value: bytes | None, **more: Any) -> ConsumerRecord:
    return ConsumerRecord(
        "orders", 1, 7, b"k", value, 1_000, headers=[("h", b"1"), ("b", b"\xff"), ("n", None)], **more
    )


def patched(given: ConsumerRecord, *operations: Any, config: Mapping[str, str] = SCHEMALESS) -> ConsumerRecord:
    made = JsonPatchEdit(list(operations), documents(config), "fix.json").apply(dead_letter(given), given)
    assert made is not None
    return made


def put(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def test_a_patch_changes_what_it_says_and_leaves_all_other_bytes() -> None:
    given = record(b'{ "id": 1,   "name":"x" }')
    assert patched(given, put("/topic", "other")) == replace(given, topic="other")
    assert patched(given, put("/value/id", 2)).value == b'{"id":2,"name":"x"}'
    assert patched(given, put("/value", None)).value is None
    assert patched(given, put("/key", "new")).key == b"new"
    assert patched(given, put("/partition", None)).partition == NO_PARTITION
    assert patched(given, put("/headers/1/value", "text")).headers == [("h", b"1"), ("b", b"text"), ("n", None)]
    assert patched(given, {"op": "remove", "path": "/headers/0"}).headers == [("b", b"\xff"), ("n", None)]


@pytest.mark.parametrize(
    ("raw", "shown", "operation", "made"),
    [
        (b"oops", "oops", put("/value", "fine"), b"fine"),
        (b"oops", "oops", put("/value", {"id": 1}), b'{"id":1}'),
        (b"\xff\x00", {"base64": "/wA="}, put("/value/base64", "AA=="), b"\x00"),
        (b'{"id": 1}', {"id": 1}, put("/value/id", "2"), b'{"id":"2"}'),
        (b'{"id": 1}', {"id": 1}, put("/value", "text"), b'"text"'),
    ],
)
def test_what_the_converter_cannot_read_is_edited_as_json_or_text_or_base64(
    raw: bytes, shown: Any, operation: Any, made: bytes
) -> None:
    given = record(raw)
    assert documents(WITH_SCHEMA).document(given).body["value"] == shown
    assert patched(given, operation, config=WITH_SCHEMA).value == made


def test_a_value_with_a_schema_keeps_it_and_must_fit_it() -> None:
    struct = Struct(ROW).put("id", 1).put("price", Decimal("9.90"))
    made = make_letter_converters(PLUGINS).to_kafka_record(SinkRecord("t", 0, None, None, ROW, struct, 0))
    assert made is not None
    given = record(made.value)
    after = patched(given, put("/value/id", 2), config=WITH_SCHEMA)
    before_json, after_json = json.loads(given.value or b""), json.loads(after.value or b"")
    assert after_json["schema"] == before_json["schema"]
    assert after_json["payload"] == {**before_json["payload"], "id": 2}
    for operation, problem in (
        (put("/value/id", "two"), '/id: "two" would be 0'),
        (put("/value/id", True), "/id: true would be"),
        ({"op": "add", "path": "/value/more", "value": 1}, "/more: 1 would be null"),
        ({"op": "remove", "path": "/value/id"}, ""),
    ):
        with pytest.raises(DataError, match=f"The edited value does not fit its schema.*{problem}"):
            patched(given, operation, config=WITH_SCHEMA)


@pytest.mark.parametrize(
    ("operations", "problem"),
    [
        ([put("/value/none", 1)], "The patch does not fit the record"),
        ([{"op": "test", "path": "/topic", "value": "x"}], "The patch does not fit the record"),
        ([{"op": "test", "path": "/partition", "value": 5}], "1 is not equal to tested value 5$"),
        ([put("", [])], "is not a JSON object"),
        ([put("", {"extra": 1})], "unknown parts: extra"),
        ([put("/partition", -3)], "not a number from 0 up"),
        ([put("/partition", True)], "not a number from 0 up"),
        ([put("/topic", "")], "not the name of a topic"),
        ([put("/headers", {})], "headers are not a list"),
        ([put("/headers/0", {"name": "h"})], "A header is"),
        ([put("/headers/0/value", {"base64": "?"})], "header h is not base64"),
    ],
)
def test_an_edit_that_fits_no_record_is_refused(operations: Any, problem: str) -> None:
    with pytest.raises(DataError, match=problem):
        patched(record(b'{"id":1}'), *operations)


@pytest.mark.parametrize(
    ("patch", "problem"),
    [
        ({}, "it must be a list of operations"),
        ("text", "it must be a list of operations"),
        ([7], "operation 1 must be a JSON object, not 7"),
        ([put("/value", 1), {"path": "/value"}], "operation 2 has no op: one of add, replace"),
        ([{"op": "eat", "path": "/value"}], "operation 1 has the op eat, which is none of add"),
        ([{"op": "add", "path": "/value/id"}], r"operation 1 \(add\) has no value"),
        ([{"op": "move", "path": "/value/id"}], r"operation 1 \(move\) has no from"),
        ([{"op": "remove"}], r"operation 1 \(remove\) has no path: it must begin with a slash"),
        ([put("value.id", 1)], r"operation 1 \(replace\) has path value\.id: it must begin with a slash"),
        ([put("/id", 1)], r"operation 1 \(replace\) is about /id, and a record has /topic, /partition, .* only"),
        ([put("/value/~2", 1)], "invalid escape"),
    ],
)
def test_what_is_no_patch_is_refused_before_anything_is_read(patch: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=rf"fix\.json is not a JSON patch \(RFC 6902\): .*{problem}"):
        JsonPatchEdit(patch, documents(), "fix.json")


def test_a_function_gets_the_record_in_connects_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "repair_records.py").write_text(
        "def repair(record):\n"
        "    if record.value == 'drop':\n"
        "        return None\n"
        "    if record.value == 'raise':\n"
        "        raise KeyError('id')\n"
        "    return record.new_record(value={'text': record.value}, topic='repaired')\n"
        "def same(record):\n    return record\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    edit = FunctionEdit("repair_records:repair", documents(), PLUGINS)
    given = record(b"oops")
    made = edit.apply(dead_letter(given), given)
    assert made == replace(given, topic="repaired", value=b'{"text":"oops"}')
    assert edit.apply(dead_letter(record(b"drop")), record(b"drop")) is None
    with pytest.raises(DataError, match="repair_records:repair failed: KeyError: 'id'"):
        edit.apply(dead_letter(record(b"raise")), record(b"raise"))
    same = FunctionEdit("repair_records:same", documents(), PLUGINS)
    assert Edits(same, same).apply(dead_letter(given), given) == given
    with pytest.raises(ConfigError, match="has no function nowhere"):
        FunctionEdit("repair_records:nowhere", documents(), PLUGINS)


def test_what_a_function_changes_in_place_is_changed_and_other_headers_keep_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "repair_in_place.py").write_text(
        "def repair(record):\n"
        "    record.value['id'], record.value['done'] = 7, True\n"
        "    record.headers.remove('gone').add('new', 1)\n"
        "    return record\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    kept = [
        ("number", b"01.50"),
        ("same", b"1"),
        ("same", b"01"),
        ("raw", b"\xff\x00"),
        ("none", None),
        ("text", b"null"),
    ]
    given = replace(record(b'{"id": "7", "done": 1}'), headers=[("gone", b"x"), *kept])
    made = FunctionEdit("repair_in_place:repair", documents(), PLUGINS).apply(dead_letter(given), given)
    assert made == replace(given, value=b'{"id":7,"done":true}', headers=[*kept, ("new", b"1")])


BYTES = st.none() | st.binary(max_size=20) | st.sampled_from([b'{"a": 1.50}', b"[1, 2]", b'"x"', b"7", b"text"])


@given(BYTES, BYTES, st.sampled_from([SCHEMALESS, WITH_SCHEMA, {}]))
def test_a_document_that_nobody_edits_gives_the_same_bytes(
    key: bytes | None, value: bytes | None, config: Mapping[str, str]
) -> None:
    made = documents(config)
    given = replace(record(value), key=key)
    document = made.document(given)
    assert made.edited(given, document, json.loads(json.dumps(document.body))) == given


def test_an_exported_line_is_complete_and_its_edit_counts() -> None:
    given = dead_letter(record(b"oops"))
    line = archived(given, documents().document(given.as_read()).body)
    assert line["letter"]["value"] == "oops"
    line["record"]["value"] = {"id": 1}
    (read,) = read_archive(io.StringIO(json.dumps(line) + "\n\n"), "letters.jsonl")
    assert read.letter == given
    edit = FileEdit({given.place: read.body}, documents())
    made = edit.apply(read.letter, read.letter.as_read())
    assert made is not None
    assert made.value == b'{"id":1}'


@pytest.mark.parametrize("line", ["{", "{}", "[]", '{"letter":{},"record":{}}', '{"letter":7,"record":1}'])
def test_a_line_of_another_form_is_named(line: str) -> None:
    with pytest.raises(ConfigError, match=r"Line 2 of letters\.jsonl is not an exported dead letter"):
        list(read_archive(io.StringIO(f"\n{line}\n"), "letters.jsonl"))


def test_a_letter_whose_converter_fails_is_shown_as_what_it_looks_like() -> None:
    view = letter_view(dead_letter(record(b"oops")), documents(), Marks())
    assert (view["key"], view["value"], view["decoded"]["value"]) == ("k", "oops", "text")
    assert "JsonConverter cannot read it" in view["problems"][0]
    assert view["headers"][2] == {"key": "n", "value": None}


# --- letters of sources ---


def source_letter(value: Any, schema: Schema | None = Schema.STRING_SCHEMA, **note: Any) -> DeadLetter:
    given = SourceRecord({"a": 1}, {"b": 2}, "t", value, value_schema=schema)
    made = make_letter_converters(PLUGINS).to_kafka_record(given)
    assert made is not None
    said = {"topic": "t", "stage": "TRANSFORMATION", "stepsDone": 0, "connector": "src", "timestamp": 5, **note}
    headers: list[tuple[str, bytes | None]] = [("__connect.source", json.dumps(said).encode())]
    return dead_letter(ConsumerRecord("dlq", 0, 0, None, made.value, 1_000, headers=headers))


def chain(**more: str) -> SourceChain:
    config = {"name": "src", "connector.class": "X", **SCHEMALESS, "transforms": "a,b", **more}
    config |= {"transforms.a.type": "HoistField$Value", "transforms.a.field": "in"}
    config |= {"transforms.b.type": "kit.failing_transform:FailsOnText"}
    return SourceChain(config, {}, PLUGINS)


def test_a_sources_letter_passes_the_steps_that_it_had_not_passed() -> None:
    for done, value in ((0, b'{"in":"x"}'), (1, b'"x"'), (None, b'"x"')):
        given = source_letter("x", stepsDone=done)
        made = chain().record(given, given.as_read())
        assert made is not None
        assert (made.topic, made.partition, made.value, made.timestamp) == ("t", NO_PARTITION, value, 5)
    again = source_letter("text", stepsDone=1)
    with pytest.raises(DataError, match="dlq-0@0 fails again in TRANSFORMATION: reported to fail on text"):
        chain().record(again, again.as_read())


def test_a_sources_letter_is_edited_before_it_passes_its_chain() -> None:
    given = source_letter("text", stepsDone=1)
    edit = JsonPatchEdit([put("/value", "fine")], source_documents({}, PLUGINS), "fix.json")
    edited = edit.apply(given, given.as_read())
    assert edited is not None
    made = chain().record(given, edited)
    assert made is not None
    assert made.value == b'"fine"'


def test_secrets_that_no_converter_needs_are_not_looked_up() -> None:
    config = {"name": "a", "connector.class": "X", "password": "${file:/none:p}", "value.converter": TEXT}
    worker = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    assert plugin_settings(config, worker) == {"name": "a", "connector.class": "X", "value.converter": TEXT}


def test_a_file_with_a_letter_twice_is_refused_as_it_would_be_sent_twice() -> None:
    line = json.dumps(archived(dead_letter(record(b"oops")), {}))
    with pytest.raises(ConfigError, match=r"Line 3 of letters.jsonl is the dead letter \S+@\d+ again, as line 1"):
        list(read_archive(io.StringIO(f"{line}\n\n{line}\n"), "letters.jsonl"))

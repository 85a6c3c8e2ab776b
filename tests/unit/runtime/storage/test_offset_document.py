"""Offsets as a JSON document: from any store and back, with errors that say where."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import BadRequestError, DataError
from kconnect.java.compat.serialized_map import dump_map, load_map
from kconnect.model import offsets_from_json
from kconnect.runtime.storage.offset_document import offset_changes, offset_entries, offsets_document
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore

A, B, D = b'["c",{"p":"a"}]', b'["c",{"p":"b"}]', b'["d",{"p":"a"}]'
ENTRIES = {A: b'{"at":1}', D: b'{"at":1.5,"s":"\xc3\xbc"}', B: b'{"at":2}'}
DOCUMENT = {
    "c": {
        "offsets": [
            {"partition": {"p": "a"}, "offset": {"at": 1}},
            {"partition": {"p": "b"}, "offset": {"at": 2}},
        ]
    },
    "d": {"offsets": [{"partition": {"p": "a"}, "offset": {"at": 1.5, "s": "ü"}}]},
}


def test_entries_become_a_document_by_connector_and_back_in_the_same_bytes():
    assert offsets_document(ENTRIES) == DOCUMENT
    assert offset_entries(json.loads(json.dumps(DOCUMENT))) == ENTRIES


def test_what_stands_for_a_connector_is_what_rest_takes():
    assert len(offsets_from_json(offsets_document(ENTRIES)["c"])) == 2


def test_only_the_connectors_asked_for_are_reported():
    assert offsets_document(ENTRIES, connectors=["d", "x"]) == {"d": DOCUMENT["d"]}


def test_tombstones_are_left_out_and_taken():
    assert offsets_document({A: None, B: b'{"at":2}', D: b"null"}) == {"c": {"offsets": DOCUMENT["c"]["offsets"][1:]}}
    assert offset_entries({"c": {"offsets": [{"partition": {"p": "a"}, "offset": None}]}}) == {A: None}


def test_offsets_move_from_a_file_to_a_topic_and_back():
    file = dump_map(ENTRIES)
    store = TopicOffsetStore(MemoryRecordLog(MemoryTopic("offsets")))
    store.start()
    wanted = offset_entries(offsets_document(load_map(file)))
    store.set(offset_changes(store.entries(), wanted))
    back = offset_entries(offsets_document(store.entries()))
    store.stop()
    assert load_map(dump_map(back)) == ENTRIES


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (A, b"[1]", r'Connector c, partition \{"p":"a"\}: An offset is not a JSON object'),
        (A, b"{", r'Connector c, partition \{"p":"a"\}: An offset is not JSON'),
        (b"foreign", b"{}", r"The key b'foreign' is not \[\"connector\", \{partition\}\]"),
    ],
)
def test_what_can_not_stand_in_a_document_is_named(key, value, sentence):
    with pytest.raises(DataError, match=sentence):
        offsets_document({**ENTRIES, key: value})
    skipped = []
    document = offsets_document({B: b'{"at":2}', key: value}, skip=skipped.append)
    assert document == {"c": {"offsets": DOCUMENT["c"]["offsets"][1:]}}
    assert len(skipped) == 1


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ([], "Expected a JSON object"),
        (None, "Expected a JSON object"),
        ({"c": []}, "Connector c: Expected a JSON object"),
        ({"": {"offsets": []}}, "'' is not a name of a connector"),
        ({"c": {"offsets": [1]}}, r"Connector c: offsets\[0\] must be an object"),
        ({"c": {"offsets": [{"offset": {}}]}}, r"Connector c: offsets\[0\]: the partition"),
        (
            {"c": {"offsets": [{"partition": {"p": 1}, "offset": 5}]}},
            r"Connector c: offsets\[0\]: partition and offset",
        ),
        ({"c": {"offsets": [{"partition": {"p": 1}, "ofset": {}}]}}, 'unknown field "ofset"'),
        (
            {"c": {"offsets": [{"partition": {"p": 1}, "offset": {"a": [1]}}]}},
            r'Connector c, partition \{"p":1\}: Offsets may only contain primitive types',
        ),
        (
            {"c": {"offsets": [{"partition": {"p": {}}, "offset": {}}]}},
            r'Connector c, partition \{"p":\{\}\}: Offsets may only contain primitive types',
        ),
        (
            {
                "c": {
                    "offsets": [
                        {"partition": {"a": 1, "b": 2}, "offset": {}},
                        {"partition": {"b": 2, "a": 1}, "offset": None},
                    ]
                }
            },
            r'Connector c, partition \{"b":2,"a":1\} has more than one offset',
        ),
    ],
)
def test_a_document_that_is_wrong_is_reported_with_connector_and_partition(document, sentence):
    with pytest.raises(BadRequestError, match=sentence):
        offset_entries(document)


def test_only_what_differs_is_written_under_the_key_the_store_has():
    current = {b'["c",{"a":1,"b":2}]': b"1", A: b"same", B: b"kept", D: b"other"}
    wanted = {b'["c",{"b":2,"a":1}]': b"2", A: b"same", b'["c",{"p":"new"}]': b"3", b'["c",{"p":"gone"}]': None}
    changes = {b'["c",{"a":1,"b":2}]': b"2", b'["c",{"p":"new"}]': b"3"}
    assert offset_changes(current, wanted) == changes
    assert offset_changes(current, wanted, replaced=["c"]) == {**changes, B: None}
    assert offset_changes(current, {}, replaced=["c", "d"]) == dict.fromkeys(current)


VALUES = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
FLAT = st.dictionaries(st.text(), VALUES, max_size=3)
OFFSETS = st.fixed_dictionaries({"partition": FLAT.filter(bool), "offset": FLAT})
DOCUMENTS = st.dictionaries(
    st.text(min_size=1),
    st.lists(OFFSETS, min_size=1, max_size=3, unique_by=lambda item: json.dumps(item["partition"], sort_keys=True)).map(
        lambda offsets: {"offsets": offsets}
    ),
)


@given(DOCUMENTS, st.randoms())
def test_every_document_reads_back_equal_and_sorted_in_whichever_order_it_was_read(document, chance):
    entries = list(offset_entries(document).items())
    chance.shuffle(entries)
    found = offsets_document(dict(entries))
    assert list(found) == sorted(document)
    assert found == {
        connector: {"offsets": sorted(body["offsets"], key=lambda one: json.dumps(one["partition"], sort_keys=True))}
        for connector, body in document.items()
    }
    assert offset_changes(dict(entries), dict(entries), replaced=list(document)) == {}


@given(st.dictionaries(st.binary(), st.none() | st.binary()))
def test_arbitrary_entries_never_raise_when_they_may_be_skipped(entries):
    assert isinstance(offsets_document(entries, skip=lambda sentence: None), dict)

"""Source offsets as values: what is invalid is logged and left out."""

from __future__ import annotations

import pytest

from kconnect.model import ConnectorOffset
from kconnect.runtime.storage import MemoryOffsetStore, commit_source_offsets, list_source_offsets, read_source_offsets


@pytest.fixture
def store() -> MemoryOffsetStore:
    found = MemoryOffsetStore()
    found.set(
        {
            b'["c",{"p":"a"}]': b'{"at":1}',
            b'["c",null]': b'{"at":2}',
            b'["c",{"p":"bad"}]': b"[",
            b'["c",{"p":"nested"}]': b'{"a":[1]}',
        }
    )
    return found


def test_offsets_are_given_in_the_order_asked_for(store: MemoryOffsetStore) -> None:
    assert read_source_offsets(store, "c", [{"p": "?"}, {"p": "a"}]) == [None, {"at": 1}]
    assert read_source_offsets(store, "other", [{"p": "a"}]) == [None]


def test_an_invalid_partition_or_offset_is_logged_and_left_out(
    store: MemoryOffsetStore, caplog: pytest.LogCaptureFixture
) -> None:
    asked = [{"p": "bad"}, {"p": "nested"}, {"p": {}}, {"p": "a"}]

    assert read_source_offsets(store, "c", asked) == [None, None, None, {"at": 1}]
    assert caplog.text.count("An offset of connector c cannot be read and is ignored") == 2
    assert caplog.text.count("A source partition of connector c is not valid") == 1


def test_a_listing_leaves_out_invalid_offsets(store: MemoryOffsetStore) -> None:
    assert list_source_offsets(store, "c") == [ConnectorOffset({"p": "a"}, {"at": 1})]


def test_of_two_offsets_of_a_partition_the_last_is_committed(store: MemoryOffsetStore) -> None:
    offsets = [ConnectorOffset({"p": "a"}, {"at": 7}), ConnectorOffset({"p": "a"}, {"at": 8})]
    commit_source_offsets(store, "c", offsets)

    assert read_source_offsets(store, "c", [{"p": "a"}]) == [{"at": 8}]

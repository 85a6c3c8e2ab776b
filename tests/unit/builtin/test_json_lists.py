"""A long list of JSON is read in pieces: the same items as of the whole, and an error where it breaks off."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.api import DataError
from kconnect.builtin.connectors.objects.json_lists import ListPieces
from kconnect.builtin.connectors.objects.json_rows import JsonRows
from kit.examples import examples
from kit.objects import source_of

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


class _Slow:
    """Gives few bytes at a time."""

    def __init__(self, body: bytes, most: int) -> None:
        self._file, self._most = io.BytesIO(body), most

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, self._most))


def items_of(body: bytes, most: int = 1 << 20, piece: int = 20, head: int = 2) -> list[Any]:
    pieces = ListPieces(_Slow(body[head:], most), body[:head], piece)
    return [item for one in pieces for item in JsonRows.document(one)]


@examples(200)
@given(
    st.lists(_VALUES),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(1, 9),
)
def test_pieces_have_the_items_of_the_whole(
    values: list[Any], indent: int | None, is_ascii: bool, most: int, piece: int, head: int
) -> None:
    body = json.dumps(values, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "replace")
    for more in (b"", b" \n", b' {"behind": [1]} [2, 3]'):
        assert items_of(body + more, most, piece, head) == JsonRows.document(body + more)


@pytest.mark.parametrize("body", [b'[{"a": "x,]"}, 12, "\xc3\xbc\\"", [true]]', b"[-1.5e3,null]"])
def test_a_list_that_breaks_off_or_is_none_is_an_error(body: bytes) -> None:
    assert items_of(body) == json.loads(body)
    for end in range(1, len(body)):
        with pytest.raises(DataError, match="It is not JSON"):
            items_of(body[:end], most=3, head=1)


@pytest.mark.parametrize("body", [b"[1, 2,]", b"[1, nope, 3]", b"[1 2]", b"[,1]", b"[1, NaN]", b"[1]]"])
def test_what_is_no_json_is_refused_as_of_a_whole(body: bytes) -> None:
    with pytest.raises(DataError, match="It is not JSON"):
        JsonRows.document(body)
    with pytest.raises(DataError, match="It is not JSON"):
        items_of(body + b" " * 40)


def test_an_error_says_behind_which_item_and_those_before_it_are_given() -> None:
    pieces = iter(ListPieces(io.BytesIO(b"1, 2, 3, x, 5" + b", 6" * 30 + b"]"), b"[", 4))
    assert next(pieces) == b"[1, 2]"
    assert next(pieces) == b"[ 3]"
    with pytest.raises(DataError, match=r"It is not JSON behind item 3 of the list: Expecting value, at '.*x, 5, 6"):
        next(pieces)


def test_a_long_list_goes_on_behind_its_last_committed_row(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"n": number, "x": "y" * 200} for number in range(90_000)]))
    with source_of(tmp_path, batch_rows="40000") as source:
        assert [record.value["n"] for record in source.poll_once()][-1] >= 4_000
        source.commit()
        source.restart()
        rest = [record.value["n"] for _ in range(25) for record in source.poll_once()]
        assert rest == list(range(rest[0], 90_000))
        source.commit()
        assert source.offset(object=f"{tmp_path}/a.json")["done"] is True  # type: ignore[index]

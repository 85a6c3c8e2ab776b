"""Unit tests start nothing: what they leave behind is looked for once a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.leaks import Snapshot

_GRACE_S = 3.0


@pytest.fixture(scope="module", autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    before = Snapshot.now()
    yield
    left = before.left_behind(_GRACE_S)
    before.end_newcomers()
    assert not left, f"left behind by the file: {left}"

"""Sources moved to a time: what connectors can say, and what is said of those that cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kconnect.admin.direct.offsets.source_targets import source_offsets_at
from kconnect.builtin.connectors.http_reading import cursor_before
from kconnect.errors import BadRequestError
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorType

# 2026-11-22T03:00:00.250Z
NOON = 1_795_316_400_250


def info(kind: str, **config: str) -> ConnectorInfo:
    return ConnectorInfo("in", {"connector.class": kind, "cursor.field": "at", **config}, (), ConnectorType.SOURCE)


@pytest.mark.parametrize(
    ("example", "cursor"),
    [
        ("2026-11-23T10:00:00Z", "2026-11-22T03:00:00Z"),
        ("2026-11-23T10:00:00.000Z", "2026-11-22T03:00:00.249Z"),
        ("2026-11-23T10:00:00.5Z", "2026-11-22T03:00:00.2Z"),
        ("2026-11-23 10:00:00.123456+02:00", "2026-11-22 05:00:00.249999+02:00"),
        ("2026-11-23T10:00:00-0330", "2026-11-21T23:30:00-0330"),
        ("2026-11-23T10:00:00", "2026-11-22T03:00:00"),
        (1_795_316_400, None),
        ("1795316400", None),
        ("abc", None),
        (None, None),
    ],
)
def test_a_cursor_is_spelled_as_the_one_there_is_and_lies_just_before_the_time(
    example: object, cursor: str | None
) -> None:
    assert cursor_before(example, NOON) == cursor


@given(st.integers(0, 4_000_000_000_000), st.integers(1, 6))
def test_the_time_itself_is_beyond_the_cursor_and_nothing_lies_between(time_ms: int, digits: int) -> None:
    """Cursors of one spelling are compared as texts."""
    form = f"2026-11-23T10:00:00.{'0' * digits}Z"
    here, after = cursor_before(form, time_ms), cursor_before(form, time_ms + 1000)
    exact = cursor_before("2026-11-23T10:00:00.000000Z", time_ms)
    assert here is not None
    assert after is not None
    assert exact is not None
    assert here < after
    assert here[:-1] <= exact[:-1]


def test_an_http_source_with_times_as_cursors_is_moved_and_its_page_forgotten() -> None:
    committed = [ConnectorOffset({"url": "u"}, {"cursor": "2026-11-23T10:00:00Z", "page": "p", "etag": "e"})]
    assert source_offsets_at({}, info("HttpJsonSource"), committed, NOON) == [
        ConnectorOffset({"url": "u"}, {"cursor": "2026-11-22T03:00:00Z"})
    ]


@pytest.mark.parametrize(
    ("kind", "offset", "sentence"),
    [
        (
            "HttpJsonSource",
            {"cursor": 17},
            r"HttpJsonSource cannot say where in was then: its cursor 17 \(cursor.field=at\) is not a time",
        ),
        (
            "FileStreamSource",
            {"position": 5},
            r"FileStreamSource cannot say where it was at a time \(2026-11-22 03:00:00",
        ),
        (
            "org.example.JavaSource",
            {"x": 1},
            "knows where in was at a time, and org.example.JavaSource is not installed",
        ),
        ("FileStreamSource", None, "in has no committed offsets"),
    ],
)
def test_a_source_that_cannot_say_it_is_refused_with_why_and_the_way_by_hand(
    kind: str, offset: dict[str, object] | None, sentence: str
) -> None:
    committed = [] if offset is None else [ConnectorOffset({"p": 1}, offset)]
    with pytest.raises(BadRequestError, match=sentence) as refused:
        source_offsets_at({}, info(kind), committed, NOON)
    assert "connect offsets move in -f saved.json" in (refused.value.hint or "")

"""The source that the README and docs/write-a-connector.md show; test_pages runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kconnect.api import ConsumerRecord, ProducerRecord
from kit.documents import blocks_of

_ROOT = Path(__file__).parents[2]


def test_the_whole_source_is_shorter_than_forty_lines_and_the_same_in_both_documents() -> None:
    guide, readme = (
        next(block.text for block in blocks_of(_ROOT / name) if block.language == "python")
        for name in ("docs/write-a-connector.md", "README.md")
    )
    assert guide == readme
    code = [line for line in guide.splitlines() if line.strip() and not line.startswith("#")]
    assert 20 < len(code) < 40


def test_the_interceptors_that_are_shown_work() -> None:
    (shown,) = (block.text for block in blocks_of(_ROOT / "docs/write-a-connector.md") if "tracing.py" in block.text)
    names: dict[str, Any] = {}
    exec(shown, names)  # our own page
    stamped = names["SentAt"]().on_send(ProducerRecord("t", None, None, b"v"))
    assert [name for name, _ in stamped.headers] == ["sent-at"]
    records = [ConsumerRecord("t", 0, offset, None, value) for offset, value in enumerate((b"", b"v", None))]
    assert [record.offset for record in names["WithoutEmpty"]().on_consume(records)] == [1]

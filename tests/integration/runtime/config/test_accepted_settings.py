"""The share of settings in connector files as people write them that is accepted unchanged, as the docs say it."""

from __future__ import annotations

import re

from kit.accepted_settings import counted_settings
from kit.places import DOCS


def test_as_many_settings_are_accepted_as_the_docs_say() -> None:
    count = counted_settings()
    assert count.files >= 70
    assert count.share > 0.98, count.refused
    said = re.search(r"(\d+ of \d+ settings \([\d.]+%\) in \d+ files)", (DOCS / "differences.md").read_text("utf-8"))
    assert said is not None
    assert str(count).startswith(said[1]), f"docs/differences.md: {count}; refused: {count.refused}"

"""How long something has lasted, as sentences say it: exact, also on a machine that takes seconds to answer."""

from __future__ import annotations

import re
import time

__all__ = ["Age"]


class Age:
    """Of what began so many seconds before this was made, by the wall clock."""

    def __init__(self, seconds: float) -> None:
        self._least_s = seconds
        self.since_ms = time.time_ns() // 1_000_000 - round(seconds * 1000)

    def assert_reported(self, text: str, sentence: str) -> None:
        """`text` is this sentence, with the whole seconds of some moment between the making and now for AGE."""
        before, after = sentence.split("AGE")
        found = re.fullmatch(rf"{re.escape(before)}(\d+) s{re.escape(after)}", text)
        assert found, text
        assert int(self._least_s) <= int(found[1]) <= time.time() - self.since_ms / 1000, text

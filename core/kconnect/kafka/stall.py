"""Whether a reader stands still: the broker has something for it, and it gives nothing for a while. Pure."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["StallWatch"]


class StallWatch:
    """Looks at a reader from time to time, while somebody waits for it. Threads: one at a time, the owner locks."""

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._behind: dict[int, int] | None = None  # what it had given when it was first seen behind; None: it was not
        self._since_s = 0.0

    def look(self, given: Mapping[int, int], readable: Mapping[int, int], now_s: float) -> bool:
        """Whether it has stood still for long enough to be replaced; said once, then the time begins anew.

        `given`: partition -> the offset before which all was given. `readable`: up to where the broker gives records.
        """
        if all(given.get(partition, 0) >= end for partition, end in readable.items()):
            self._behind = None
            return False
        if self._behind != given:
            self._behind, self._since_s = dict(given), now_s
            return False
        if now_s - self._since_s < self._after_s:
            return False
        self._since_s = now_s
        return True

"""How many examples a random test draws: all of them, or a part of them while somebody waits for `make unit`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from hypothesis import HealthCheck, settings

__all__ = ["examples", "load_profile", "share_of"]

_PERCENT: Final = int(os.environ.get("KCONNECT_EXAMPLES_PERCENT", "100"))
"""Of the examples that a test names: `make unit` draws fewer, `make test` and the gate all."""
_LEAST: Final = 5
_USUAL: Final = 100  # what hypothesis draws where a test names no number


def examples(number: int = _USUAL, *, may_fail: Sequence[HealthCheck] = (), **more: Any) -> settings:
    """The settings of a test that draws so many examples; `may_fail`: health checks of hypothesis."""
    if may_fail:
        more["suppress_health_check"] = [HealthCheck.too_slow, *may_fail]
    return settings(max_examples=share_of(number), **more)


def share_of(number: int, percent: int = _PERCENT) -> int:
    """So many of these examples, and never fewer than show that the test works at all."""
    return min(number, max(_LEAST, number * percent // 100))


def load_profile() -> None:
    """How fast values are drawn tells of the machine's load, not of what is tested."""
    settings.register_profile(
        "any-load", max_examples=share_of(_USUAL), suppress_health_check=[HealthCheck.too_slow], deadline=None
    )
    settings.load_profile("any-load")

"""Failures that a test asks for: the n-th call of a named step raises."""

from __future__ import annotations

from collections.abc import Collection


class InjectedFailures:
    """Which calls raise which error. Threads: the test's own."""

    def __init__(self, steps: Collection[str]) -> None:
        self._steps = tuple(steps)
        self._plans: dict[str, list[tuple[int, int, BaseException]]] = {}

    def plan(self, step: str, error: BaseException, *, times: int, after: int) -> None:
        """Have the next `times` calls of `step` raise, once `after` calls went well. Errors: ValueError."""
        if step not in self._steps:
            raise ValueError(f"There is no step {step!r} to fail; there are {', '.join(self._steps)}")
        self._plans.setdefault(step, []).append((after, times, error))

    def raise_if_due(self, step: str) -> None:
        """Call before each step."""
        plans = self._plans.get(step)
        if not plans:
            return
        after, times, error = plans[0]
        if after > 0:
            plans[0] = (after - 1, times, error)
            return
        if times > 1:
            plans[0] = (0, times - 1, error)
        else:
            plans.pop(0)
        raise error

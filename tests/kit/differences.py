"""Many cases in one test, which fails with all that differ and not with the first alone.

For cases that take microseconds, such as recordings of Java: an item of pytest for each would cost more than the case.
Cases that need a state of their own, or take long, stay items of their own.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TypeVar

import pytest

__all__ = ["hold_alike", "numbered"]

Case = TypeVar("Case")
_LONGEST = 2000
"""Characters of one difference: more would hide the others."""


def hold_alike(
    cases: Iterable[tuple[str, Case]],
    compare: Callable[[Case], str | None],
    known: Collection[str] = (),
    *,
    most: int | None = None,
) -> int:
    """How many cases were compared, when none differs that should not, and each that should differ does.

    `cases`: each with the name that the failure tells. `compare` gives None where both are alike, else what ours gave
    and what was expected; what it raises is a difference, too. `known`: names of the cases that differ on purpose; they
    have to give a difference, not raise one. `most`: end after so many, where each takes long.
    Errors: AssertionError with a line or more for each difference; also for no cases at all, for a name that comes
    twice, and for a known one that no case has.
    """
    __tracebackhide__ = True
    names: set[str] = set()
    found: list[str] = []
    is_cut = False
    for name, case in cases:
        if is_cut := most is not None and len(found) >= most:
            break
        if name in names:
            found.append(f"{name}: two cases have this name")
        names.add(name)
        if (reported := _reported(case, compare, is_known=name in known)) is not None:
            found.append(f"{name}: {reported}")
    assert names, "there are no cases"
    if not is_cut:
        found += [f"{name}: is known to differ, but there is no such case" for name in sorted(set(known) - names)]
    if found:
        others = ", the rest was not compared" if is_cut else ""
        raise AssertionError("\n- ".join([f"differences: {len(found)}, cases: {len(names)}{others}", *found]))
    return len(names)


def numbered(cases: Iterable[Case], name: Callable[[Case], object] = repr) -> list[tuple[str, Case]]:
    """Cases with names for `hold_alike`: their number and the beginning of what `name` gives."""
    return [(f"{number}/{str(name(case))[:120]}", case) for number, case in enumerate(cases)]


def _reported(case: Case, compare: Callable[[Case], str | None], *, is_known: bool) -> str | None:
    try:
        verdict = compare(case)
    except pytest.fail.Exception as failed:
        if type(failed) is not pytest.fail.Exception:
            raise  # the time limit of the whole test
        return _shortened(str(failed))
    except AssertionError as failed:
        return _shortened(f"{failed}" or _where(failed))
    except Exception as error:
        return _shortened(f"raised {error!r}, {_where(error)}")
    if is_known:
        return "is known to differ and agrees now: take it out of the list" if verdict is None else None
    return None if verdict is None else _shortened(verdict)


def _where(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"at {Path(frame.filename).name}:{frame.lineno} ({frame.line})"


def _shortened(text: str) -> str:
    text = text.replace("\n", "\n    ")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} .. ({len(text)} characters)"

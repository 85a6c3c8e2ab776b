"""Lengths of time as people write them: `500ms`, `60s`, `2m`, `1h`, `7d`; a number alone is seconds."""

from __future__ import annotations

import re

from kconnect_cli.exits import UsageProblem

_UNITS_S = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_FORM = re.compile(r"(\d+(?:\.\d+)?) *(ms|s|m|h|d|)")


def seconds_of(text: str, option: str) -> float:
    """Seconds in a length of time. Errors: UsageProblem that names the option."""
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise UsageProblem(f"{option} {text} is not a duration", hint="Examples: 500ms, 60s, 2m, 1h, 7d.")
    return float(form[1]) * _UNITS_S[form[2]]

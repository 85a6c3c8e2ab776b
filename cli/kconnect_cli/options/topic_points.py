"""Points in a topic as people write them: `--until 2026-05-01T12:00Z` or `--until -10m`, `--at 12` or `--at 3:12`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kconnect.builtin.types.iso_text import moment_of_iso
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import UsageProblem

_AT = re.compile(r"(?:(\d+):)?(\d+)", re.ASCII)


def milliseconds_of(text: str, option: str, now_s: float) -> int:
    """A time: ISO 8601, in the local zone where it names none; or how long ago, `-10m`.

    Errors: UsageProblem that names the option.
    """
    text = text.strip()
    if text.startswith("-"):
        return round((now_s - seconds_of(text[1:], option)) * 1000)
    try:
        return round(moment_of_iso(text).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as err:
        raise UsageProblem(
            f"{option} {text} is not a time",
            hint="Examples: 2026-05-01T12:00:00Z, 2026-05-01T14:00 (local time zone), -10m.",
        ) from err


def offsets_of(texts: Sequence[str], option: str, *, has_one_partition: bool) -> dict[int, int]:
    """Partition -> offset of `12` (partition 0, where there is only one) and `3:12`. Errors: UsageProblem."""
    found: dict[int, int] = {}
    for text in texts:
        form = _AT.fullmatch(text.strip())
        if form is None or (form[1] is None and not has_one_partition):
            wanted = "an OFFSET" if has_one_partition else "PARTITION:OFFSET"
            raise UsageProblem(f"{option} {text} is not {wanted}", hint="--raw shows where each record is.")
        partition = int(form[1] or 0)
        if partition in found:
            raise UsageProblem(f"{option} names partition {partition} twice")
        found[partition] = int(form[2])
    return found

"""What a run of the tests needs of the machine: what is missing is one sentence, not a thousand failures."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from kconnect.errors import EnvironmentProblemError
from kconnect.java.installed import find_java

__all__ = ["REQUIRED", "missing_needs"]

REQUIRED: Final = "KCONNECT_REQUIRE"
"""What must be there: broker, java, spark, browser, pooler, with commas between them."""
_BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
# A guess with room to spare: a run that was looked at in its midst had 0.6 GB, and pytest keeps the last three
_ROOM_BYTES: Final = 3_000_000_000


def missing_needs(required: set[str], folder: Path | None = None) -> list[str]:
    """What is missing, a sentence each."""
    found = []
    if required & {"java", "broker", "spark"}:
        try:
            find_java("the tests")
        except EnvironmentProblemError as err:
            found.append(f"{err} {err.hint or ''}".strip())
    if "browser" in required and not any(map(shutil.which, _BROWSERS)):
        found.append(
            "There is no Chromium, for tests of the web console. `make browser` installs it where apt-get does."
        )
    if "pooler" in required and not shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
        found.append("There is no PgBouncer, for tests of poolers. `make browser` installs it where apt-get does.")
    place = folder or Path(os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir())
    free = shutil.disk_usage(place).free
    if free < _ROOM_BYTES:
        found.append(
            f"{place} has {free / 1e9:.1f} GB left; the tests need {_ROOM_BYTES / 1e9:g} GB. "
            "Make room there, or set TMPDIR to a folder that has it."
        )
    return found

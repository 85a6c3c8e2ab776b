"""The file of roles: read at the start, and again when it changes."""

from __future__ import annotations

import logging
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError
from kconnect.files.reread import Reread
from kconnect.logs.wording import pluralize
from kconnect.runtime.rest.access.roles import Roles, parse_roles

log = logging.getLogger(__name__)

SETTING: Final = "kconnect.rest.roles.file"


class RolesFile:
    """The roles that hold. Threads: any.

    A changed file takes effect with the next request after a second. One that cannot be read or is wrong is reported,
    once for each version of it, and the roles from before stay.
    """

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Errors: ConfigError with the line that is wrong: there is no worker without its guard."""
        self.path = path
        self._reread = Reread(
            lambda: _read(path),
            lambda: [path],
            reported=lambda roles: log.info(
                "Roles were read again from %s: %s", path, pluralize(len(roles.grants), "grant")
            ),
            failed=lambda err: log.error("%s Those from before stay in force (%s=%s)", err, SETTING, path),
            monotonic=monotonic,
        )
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o022:
            log.warning("%s says who may do what and others may change it: chmod 644 %s", path, path)

    @property
    def problem(self) -> str | None:
        """Why the newest version of the file does not hold; None if it does."""
        return self._reread.problem

    def roles(self) -> Roles:
        """The roles that apply now."""
        return self._reread.value()


def _read(path: Path) -> Roles:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigError(f"{SETTING}={path} cannot be read: {err}.") from err
    return parse_roles(text, str(path))

"""The file of roles: read at the start, and again when it changes."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError
from kconnect.runtime.rest.access.roles import Roles, parse_roles

log = logging.getLogger(__name__)

SETTING: Final = "kconnect.rest.roles.file"
# How old the answer to "has it changed?" may be: what an administrator does not notice, and a request does not pay
_LOOK_EVERY_S: Final = 1.0


class RolesFile:
    """The roles that hold. Threads: any.

    A changed file takes effect with the next request after a second. One that cannot be read or is wrong is reported,
    once for each version of it, and the roles from before stay.
    """

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Errors: ConfigError with the line that is wrong: there is no worker without its guard."""
        self.path = path
        self._monotonic = monotonic
        self._lock = threading.Lock()  # guards the fields below; readers of `_roles` need none
        self._seen = _version(path)
        self._roles = _read(path)
        self._looked_s = monotonic()
        self._problem: str | None = None
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o022:
            log.warning("%s says who may do what and others may change it: chmod 644 %s", path, path)

    @property
    def problem(self) -> str | None:
        """Why the newest version of the file does not hold; None if it does."""
        return self._problem

    def roles(self) -> Roles:
        """Those that hold now. Costs a clock's reading, and a look at the file once a second."""
        if self._monotonic() - self._looked_s >= _LOOK_EVERY_S and self._lock.acquire(blocking=False):
            try:
                self._looked_s = self._monotonic()
                self._look()
            finally:
                self._lock.release()
        return self._roles

    def _look(self) -> None:
        version = _version(self.path)
        if version == self._seen:
            return
        self._seen = version
        try:
            self._roles = _read(self.path)
        except ConfigError as err:
            self._problem = str(err)
            log.error("%s Those from before stay in force (%s=%s)", err, SETTING, self.path)
        else:
            self._problem = None
            log.info("Roles were read again from %s: %s grants", self.path, len(self._roles.grants))


def _version(path: Path) -> tuple[int, int, int] | None:
    """What differs when the file does; None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _read(path: Path) -> Roles:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigError(f"{SETTING}={path} cannot be read: {err}.") from err
    return parse_roles(text, str(path))

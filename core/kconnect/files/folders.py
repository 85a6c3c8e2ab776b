"""The user's cache and data folders: what can be recreated goes to the cache, the rest to the data folder.

`refuse_unwritable` checks that this user can write a file that a setting names, `made_temporary` makes a folder that
ends with its process, or is removed by a later one.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_path, user_config_path, user_data_path, user_state_path

from kconnect.errors import ConfigError


def cache_folder() -> Path:
    """Where fetched jars and class archives are kept: the user's cache folder, `KCONNECT_CACHE` if set.

    A user without a home, as containers have, has a folder among the temporary ones. Errors: ConfigError.
    """
    chosen = os.environ.get("KCONNECT_CACHE")
    return Path(chosen) if chosen else _of_user(user_cache_path, "cache")


def data_folder() -> Path:
    """Where the dev broker, and a worker started without a config file, keep persistent data.

    Errors: ConfigError for a user without a home: the data would not last.
    """
    try:
        return user_data_path("kconnect")
    except RuntimeError as err:
        raise ConfigError(
            f"The user with the number {os.getuid()} has no home folder.", hint="Set HOME, or XDG_DATA_HOME alone."
        ) from err


def state_folder() -> Path:
    """Where a worker leaves what explains how it ended. Errors: as of `cache_folder`."""
    return _of_user(user_state_path, "state")


def config_folder() -> Path:
    """Where the contexts of commands are. Errors: as of `cache_folder`."""
    return _of_user(user_config_path, "config")


def _of_user(find: Callable[[str], Path], name: str) -> Path:
    try:
        return find("kconnect")
    except RuntimeError:  # neither HOME nor an entry in /etc/passwd
        return _homeless(name)


def _homeless(name: str) -> Path:
    """A folder that this user alone writes. Errors: ConfigError for somebody else's: jars are run from it."""
    folder = Path(tempfile.gettempdir(), f"kconnect-{os.getuid()}", name)
    with suppress(FileExistsError):
        folder.parent.mkdir(mode=0o700)
    found = folder.parent.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise ConfigError(
            f"{folder.parent} is not a folder that the user with the number {os.getuid()} alone writes.",
            hint="Set HOME or KCONNECT_CACHE, or remove it.",
        )
    return folder


def is_open_to_others(path: Path) -> bool:
    """Whether users other than the owner may read the file; False if it does not exist."""
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def refuse_unwritable(path: Path, setting: str, *, is_replaced: bool = False) -> None:
    """Errors: ConfigError for a file that this user cannot write or make.

    `is_replaced`: by a new file, which is made in its folder.
    """
    folder = path.parent
    if not folder.is_dir():
        raise ConfigError(f"The folder {folder} of {setting} does not exist.", hint=f"Create it: mkdir -p {folder}")
    exists = path.exists()
    for place in ([folder] if is_replaced or not exists else []) + ([path] if exists else []):
        if not os.access(place, os.W_OK):
            raise ConfigError(
                f"{place} ({setting}) may not be written by this user.",
                hint=f"Give this user the right to write: chmod u+w {place}, or chown; or name another file.",
            )


def made_temporary(prefix: str, folder: str | None = None) -> Path:
    """A temporary folder of this process alone (mode 0700); those of this prefix go whose process was killed.

    Shape: prefix, process id and letters with `-` between them. `folder`: where, instead of the usual place.
    """
    _sweep(prefix, Path(folder or tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(prefix=f"{prefix}-{os.getpid()}-", dir=folder))


def _sweep(prefix: str, folder: Path) -> None:
    for path in folder.glob(f"{prefix}-*-*"):
        pid = path.name.removeprefix(f"{prefix}-").split("-")[0]
        try:
            if pid.isdigit():
                os.kill(int(pid), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except PermissionError:  # another user's, who runs
            continue

"""Files that no connector reads or writes: those that say who may log in, who may do what, and what was done.

A worker names them once, in its environment, so that the processes which it starts know them too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

_VARIABLE: Final = "KCONNECT_GUARDED_FILES"


def guard(paths: Iterable[str | Path]) -> Callable[[], None]:
    """Guards these files too, here and in processes that are started from now on. Returns what ends that.

    Threads: those of a worker's start and stop.
    """
    before = os.environ.get(_VARIABLE)
    named = [os.path.abspath(path) for path in paths]
    if named:
        os.environ[_VARIABLE] = os.pathsep.join([*_guarded(), *named])

    def end() -> None:
        if before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = before

    return end


def is_guarded(path: str | bytes | Path) -> bool:
    """Whether this is a guarded file, by whatever name, or one that the audit log was rolled to. Looks at the disk."""
    named = _guarded()
    if not named:
        return False
    found = os.path.realpath(os.fsdecode(path))
    return any(_is_same(found, os.path.realpath(one)) for one in named)


def guarded_in(text: str) -> str | None:
    """The guarded file that a setting's value names: alone, as a URL, or somewhere in its text. None if none."""
    named = _guarded()
    if not named or not text:
        return None
    for one in named:
        if one in text or os.path.realpath(one) in text:
            return one
    bare = text.strip().removeprefix("file:")
    path = "/" + bare.lstrip("/") if bare.startswith("//") else bare
    return path if path and "\0" not in path and is_guarded(os.path.expanduser(path)) else None


def forbid_guarded() -> None:
    """Lets no Python code of this process open a guarded file from now on. For processes of tasks alone.

    Costs nothing where no file is guarded: no hook is set then. Errors: PermissionError, of who opens one.
    """
    if not _guarded():
        return

    def look(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(args[0], str | bytes) and is_guarded(args[0]):
            raise PermissionError(
                f"{os.fsdecode(args[0])} is a file of the worker's security, which no connector reads or writes"
            )

    sys.addaudithook(look)


def _guarded() -> list[str]:
    return [path for path in os.environ.get(_VARIABLE, "").split(os.pathsep) if path]


def _is_same(found: str, guarded: str) -> bool:
    if found == guarded or found.startswith(f"{guarded}."):
        return True
    try:
        return os.path.samefile(found, guarded)  # a hard link
    except OSError:
        return False

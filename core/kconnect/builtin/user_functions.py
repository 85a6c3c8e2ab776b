"""Functions of the user's own: found by `module:name`, and where they failed."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from kconnect.api import ConfigError

FUNCTION_CONFIG: Final = "function"
_OURS = Path(__file__).parents[2]
_STANDARD = Path(sysconfig.get_paths()["stdlib"])

_lock = threading.Lock()  # guards _seen: tasks of one process import at the same time
_seen: dict[str, tuple[int, int]] = {}  # of a module: time and size of its file when it was imported


def found_function(name: str) -> Callable[..., Any]:
    """What `module:function` names; its module is imported again if its file has changed.

    Errors: ConfigError, also for a module that raises while it is imported.
    """
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise ConfigError.invalid(FUNCTION_CONFIG, name, "Must be module:function")
    try:
        found: Any = _module(module_name)
    except (Exception, SystemExit) as err:  # a module of the user's
        place = place_of(err)
        said = err.msg if isinstance(err, SyntaxError) else err
        problem = f"Module {module_name} cannot be imported: {type(err).__name__}: {said}{_looked_in(err, module_name)}"
        raise ConfigError.invalid(FUNCTION_CONFIG, name, f"{problem}, at {place}" if place else problem) from err
    for part in path.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise ConfigError.invalid(FUNCTION_CONFIG, name, f"Module {module_name} has no function {path}")
    return found  # type: ignore[no-any-return]  # callable() says nothing of arguments


def _module(name: str) -> ModuleType:
    """The module, imported again if its file has changed: slots outlive many starts of a connector."""
    with _lock:
        if name not in sys.modules:
            importlib.invalidate_caches()
        module = importlib.import_module(name)
        state = _state(module)
        if state is not None and _seen.get(name, state) != state:
            module = importlib.reload(module)
        if state is not None:
            _seen[name] = state
        return module


def _state(module: ModuleType) -> tuple[int, int] | None:
    try:
        found = os.stat(module.__file__ or "")
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def place_of(error: BaseException) -> str | None:
    """The line of the user's own code that an error came from: `poller.py:7: x = 1 / 0`."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{_shown(error.filename)}:{error.lineno}: {(error.text or '').strip()}"
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        if _is_users(file):
            return f"{_shown(file)}:{line}: {linecache.getline(file, line).strip()}"
    return None


def _looked_in(error: BaseException, module_name: str) -> str:
    """Where Python looked for a module, if it is that which it did not find; else empty."""
    top = module_name.partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or error.name not in (top, module_name):
        return ""
    own = set(map(sysconfig.get_path, ("stdlib", "platstdlib")))
    folders = [each or "." for each in dict.fromkeys(sys.path) if os.path.isdir(each or ".")]
    # Spark's folder for files of an application is there in a worker, and empty
    spark = ("lib-dynload", "userFiles-")
    shown = [each for each in folders if each not in own and not os.path.basename(each).startswith(spark)]
    return f"; looked in {', '.join(shown)}. Install it, or name its folder in plugin.path"


def _is_users(file: str) -> bool:
    path = Path(file)
    is_library = {"site-packages", "dist-packages"} & set(path.parts)
    return path.is_file() and not is_library and not path.is_relative_to(_STANDARD) and _OURS not in path.parents


def _shown(file: str) -> str:
    return file.removeprefix(os.getcwd() + os.sep)

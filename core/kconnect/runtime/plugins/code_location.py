"""Locates errors in a plugin's own code: the frame of a trace that its author wants to see.

Used by `connect try`, the registry (modules that cannot be imported), traces for people. Pure: reads traces,
frames and source lines, changes nothing.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType


@dataclass(frozen=True, slots=True)
class CodeLocation:
    """A line of code. `function` is its plain name, such as `poll`."""

    file: str
    line: int
    source: str
    function: str = ""

    def __str__(self) -> str:
        """`src/numbers.py:41: return row["squar"]`, with a path relative to the current folder if it is below that."""
        text = f"{_shown(self.file)}:{self.line}"
        return f"{text}: {self.source}" if self.source else text


@dataclass(frozen=True, slots=True)
class PluginCode:
    """The files of a plugin author: the plugin's package, or the folder of its module, without libraries.

    `root` is None for built-in plugins: users do not need lines of their code, but of functions that these call.
    """

    root: Path | None

    @classmethod
    def of(cls, plugin_class: type) -> PluginCode:
        """The code that a class belongs to."""
        if plugin_class.__module__.partition(".")[0] == __name__.partition(".")[0]:
            return cls(None)
        module = sys.modules.get(plugin_class.__module__)
        file = Path(getattr(module, "__file__", None) or ".").resolve()
        top = sys.modules.get(plugin_class.__module__.partition(".")[0])
        package = getattr(top, "__file__", None)
        if package and Path(package).name == "__init__.py":
            return cls(Path(package).resolve().parent)
        in_library = file.parent.name in ("site-packages", "dist-packages")
        return cls(file if in_library else file.parent)

    def innermost(self, error: BaseException) -> CodeLocation | None:
        """The line of the author's code that raised an error, or called what raised it; None if there is none."""
        frames = _frames_of(error)
        places = (
            self._places(frames) if self.root is not None else [_place(*frame) for frame in frames if _is_users(*frame)]
        )
        return places[-1] if places else None

    def outermost(self, error: BaseException) -> CodeLocation | None:
        """The first line of the author's code on the way to an error: its function is the method that was called."""
        return next(iter(self._places(_frames_of(error))), None)

    def innermost_of_stack(self, frame: FrameType | None) -> CodeLocation | None:
        """The line of the author's code that a thread is executing; None if it is elsewhere."""
        frames = [] if frame is None else [(found.f_code, line) for found, line in traceback.walk_stack(frame)]
        return next(iter(self._places(frames)), None)

    def start_of(self, plugin_class: type, method: str) -> CodeLocation | None:
        """Where a method is defined; None if it is not the author's."""
        code = getattr(getattr(plugin_class, method, None), "__code__", None)
        return next(iter(self._places([(code, code.co_firstlineno)])), None) if isinstance(code, CodeType) else None

    def _places(self, frames: Iterable[tuple[CodeType, int]]) -> list[CodeLocation]:
        return [_place(code, line) for code, line in frames if self._is_own(code.co_filename)]

    def _is_own(self, file: str) -> bool:
        if self.root is None:
            return False
        path = Path(file)
        if path != self.root and self.root not in path.parents:
            return False
        inside = set(path.parts[len(self.root.parts) :])
        return not inside & _LIBRARIES and not path.is_relative_to(_STANDARD_LIBRARY)


_KCONNECT = Path(__file__).parents[2]
_STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
_LIBRARIES = frozenset({"site-packages", "dist-packages"})


def _place(code: CodeType, line: int) -> CodeLocation:
    return CodeLocation(code.co_filename, line, linecache.getline(code.co_filename, line).strip(), code.co_name)


def _is_users(code: CodeType, _line: int) -> bool:
    """Whether it is of no library: a user's function."""
    return _is_outside(code) and not _LIBRARIES & {*Path(code.co_filename).parts}


def _is_outside(code: CodeType) -> bool:
    """Whether it belongs to neither Python nor kconnect."""
    path = Path(code.co_filename)
    return path.is_file() and not path.is_relative_to(_STANDARD_LIBRARY) and _KCONNECT not in path.parents


def syntax_place(error: SyntaxError) -> CodeLocation | None:
    """The line with the syntax error; None if the error does not say."""
    if not error.filename or not error.lineno:
        return None
    return CodeLocation(error.filename, error.lineno, (error.text or "").strip())


def import_problem(error: BaseException) -> str:
    """What a module raised on import, and where: `SyntaxError: '(' was never closed, at a.py:3: f(`."""
    place = syntax_place(error) if isinstance(error, SyntaxError) else _imported_at(error)
    said = error.msg if isinstance(error, SyntaxError) else str(error)
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    return f"{text}, at {place}" if place is not None else text


def _imported_at(error: BaseException) -> CodeLocation | None:
    return next((_place(*frame) for frame in reversed(_frames_of(error)) if _is_outside(frame[0])), None)


def _frames_of(error: BaseException) -> list[tuple[CodeType, int]]:
    return [(frame.f_code, line) for frame, line in traceback.walk_tb(error.__traceback__)]


def _shown(file: str) -> str:
    here = os.getcwd() + os.sep
    return file.removeprefix(here)

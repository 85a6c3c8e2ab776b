"""plugin.path: folders of plugins, each with its own import root.

Each sub-folder of a `plugin.path` element is one plugin. Its folder is appended to `sys.path` (never prepended), so
packages installed alongside kconnect always win; a sub-folder that is itself a package (it has `__init__.py`) and
single `.py` files are imported from the element's folder. As with Java's jars, the modules may lie deeper: where a
sub-folder has none itself, the folders in it are looked at. Python has no class loaders: two plugins cannot bring two
versions of one library. A module name that is already taken is reported (`PluginFolders.conflicts`), never resolved
by chance. Modules are read, not imported, until one of their classes is named: a folder may hold scripts too.
Jars are Java's plugins, which kconnect.java.plugins finds.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import logging
import pkgutil
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, distributions, entry_points
from pathlib import Path
from typing import Final

from kconnect.runtime.plugins.code_location import import_problem
from kconnect.runtime.plugins.source_reading import ClassFacts, SourceReader

log = logging.getLogger(__name__)

PLUGIN_GROUP = "kconnect.plugins"
"""Entry point group in which distributions name their plugin classes."""

# Modules that are never plugins and have side effects on import.
_NOT_PLUGINS = frozenset({"setup", "conftest", "__main__", "tests", "test"})
# Folders in a plugin's folder, such as src/main/python
_DEEPEST: Final = 3
# Times of files go in steps: of 4 ms on ext4, of up to 2 s elsewhere
_CLOCK_STEP_NS: Final = 2_000_000_000
_UNKNOWN_NS: Final = -1


@dataclass(frozen=True, slots=True)
class PluginRoot:
    """One plugin: the folder its modules are imported from, their names, and where the user put it."""

    import_root: Path
    location: Path
    modules: tuple[str, ...]
    entry_points: tuple[EntryPoint, ...] = ()


@dataclass(slots=True)
class PluginFolders:
    """The plugins found in a `plugin.path`. Constructing reads folders only; `open` makes them importable.

    Threads: open it once, before others look up classes.
    """

    roots: tuple[PluginRoot, ...] = ()
    conflicts: list[str] = field(default_factory=list)
    """Sentences about modules that cannot be used because their name is taken."""

    broken: dict[str, str] = field(default_factory=dict)
    """Modules that raise on import, by name, with a sentence."""

    plugin_path: str | None = None
    seen: dict[Path, int] = field(default_factory=dict)
    """When each folder that was looked at was changed last, ns; a folder that comes or goes changes the one above."""

    @classmethod
    def read(cls, plugin_path: str | None, *, tells_skipped: bool = True) -> PluginFolders:
        """Scan the comma-separated elements of a `plugin.path`; log what is skipped if `tells_skipped`."""
        look = _Look(logging.WARNING if tells_skipped else logging.DEBUG)
        roots: list[PluginRoot] = []
        for element in (part.strip() for part in (plugin_path or "").split(",")):
            if element:
                roots.extend(look.roots_in(Path(element).expanduser().absolute()))
        return cls(tuple(roots), plugin_path=plugin_path, seen=look.seen)

    def open(self) -> None:
        """Append the import roots to sys.path and find conflicting module names."""
        for root in self.roots:
            path = str(root.import_root)
            if path not in sys.path:
                sys.path.append(path)
        importlib.invalidate_caches()
        for root in self.roots:
            for name in root.modules:
                origin = _origin(name)
                if origin is not None and root.import_root not in origin.parents:
                    self._note_conflict(root, name, origin)

    def refreshed(self) -> PluginFolders | None:
        """Gives the folders as they are now, opened, if modules have come or gone since these were read."""
        if all(_changed_ns(folder) == changed_ns for folder, changed_ns in self.seen.items()):
            return None
        now = PluginFolders.read(self.plugin_path, tells_skipped=False)
        if [root.modules for root in now.roots] == [root.modules for root in self.roots]:
            self.seen = now.seen
            return None
        now.open()
        return now

    def classes(self) -> Iterator[tuple[ClassFacts, PluginRoot]]:
        """Gives each public, concrete class that the plugins' modules define, by their source: none is imported.

        A module that cannot be read is logged and noted in `broken`.
        """
        reader = SourceReader()
        for root in self.roots:
            for name in root.modules:
                origin = _origin(name)
                if origin is not None and root.import_root in origin.parents:
                    for module in _names_in(name, origin):
                        yield from ((found, root) for found in self._read(reader, module) if not found.is_abstract)

    def load(self, found: ClassFacts) -> type | None:
        """Gives the class itself: its module is imported now. None, logged and noted, if that fails."""
        try:
            loaded = getattr(importlib.import_module(found.module), found.name, None)
        except (Exception, SystemExit) as err:  # a plugin module may raise anything; the others must still be found
            self._note_broken(found.module, err)
            return None
        return loaded if isinstance(loaded, type) else None

    def _read(self, reader: SourceReader, module: str) -> list[ClassFacts]:
        try:
            return reader.classes_in(module)
        except (OSError, SyntaxError, ValueError) as err:  # ValueError: null bytes, an encoding that does not exist
            self._note_broken(module, err)
            return []

    def _note_broken(self, module: str, err: BaseException) -> None:
        problem = import_problem(err)
        self.broken[module] = f"module {module} of plugin.path cannot be imported: {problem}"
        log.warning("plugin.path: module %s cannot be imported, skipped: %s", module, problem)

    def _note_conflict(self, root: PluginRoot, name: str, origin: Path) -> None:
        sentence = f"module {name} of the plugin in {root.location} is hidden by {origin}"
        self.conflicts.append(sentence)
        log.warning("plugin.path: %s; rename one of them, or install the plugin with pip.", sentence)


class _Look:
    """One scan of a plugin.path; `level` is that of lines about what is skipped."""

    def __init__(self, level: int) -> None:
        self._level = level
        self.seen: dict[Path, int] = {}

    def roots_in(self, element: Path) -> list[PluginRoot]:
        """The plugins of an element of plugin.path: its sub-folders, and what lies in it itself."""
        if not element.is_dir():
            self.seen[element] = _changed_ns(element)
            if element.suffix not in (".jar", ".zip"):  # Java's are found by kconnect.java.plugins
                log.log(self._level, "plugin.path: %s is not a folder; skipped.", element)
            return []
        children = self._children(element)
        roots = [
            root for child in children if child.is_dir() and not _is_apart(child) for root in self._of(child, child)
        ]
        loose = tuple(child.stem for child in children if child.is_file() and _is_module(child))
        if loose:
            roots.append(PluginRoot(element, element, loose))
        return roots

    def _of(self, folder: Path, location: Path, depth: int = 0) -> Iterator[PluginRoot]:
        """The plugin in a sub-folder, `location`, as far as it lies in `folder`; none if there is no Python."""
        if (folder / "__init__.py").is_file():
            yield PluginRoot(folder.parent, location, (folder.name,))
            return
        children = self._children(folder)
        installed = list(distributions(path=[str(folder)]))
        claimed = {name for distribution in installed for name in _top_level(distribution)}
        points = tuple(
            point for distribution in installed for point in distribution.entry_points if point.group == PLUGIN_GROUP
        )
        own = [child for child in children if child.name not in claimed]
        modules = tuple(child.stem for child in own if _is_module(child))
        if modules or points:
            yield PluginRoot(folder, location, modules, points)
        elif depth < _DEEPEST:
            for child in own:
                if (
                    child.is_dir()
                    and not child.is_symlink()
                    and not _is_apart(child)
                    and child.name not in _NOT_PLUGINS
                ):
                    yield from self._of(child, location, depth + 1)

    def _children(self, folder: Path) -> list[Path]:
        """What lies in a folder; nothing, and a line in the log, for one that cannot be read."""
        self.seen[folder] = _changed_ns(folder)
        if time.time_ns() - self.seen[folder] < _CLOCK_STEP_NS:  # what comes within the same step would not show
            self.seen[folder] = _UNKNOWN_NS
        try:
            return sorted(folder.iterdir())
        except OSError as err:
            log.log(self._level, "plugin.path: %s cannot be read, skipped: %s", folder, err)
            return []


def installed_points() -> tuple[EntryPoint, ...]:
    """The plugins that installed packages name; read again once a folder of sys.path has changed.

    Measured among 154 packages: 7 ms to read, 0.1 ms to see that none has changed. A test of a connector has a
    registry for each task that it starts.
    """
    return _points_of(tuple((place, _changed_ns(Path(place))) for place in sys.path))


@functools.lru_cache(maxsize=1)
def _points_of(_places: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=PLUGIN_GROUP))


def _changed_ns(folder: Path) -> int:
    """When an entry of it came or went last; 0 for a folder that is not there."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _is_apart(folder: Path) -> bool:
    """Whether a folder is none of plugins: hidden, or an environment of Python's."""
    return folder.name.startswith((".", "__pycache__")) or (folder / "pyvenv.cfg").is_file()


def _top_level(distribution: Distribution) -> Iterator[str]:
    """First path parts of what `pip install --target` put there: dependencies, not to be searched for plugins."""
    return (file.parts[0] for file in distribution.files or ())


def _is_module(path: Path) -> bool:
    name = path.stem if path.is_file() else path.name
    if name in _NOT_PLUGINS or not name.isidentifier() or name.startswith("test_"):
        return False
    return path.suffix == ".py" if path.is_file() else (path / "__init__.py").is_file()


def _names_in(name: str, origin: Path) -> Iterator[str]:
    """A module and, for a package, all modules in it."""
    yield name
    if origin.name == "__init__.py":
        for info in pkgutil.iter_modules([str(origin.parent)]):
            if info.name not in _NOT_PLUGINS:
                below = origin.parent / info.name / "__init__.py"
                yield from _names_in(f"{name}.{info.name}", below if info.ispkg else origin.parent / f"{info.name}.py")


def _origin(name: str) -> Path | None:
    """The file a top-level module would be imported from."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None) or importlib.util.find_spec(name)
    if spec is None:
        return None
    return Path(spec.origin) if spec.origin else Path(*(spec.submodule_search_locations or [""])[:1])

"""plugin.path: folders of plugins, each with its own import root.

Each sub-folder of a `plugin.path` element is one plugin. Its folder is appended to `sys.path` (never prepended), so
packages installed alongside kconnect always win; a sub-folder that is itself a package (it has `__init__.py`) and
single `.py` files are imported from the element's folder. Python has no class loaders: two plugins cannot bring two
versions of one library. A module name that is already taken is reported (`PluginFolders.conflicts`), never resolved
by chance. Modules are read, not imported, until one of their classes is named: a folder may hold scripts too.
Jars are Java's plugins, which kconnect.java.plugins finds.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path

from kconnect.runtime.plugins.code_location import import_problem
from kconnect.runtime.plugins.source_reading import ClassFacts, SourceReader

log = logging.getLogger(__name__)

PLUGIN_GROUP = "kconnect.plugins"
"""Entry point group in which distributions name their plugin classes."""

# Modules that are never plugins and have side effects on import.
_NOT_PLUGINS = frozenset({"setup", "conftest", "__main__", "tests", "test"})


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

    @classmethod
    def read(cls, plugin_path: str | None, *, tells_skipped: bool = True) -> PluginFolders:
        """Scan the comma-separated elements of a `plugin.path`; log what is skipped if `tells_skipped`."""
        roots: list[PluginRoot] = []
        for element in (part.strip() for part in (plugin_path or "").split(",")):
            if element:
                roots.extend(_roots_in(Path(element).expanduser().absolute(), tells_skipped))
        return cls(tuple(roots), plugin_path=plugin_path)

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
        now = PluginFolders.read(self.plugin_path, tells_skipped=False)
        if [root.modules for root in now.roots] == [root.modules for root in self.roots]:
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


def _roots_in(element: Path, tells_skipped: bool) -> list[PluginRoot]:
    warning = logging.WARNING if tells_skipped else logging.DEBUG
    if not element.is_dir():
        if element.suffix not in (".jar", ".zip"):  # Java's are found by kconnect.java.plugins
            log.log(warning, "plugin.path: %s is not a folder; skipped.", element)
        return []
    try:
        children = sorted(child for child in element.iterdir() if not child.name.startswith((".", "__pycache__")))
        roots = [root for child in children if child.is_dir() and (root := _root_of(child)) is not None]
    except OSError as err:
        log.log(warning, "plugin.path: %s cannot be read, skipped: %s", element, err)
        return []
    loose = tuple(child.stem for child in children if child.is_file() and _is_module(child))
    if loose:
        roots.append(PluginRoot(element, element, loose))
    return roots


def _root_of(folder: Path) -> PluginRoot | None:
    """The plugin in a sub-folder, or None if it contains no Python."""
    if (folder / "__init__.py").is_file():
        return PluginRoot(folder.parent, folder, (folder.name,))
    installed = list(distributions(path=[str(folder)]))
    claimed = {name for distribution in installed for name in _top_level(distribution)}
    points = tuple(
        point for distribution in installed for point in distribution.entry_points if point.group == PLUGIN_GROUP
    )
    modules = sorted(child.stem for child in folder.iterdir() if _is_module(child) and child.name not in claimed)
    return PluginRoot(folder, folder, tuple(modules), points) if modules or points else None


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

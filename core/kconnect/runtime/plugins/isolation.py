"""plugin.path: folders of plugins, each with its own import root.

Each sub-folder of a `plugin.path` element is one plugin. Its folder is appended to `sys.path` (never prepended), so
packages installed alongside kconnect always win; a sub-folder that is itself a package (it has `__init__.py`) and
single `.py` files are imported from the element's folder. Python has no class loaders: two plugins cannot bring two
versions of one library. A module name that is already taken is reported (`PluginFolders.conflicts`), never resolved
by chance. Jars are Java's plugins, which kconnect.java.plugins finds.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path
from types import ModuleType

from kconnect.runtime.plugins.code_location import import_problem

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

    @classmethod
    def read(cls, plugin_path: str | None, *, tells_skipped: bool = True) -> PluginFolders:
        """Scan the comma-separated elements of a `plugin.path`; log what is skipped if `tells_skipped`."""
        roots: list[PluginRoot] = []
        for element in (part.strip() for part in (plugin_path or "").split(",")):
            if element:
                roots.extend(_roots_in(Path(element).expanduser().absolute(), tells_skipped))
        return cls(tuple(roots))

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

    def classes(self) -> Iterator[tuple[type, PluginRoot]]:
        """Every public, concrete class defined in the plugins' modules. Imports them; a module that fails is logged."""
        for root in self.roots:
            for name in root.modules:
                origin = _origin(name)
                if origin is not None and root.import_root in origin.parents:
                    for module in self._modules(name):
                        yield from ((found, root) for found in _classes_of(module))

    def _modules(self, name: str) -> Iterator[ModuleType]:
        """A module and, for a package, all modules in it."""
        module = self._imported(name)
        if module is None:
            return
        yield module
        for info in pkgutil.iter_modules(getattr(module, "__path__", ()), f"{name}."):
            if info.name.rsplit(".", 1)[-1] not in _NOT_PLUGINS:
                yield from self._modules(info.name)

    def _imported(self, name: str) -> ModuleType | None:
        try:
            return importlib.import_module(name)
        except (Exception, SystemExit) as err:  # a plugin module may raise anything; the others must still be found
            self.broken[name] = f"module {name} of plugin.path cannot be imported: {import_problem(err)}"
            log.warning("plugin.path: module %s cannot be imported, skipped: %s", name, import_problem(err))
            return None

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


def _origin(name: str) -> Path | None:
    """The file a top-level module would be imported from."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None) or importlib.util.find_spec(name)
    if spec is None:
        return None
    return Path(spec.origin) if spec.origin else Path(*(spec.submodule_search_locations or [""])[:1])


def _classes_of(module: ModuleType) -> Iterator[type]:
    for found in vars(module).values():
        if (
            inspect.isclass(found)
            and found.__module__ == module.__name__
            and not found.__name__.startswith("_")
            and not inspect.isabstract(found)
        ):
            yield found

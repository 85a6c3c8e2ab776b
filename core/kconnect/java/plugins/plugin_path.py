"""The plugins of folders as connect-plugin-path.sh lists them: with and without manifest, loadable or not.

Source: o.a.k.tools.ConnectPluginPath, PluginUtils (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kconnect.errors import NotFoundError
from kconnect.java.compat.properties import parse_properties
from kconnect.java.plugins.catalogue import JavaPlugins
from kconnect.java.plugins.folders import JavaFolder, folder_at
from kconnect.java.plugins.host import JavaSettings
from kconnect.java.plugins.index import JavaIndex, in_order
from kconnect.java.plugins.versions import UNDEFINED

COLUMNS: Final = (
    "pluginName",
    "firstAlias",
    "secondAlias",
    "pluginVersion",
    "pluginType",
    "isLoadable",
    "hasManifest",
    "pluginLocation",
)
NO_ALIAS: Final = "N/A"
# The word for its kind that an alias omits. Source: PluginType.simpleName
_WORDS: Final = {
    "source": "Connector",
    "sink": "Connector",
    "converter": "Converter",
    "header_converter": "HeaderConverter",
    "transformation": "Transformation",
    "predicate": "Predicate",
    "configprovider": "ConfigProvider",
    "rest_extension": "ConnectRestExtension",
    "connector_client_config_override_policy": "ConnectorClientConfigOverridePolicy",
}


@dataclass(frozen=True, slots=True, order=True)
class PathRow:
    """One plugin in one place."""

    location: Path
    class_name: str
    kind: str
    version: str
    is_loadable: bool
    has_manifest: bool

    def cells(self) -> tuple[str, ...]:
        """Gives the cells as COLUMNS names them."""
        first, second = _aliases(self.class_name, self.kind) if self.is_loadable else (NO_ALIAS, NO_ALIAS)
        reported = (str(self.is_loadable).lower(), str(self.has_manifest).lower(), str(self.location))
        return (self.class_name, first, second, self.version, self.kind, *reported)


def locations_of(worker_configs: Iterable[Path], plugin_paths: Iterable[str], places: Iterable[Path]) -> list[Path]:
    """The plugin locations of worker files, of plugin.paths, and single ones, in this order, each once.

    Errors: NotFoundError for what does not exist.
    """
    paths = list(plugin_paths)
    for file in worker_configs:
        try:
            text = file.read_text("latin-1")
        except OSError as err:
            raise NotFoundError(f"Unable to read worker config at {file}") from err
        paths += [given for key, given in parse_properties(text, str(file)).items() if key == "plugin.path"]
    found: dict[Path, None] = {}
    for element in (Path(part.strip()).expanduser().absolute() for path in paths for part in path.split(",")):
        if not element.exists():
            raise NotFoundError(f"The folder {element} of a plugin path does not exist.")
        inner = sorted(element.iterdir()) if element.is_dir() else [element]
        found.update(dict.fromkeys(child for child in inner if child.is_dir() or folder_at(child) is not None))
    for place in places:
        if not place.exists():
            raise NotFoundError(f"Specified location {place} does not exist")
        found[place] = None
    return list(found)


def rows_of(locations: Iterable[Path], java: JavaSettings) -> list[PathRow]:
    """Every plugin of these places: those that Java can load, and those that a manifest names all the same.

    Errors: EnvironmentProblemError without Java, which alone can tell.
    """
    folders = tuple(folder for folder in (folder_at(place) for place in locations) if folder is not None)
    index = JavaIndex(folders)
    with closing(JavaPlugins(index, java)) as plugins:
        every = list(dict.fromkeys([*in_order(index.plugins()), *in_order(index.named())]))  # also what a class is not
        loaded = plugins.versions.of_all(((name, place) for name, _, place in every), strict=True)
    named = index.named()
    rows = []
    for name, kind, place in every:
        found = loaded[name, place]
        is_loadable = found.problem is None and kind in found.kinds
        has_manifest = place in named.get(name, {}).get(kind, ())
        if is_loadable or has_manifest:
            version = found.version if is_loadable else UNDEFINED
            rows.append(PathRow(place, name, kind, version, is_loadable, has_manifest))
    order = {folder.location: number for number, folder in enumerate(folders)}
    return sorted(rows, key=lambda row: (order[row.location], row))


def summary(rows: Iterable[PathRow]) -> Iterator[str]:
    """The lines below the table."""
    every = list(rows)
    yield f"Total plugins:      \t{len(every)}"
    yield f"Loadable plugins:   \t{sum(row.is_loadable for row in every)}"
    yield f"Compatible plugins: \t{sum(row.is_loadable and row.has_manifest for row in every)}"


def folder_of(location: Path) -> JavaFolder:
    """The folder of a row."""
    found = folder_at(location)
    assert found is not None, "rows are of folders"
    return found


def _aliases(class_name: str, kind: str) -> tuple[str, str]:
    """Source: PluginUtils.simpleName, prunedName."""
    simple = class_name.rpartition(".")[2].rpartition("$")[2]
    cut = simple.rfind(_WORDS[kind])
    return simple, simple[:cut] if cut > 0 else NO_ALIAS

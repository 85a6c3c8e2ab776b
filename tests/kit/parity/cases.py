"""The cases of `make java-parity` by name: each starts the two workers with its plugins and gives rows of the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from kconnect.files.folders import cache_folder
from kconnect.java.plugins.install import install
from kit.parity.sides import pair, plugin_folder
from kit.parity.table import Row
from kit.parity.transforms import CAMEL, COMMON, compare_transforms

__all__ = ["CASES", "Case", "installed"]

Case: TypeAlias = Callable[[Path, str], list[Row]]
"""Takes a folder of its own and the broker."""

_COMMON: Final = "com.github.jcustenborder.kafka.connect:kafka-connect-transform-common:0.1.0.14"
_CAMEL: Final = "org.apache.camel.kafkaconnector:camel-kafka-connector:0.11.0"


def installed(*coordinates: str) -> Path:
    """A plugin.path in the cache with the first of these as a plugin, and the others in it."""
    first, *more = coordinates
    name = "+".join(coordinate.split(":")[1] + "-" + coordinate.split(":")[2] for coordinate in coordinates)
    path = cache_folder() / "parity-plugins" / name
    folder = install(first, path).folder
    for coordinate in more:
        if not any(folder.glob("-".join(coordinate.split(":")[1:3]) + "*.jar")):
            install(coordinate, path, into=folder.name)
    return path


def transforms(folder: Path, bootstrap: str) -> list[Row]:
    """Transformations that need no server."""
    rows = [
        Row(
            "jcustenborder's transformations",
            f"`{_COMMON}`",
            f"{len(COMMON)} chains on records with and without schema",
        ),
        Row("Camel's transformations", f"`{_CAMEL}`", f"{len(CAMEL)} chains, one for a class that does not exist"),
    ]
    plugins = [plugin_folder(folder / "plugins"), installed(_COMMON), installed(_CAMEL)]
    with pair(folder, bootstrap, plugins) as both:
        compare_transforms(both, rows[0], "common", COMMON)
        compare_transforms(both, rows[1], "camel", CAMEL)
    return rows


CASES: Final[Mapping[str, Case]] = {"transforms": transforms}

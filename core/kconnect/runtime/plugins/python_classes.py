"""Loads classes of plugins: by a dotted path, from an entry point, of ours; and knows what a wrong name may have meant.

Errors: ConfigError says what to do.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint
from typing import Any, Final

from kconnect.errors import ConfigError
from kconnect.runtime.config.former_names import present_name
from kconnect.runtime.plugins.aliases import BuiltinPlugin, PluginType, short_names
from kconnect.runtime.plugins.code_location import import_problem
from kconnect.runtime.plugins.isolation import PLUGIN_GROUP
from kconnect.runtime.plugins.plugin_info import PluginInfo


def python_class(name: str) -> Iterator[type]:
    """The class at a dotted path; None if the module or class does not exist.

    Errors: ConfigError if the module exists but raises on import.
    """
    module_name, _, class_name = name.partition(":") if ":" in name else name.rpartition(".")
    module_name = present_name(module_name)
    parts = [*module_name.split("."), *class_name.split(".")]
    if not module_name or not all(part.isidentifier() for part in parts):
        return
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as err:
        if err.name is not None and (module_name == err.name or module_name.startswith(f"{err.name}.")):
            return
        raise _broken(name, err) from err
    except Exception as err:  # a plugin's module may raise anything
        raise _broken(name, err) from err
    found: Any = module
    for part in class_name.split("."):
        found = getattr(found, part, None)
    if isinstance(found, type):
        yield found


def load_builtin(plugin: BuiltinPlugin) -> type:
    module, _, name = plugin.target.partition(":")
    found: type = getattr(importlib.import_module(module), name)
    return found


def load_point(point: EntryPoint) -> type:
    try:
        found = point.load()
    except Exception as err:  # a plugin's module may raise anything
        raise _broken(point.value, err) from err
    if not isinstance(found, type):
        raise ConfigError(f"Entry point {point.name} = {point.value} of group {PLUGIN_GROUP} names no class.")
    return found


def _broken(name: str, err: Exception) -> ConfigError:
    return ConfigError(f"Plugin {name} cannot be imported: {import_problem(err)}.", hint=_import_hint(err))


def _import_hint(err: Exception) -> str:
    if isinstance(err, SyntaxError):
        return "Correct that line: Python cannot read the module."
    if isinstance(err, ModuleNotFoundError):
        return f"Install {err.name or 'what it needs'} into this environment."
    return "The module raises this when it is imported."


# Suffixes of the names of each kind
_KIND_WORDS: Final = ("Connector", "Converter")


def nearest(name: str, infos: Iterable[PluginInfo]) -> list[str]:
    """The plugins with the simple name closest to that of `name`: several if it omits $Key or $Value.

    $Key and $Value are ignored: too many names share them. A plugin of another package is none that was meant: Kafka's
    Filter drops every record, Confluent's those that a condition matches.
    """
    package, _, simple = name.strip().rpartition(".")
    outer, _, inner = simple.partition("$")
    found: dict[str, list[str]] = {}
    for info in infos:
        if package and not _is_package_near(package, info.class_name.rpartition(".")[0]):
            continue
        for short in short_names(info.class_name, PluginType(info.type)):
            found.setdefault(short.partition("$")[0], []).append(short)
    # Typos are above 0.85; MirrorSourceConnector, a different one, is 0.74 of FileStreamSourceConnector
    close = [near for near in difflib.get_close_matches(outer, found, n=3, cutoff=0.8) if _is_stem_near(outer, near)]
    likely = list(dict.fromkeys(found[close[0]])) if close else []
    return [short for short in likely if inner and short.endswith(f"${inner}")] or likely


def _is_package_near(name: str, other: str) -> bool:
    """Whether one is a typo of the other: io.aiven.kafka.connect.transforms is 0.85 of Kafka's."""
    return difflib.SequenceMatcher(None, name, other).ratio() >= 0.9


def _is_stem_near(name: str, near: str) -> bool:
    """Whether two names stay similar without the suffix for their kind: "Converter" is no typo of LongConverter."""
    for kind in _KIND_WORDS:
        if name.endswith(kind) and near.endswith(kind):
            stems = name.removesuffix(kind), near.removesuffix(kind)
            # Flaot and Float are 0.8; JsonSchema, which is another converter, is 0.57 of Json
            return difflib.SequenceMatcher(None, *stems).ratio() >= 0.7
    return True

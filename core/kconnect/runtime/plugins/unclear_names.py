"""The errors of a name that means no plugin, or several: Java's sentences, with what to write instead."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

from kconnect.api import Connector, Converter, HeaderConverter, Predicate, Transformation
from kconnect.errors import ConfigError, ConfigProblem
from kconnect.runtime.plugins.aliases import NOT_THERE, PluginType, short_names
from kconnect.runtime.plugins.plugin_info import BASES, PluginInfo, python_name
from kconnect.runtime.plugins.python_classes import nearest

# The name of the list in Java's messages: "available connectors are: ..".
_PLURALS: dict[type, str] = {
    Connector: "connectors",
    Converter: "converters",
    HeaderConverter: "header converters",
    Predicate: "predicates",
    Transformation: "transformations",
}


_MOST_KEPT: Final = 1_000  # a client of REST may send any number of such names


class UnknownPlugins:
    """Errors of names that mean no plugin, kept until `clear`. Threads: any.

    A list of statuses asks for the class of each connector again, and the first answer may take 2 ms.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, type, tuple[type, ...], tuple[str, ...]], ConfigError] = {}

    def clear(self) -> None:
        """The plugins have changed."""
        self._kept.clear()

    def error(
        self, name: str, base: type, others: Sequence[type], listed: Iterable[PluginInfo], notes: Sequence[str]
    ) -> ConfigError:
        """A new one each time, as whoever raises it gives it a trace. Arguments: as of `unknown_plugin`."""
        key = (name, base, tuple(others), tuple(notes))
        known = self._kept.get(key)
        if known is None:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            known = self._kept[key] = unknown_plugin(name, base, others, listed, notes)
        return ConfigError(str(known), known.problems, hint=known.hint)


def unknown_plugin(
    name: str, base: type, others: Sequence[type], listed: Iterable[PluginInfo], notes: Sequence[str]
) -> ConfigError:
    """Java's sentence, with a hint: what is close, what there is, or what the name is instead.

    `others`: classes of the name that are of no such kind. `notes`: why modules of plugin.path were not loaded.
    """
    available = sorted(
        (info for info in listed if issubclass(BASES[PluginType(info.type)], base)),
        key=lambda info: info.class_name,
    )
    shown = ", ".join(str(info) for info in available)
    lead = f"Failed to find any class that implements {base.__name__} and which name matches {name}"
    message = f"{lead}, available {_PLURALS[base]} are: {shown}"
    # The list is long and has Java's text: REST shows it, a terminal only the problem and the hint
    problem = ConfigProblem("", name, lead)
    return ConfigError(message, [problem], hint=_hint(name, base, others, available, notes))


def _hint(name: str, base: type, others: Sequence[type], available: Sequence[PluginInfo], notes: Sequence[str]) -> str:
    if others:
        return f"{name} is a class ({python_name(others[0])}), but not a {base.__name__}."
    if name in NOT_THERE:
        return NOT_THERE[name]
    close = nearest(name, available)
    if close:
        return " ".join([f"Did you mean {' or '.join(close)}?", *notes])
    shorts = dict.fromkeys(short_names(info.class_name, PluginType(info.type))[-1] for info in available)
    hint = (
        f"Available {_PLURALS[base]}: {', '.join(shorts)}. To name a Python class, write package.module.Class and "
        "add its folder to plugin.path."
    )
    return " ".join([hint, *notes])


def several_plugins(name: str, base: type, found: Sequence[tuple[str, type[Any]]]) -> ConfigError:
    """Java's sentence; the hint says where each class lies. `found`: by their names in REST."""
    names = [named for named, _ in found]
    places = [f"{named} in {_place(match)}" for named, match in found]
    return ConfigError(
        f"More than one {base.__name__.lower()} matches alias {name}. Please use full package and class name "
        f"instead. Classes found: {', '.join(names)}",
        hint=f"They are {' and '.join(places)}.",
    )


def _place(found: type[Any]) -> str:
    """The folder of Java's class, the file of Python's."""
    module = sys.modules.get(found.__module__)
    return getattr(found, "folder", None) or getattr(module, "__file__", None) or "classpath"

"""Loads classes of plugins: by a dotted path, from an entry point, of ours. Errors: ConfigError says what to do."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any

from kconnect.errors import ConfigError
from kconnect.runtime.config.former_names import present_name
from kconnect.runtime.plugins.aliases import BuiltinPlugin
from kconnect.runtime.plugins.code_location import import_problem
from kconnect.runtime.plugins.isolation import PLUGIN_GROUP


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

"""What a connector answers, looked at: its tables, its task class, the configs of its tasks.

A worker, the author's harness and Spark's format ask the same questions; what is no answer is named with its method.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import Connector, Task
from kconnect.errors import BadRequestError, ConnectError

if TYPE_CHECKING:
    from kconnect.api import ConfigDef
    from kconnect.api.config_key import Config

_A_LIST: Final = "Make it return a list of dict[str, str], one for each task."


def checked_definition(connector: Connector, given: Any) -> ConfigDef:
    """What `config()` gave. Errors: BadRequestError, in Java's words for None."""
    from kconnect.api import ConfigDef  # here: a start without connectors needs no tables

    if not isinstance(given, ConfigDef):
        raise _not_a("ConfigDef", connector, "config", given)
    return given


def checked_config(connector: Connector, given: Any) -> Config:
    """What `validate()` gave. Errors: as checked_definition."""
    from kconnect.api.config_key import Config

    if not isinstance(given, Config):
        raise _not_a("Config", connector, "validate", given)
    return given


def _not_a(kind: str, connector: Connector, method: str, given: object) -> BadRequestError:
    wanted = f"{type(connector).__qualname__}.{method}() must return a {kind}"
    return BadRequestError(f"{wanted} that is not null." if given is None else f"{wanted}, and gave {_named(given)}.")


def checked_task_class(connector: Connector, given: Any) -> type[Task]:
    """What `task_class()` gave. Errors: ConnectError for what is no class of a task."""
    if not isinstance(given, type) or not issubclass(given, Task):
        raise ConnectError(
            f"task_class() of {type(connector).__name__} gave {_named(given)}, not a class of tasks",
            hint="Make it return the class itself, which is a SourceTask or a SinkTask: `return MyTask`.",
        )
    return given


def checked_task_configs(connector: Connector, given: Any) -> list[Mapping[str, Any]]:
    """What `task_configs()` gave. Errors: ConnectError for what is no list of dicts; values are not looked at."""
    name = type(connector).__name__
    if not isinstance(given, list | tuple):
        raise ConnectError(f"task_configs() of {name} gave {_named(given)}, not a list", hint=_A_LIST)
    for index, config in enumerate(given):
        if not isinstance(config, Mapping):
            raise ConnectError(f"task_configs() of {name} gave task {index} {_named(config)}, not a dict", hint=_A_LIST)
    return list(given)


def _named(given: object) -> str:
    """What a value is, without its text: it may be a config with its secrets."""
    if given is None:
        return "None"
    return f"the class {given.__name__}" if isinstance(given, type) else f"a {type(given).__name__}"

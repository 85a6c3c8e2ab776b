"""Task configs of the verifiable connectors: as many as requested, each with a number."""

from __future__ import annotations

from collections.abc import Mapping

from kconnect.api import ConnectError

_ID_CONFIG = "id"


def numbered_configs(props: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
    """The connector's config for each task, with its number."""
    return [{**props, _ID_CONFIG: str(number)} for number in range(max_tasks)]


def task_number(props: Mapping[str, str], task: str) -> int:
    """The number in a task's config. Errors: ConnectError with the name of the `task` class."""
    try:
        return int(props[_ID_CONFIG])
    except (KeyError, ValueError) as err:
        raise ConnectError(f"Invalid {task} configuration: id must be the task's number") from err

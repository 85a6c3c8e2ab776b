"""What marks a task config as one of a query, so that the launcher knows without loading the connector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MARK: Final = "kconnect.query"


def query_task(props: Mapping[str, str]) -> dict[str, str]:
    """The config of a query's one task."""
    return {**props, MARK: "true"}


def is_query(task_config: Mapping[str, str]) -> bool:
    """Whether the task runs in the driver."""
    return task_config.get(MARK) == "true"

"""What marks a task config as one of a query, so that the launcher knows without loading the connector."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

log = logging.getLogger(__name__)

MARK: Final = "kconnect.query"


def query_task(props: Mapping[str, str], max_tasks: int) -> dict[str, str]:
    """The config of a query's one task; says so if more are allowed."""
    if max_tasks > 1:
        log.info("A query is one task, whatever tasks.max=%d says: Spark divides its work", max_tasks)
    return {**props, MARK: "true"}


def is_query(task_config: Mapping[str, str]) -> bool:
    """Whether the task runs in the driver."""
    return task_config.get(MARK) == "true"

"""How tasks fare, asked of the workers that run them: over REST, for the doctor, who else reads topics alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from kconnect.client import ClientAccess, ConnectClient
from kconnect.direct.group.live_group import LiveWorker
from kconnect.errors import ConnectError, NotFoundError
from kconnect.model import TaskCondition, TaskId

__all__ = ["ask_conditions"]

# A worker that is busy or gone must not hold up who asks about topics
_ANSWER_S: Final = 2.0
_AT_ONCE: Final = 8

Found = Mapping[TaskId, tuple[str, TaskCondition]]


def ask_conditions(
    workers: Iterable[LiveWorker], access: ClientAccess | None = None
) -> tuple[Found, list[tuple[str, str]]]:
    """Each task's worker and condition; and what could not be asked, with the reason. Java's workers have none.

    `access`: who we are to the workers.
    """
    asked = [worker for worker in workers if worker.url]
    found: dict[TaskId, tuple[str, TaskCondition]] = {}
    not_checked: list[tuple[str, str]] = []
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="conditions") as pool:
        for worker, answer in zip(asked, pool.map(partial(_ask, access), asked), strict=True):
            if isinstance(answer, ConnectError):
                not_checked.append((f"how the tasks on {worker.url} fare", str(answer)))
            else:
                found |= {task_id: (worker.url, condition) for task_id, condition in answer}
    return found, not_checked


def _ask(access: ClientAccess | None, worker: LiveWorker) -> list[tuple[TaskId, TaskCondition]] | ConnectError:
    try:
        with ConnectClient(worker.url, timeout_s=_ANSWER_S, connect_timeout_s=_ANSWER_S, access=access) as client:
            return list(client.conditions().items())
    except NotFoundError:  # Java's
        return []
    except ConnectError as error:
        return error

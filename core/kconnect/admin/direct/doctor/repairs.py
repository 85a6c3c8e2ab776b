"""The doctor's repairs without a shell: what a finding's command would do, as a plan of edits or a restart.

A finding's `repair` is the words of a command. They are matched here, word by word; what is not known is left to the
reader of the command.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.client import DirectClient
from kconnect.admin.direct.edit.connector_plans import restore_plan
from kconnect.admin.direct.edit.plan import EditPlan
from kconnect.admin.direct.edit.record_plans import delete_plan, put_plan
from kconnect.admin.direct.read.reader import Bounds, Latest
from kconnect.model import TaskId

_FORCE = "--force"


@dataclass(frozen=True, slots=True)
class Edits:
    """Records to write. `is_forced`: also where a live worker owns them, as the doctor's command has it."""

    plan: EditPlan
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """A request to a worker: restart a connector, with all of its tasks or without, or one task."""

    connector: str
    task: TaskId | None = None
    with_tasks: bool = False


Repair: TypeAlias = Edits | Restart


def repair_of(words: Sequence[str], client: DirectClient) -> Repair | None:
    """What a command would do, read from the topics as they are now; None for one that only a person can carry out.

    Errors: ConnectError when the records it names are not there any more.
    """
    options = words[: words.index("--")] if "--" in words else words
    is_forced, known = _FORCE in options, [word for word in options if word != _FORCE]
    match [*known, *words[len(options) + 1 :]]:
        case ["connect", "topics", "config", "restore", name, "--at", offset] if offset.isdecimal():
            then = client.reader.configs(Bounds(at={0: int(offset)}))
            return Edits(restore_plan(client.configs, then, name), is_forced)
        case ["connect", "topics", word, "delete", *keys] if keys and (which := _topic(word)) is not None:
            latest = _latest(client, which, any_kind=is_forced)
            return Edits(delete_plan(which, latest, keys, is_forced=is_forced), is_forced)
        case ["connect", "topics", word, "put", key, value] if (which := _topic(word)) is not None:
            latest = _latest(client, which, any_kind=is_forced)
            return Edits(put_plan(which, latest, key, value.encode(), is_forced=is_forced), is_forced)
        case ["connect", "connectors", "delete", name, "--direct"]:
            return Edits(client.plan("delete", name))
        case ["connect", "connectors", "restart", name]:
            return Restart(name)
        case ["connect", "connectors", "restart", name, "--tasks"]:
            return Restart(name, with_tasks=True)
        case ["connect", "tasks", "restart", name, task] if task.isdecimal():
            return Restart(name, TaskId(name, int(task)))
    return None


def _topic(word: str) -> InternalTopic | None:
    return {"config": InternalTopic.CONFIG, "status": InternalTopic.STATUS, "offsets": InternalTopic.OFFSET}.get(word)


def _latest(client: DirectClient, which: InternalTopic, *, any_kind: bool) -> Latest:
    match which:
        case InternalTopic.CONFIG:
            return client.reader.configs(any_kind=any_kind).latest
        case InternalTopic.STATUS:
            return client.reader.statuses(any_kind=any_kind).latest
    return client.reader.offsets(any_kind=any_kind).latest

"""OffsetUpdates: what a task's update_offsets() makes of the offsets that are about to be committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kconnect.api import SourceTask
from kconnect.errors import DataError
from kconnect.model import ConnectorOffset
from kconnect.runtime.pipeline.inflight import PartitionKey, SourcePosition, partition_key
from kconnect.runtime.pipeline.ports import TaskControl
from kconnect.runtime.storage.offset_topic import encode_key, encode_value

log = logging.getLogger(__name__)


class OffsetUpdates:
    """Asks a task that overrides update_offsets(). Threads: the task's, between two polls.

    Source: KIP-910. Differs: an error is logged and the offsets are committed as they were.
    """

    def __init__(self, control: TaskControl, task: SourceTask) -> None:
        self._control = control
        self._task = task

    @classmethod
    def of_task(cls, control: TaskControl, task: SourceTask) -> OffsetUpdates | None:
        """Returns None for a task that does not override the hook: nothing is asked, nothing costs more."""
        return cls(control, task) if updates_offsets(type(task)) else None

    def of(self, given: Sequence[ConnectorOffset], busy: Collection[PartitionKey] = ()) -> list[ConnectorOffset]:
        """The offsets to commit instead of `given`; see `updated_offsets`. Errors: none, they are logged."""
        name = type(self._task).__name__
        self._control.health.call = (f"{name}.update_offsets()", time.monotonic())
        try:
            return updated_offsets(self._control.spec.id.connector, self._task.update_offsets, given, busy)
        except Exception:  # the plugin's
            with self._control.in_stage("update_offsets"):
                log.exception("%s.update_offsets() failed; the offsets are committed without it", name)
            return list(given)
        finally:
            self._control.health.call = None


def updates_offsets(task_class: type[SourceTask]) -> bool:
    """Whether the class overrides update_offsets()."""
    return task_class.update_offsets is not SourceTask.update_offsets


def updated_offsets(
    connector: str,
    ask: Callable[[Sequence[SourcePosition]], Any],
    given: Sequence[ConnectorOffset],
    busy: Collection[PartitionKey] = (),
) -> list[ConnectorOffset]:
    """`given` with what `ask` returns for it: changed offsets, and those of further partitions.

    What it returns for a partition in `busy` has no effect: records of it are on the way, and a restart would lose
    them. The task is asked again before the next commit.
    Errors: DataError for what cannot be stored; whatever `ask` raises.
    """
    kept = {partition_key(item.partition): item for item in given}
    for pair in ask([(item.partition, item.offset) for item in given]) or ():
        item = _storable(connector, pair)
        key = partition_key(item.partition)
        if key not in busy:
            kept[key] = item
    return list(kept.values())


def _storable(connector: str, pair: Any) -> ConnectorOffset:
    """Errors: DataError, now: once it waits for its commit it would make every later commit fail."""
    match pair:
        case (Mapping() as partition, (Mapping() | None) as offset):
            encode_key(connector, partition)
            encode_value(offset)
            return ConnectorOffset(partition, offset)
    raise DataError(
        f"update_offsets() returned {pair!r} among its offsets",
        hint="Return pairs of a source partition and its offset: [({..}, {..}), ..]; None removes the offset.",
    )

"""Schemas that converters of a sink inferred outlive the task: they are kept in a compacted topic.

Differs: KIP-301, which was never finished, has no memory.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from kconnect.builtin.types.seen import NOTHING, Kind, Numbers, Seen
from kconnect.errors import ConnectError
from kconnect.runtime.config.own_worker_keys import schemas_topic
from kconnect.runtime.pipeline.build_transactions import seconds
from kconnect.runtime.storage.compacted_topic import CompactedTopic

if TYPE_CHECKING:
    from kconnect.model import TaskSpec
    from kconnect.runtime.pipeline.conversion import Converters

log = logging.getLogger(__name__)
SETTING: Final = "kconnect.schemas.topic"
_TIMEOUT: Final = "offset.flush.timeout.ms"
Keep = Callable[[str, Seen], None]


@runtime_checkable
class InfersSchemas(Protocol):
    """A converter that infers schemas, and can begin with what was seen before."""

    @property
    def infers(self) -> bool:
        """Whether its settings want that."""
        ...

    def remember(self, known: Mapping[str, Seen], keep: Keep) -> None:
        """Begin with what was seen by topic; `keep(topic, seen)` hears of each schema that widens."""
        ...


def remember_inferred(converters: Converters, spec: TaskSpec) -> Callable[[], None]:
    """Give converters that infer schemas what tasks of this connector saw before. Returns what closes the memory.

    Errors: ConnectError when Kafka does not answer: with narrower schemas a sink would write other columns.
    """
    wanted = [(place, one) for place, one in converters.each() if isinstance(one, InfersSchemas) and one.infers]
    topic = schemas_topic(spec.worker_config) if wanted else None
    if topic is None:
        return nothing_kept
    memory = InferredMemory(spec, topic)
    for place, converter in wanted:
        converter.remember(memory.of(place), memory.keeper(place))
    return memory.close


def nothing_kept() -> None:
    """Closes no memory: no schema is inferred, or no topic keeps it."""


class InferredMemory:
    """What the converters of a connector saw. Each task writes records of its own, and reads those of all.

    Threads: the task's.
    """

    def __init__(self, spec: TaskSpec, topic: str) -> None:
        """Errors: ConnectError."""
        timeout_s = seconds(spec.worker_config, _TIMEOUT)
        self._task = spec.id
        self._kept = CompactedTopic(spec.worker_config, topic, "schemas", timeout_s, _TIMEOUT)
        self._known: dict[tuple[str, str], Seen] = {}
        self._waiting: dict[tuple[str, str], Seen] = {}
        self._is_made = False
        for key, value in self._kept.read().items():
            self._learn(key, value)

    def of(self, place: str) -> dict[str, Seen]:
        """What the converter at this place saw, by topic."""
        return {topic: seen for (where, topic), seen in self._known.items() if where == place}

    def keeper(self, place: str) -> Keep:
        """Gives what keeps that of the converter at this place."""

        def keep(topic: str, seen: Seen) -> None:
            self._waiting[place, topic] = seen
            self._write()

        return keep

    def close(self) -> None:
        """Writes what could not be written before."""
        self._write()
        self._kept.close()

    def _write(self) -> None:
        """A record that infers more is no worse for a memory that does not answer: what waits is written later."""
        try:
            if self._waiting and not self._is_made:
                self._kept.make(f"schemas that converters inferred ({SETTING})")
                self._is_made = True
            for place, topic in list(self._waiting):
                key = json.dumps([self._task.connector, self._task.task, place, topic]).encode()
                self._kept.write(key, json.dumps(document_of(self._waiting[place, topic])).encode())
                del self._waiting[place, topic]
        except ConnectError as error:
            log.warning(
                "Inferred schemas of %s are not kept in %s yet (%s): %s", self._task, self._kept.topic, SETTING, error
            )

    def _learn(self, key: bytes, value: bytes) -> None:
        try:
            connector, _, place, topic = json.loads(key)
            if connector == self._task.connector:
                self._known[place, topic] = self._known.get((place, topic), NOTHING).join(seen_of(json.loads(value)))
        except (ValueError, TypeError, KeyError, AttributeError):
            log.warning("A record of %s is no inferred schema, and is left out: key %r", self._kept.topic, key)


def document_of(seen: Seen) -> dict[str, Any]:
    """A document of what was seen, which `seen_of` reads again; it has only objects, texts, numbers and booleans."""
    found: dict[str, Any] = {"kind": seen.kind.value}
    if (numbers := seen.numbers) is not None:
        found["numbers"] = [numbers.whole, numbers.scale, numbers.has_floats, numbers.is_long, numbers.is_double]
    if seen.item is not None:
        found["item"] = document_of(seen.item)
    if seen.members:
        found["members"] = {name: document_of(member) for name, member in seen.members.items()}
    return found


def seen_of(document: Mapping[str, Any]) -> Seen:
    """Errors: ValueError, TypeError, KeyError, AttributeError for what `document_of` did not make."""
    numbers, item = document.get("numbers"), document.get("item")
    return Seen(
        Kind(document["kind"]),
        None if numbers is None else Numbers(*numbers),
        None if item is None else seen_of(item),
        {name: seen_of(member) for name, member in document.get("members", {}).items()},
    )

"""PatternTopics: the topics of a cluster that a sink's pattern means, looked for again and again."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from kconnect.runtime.config.topic_pattern import TopicPattern

log = logging.getLogger(__name__)

# Where metadata.max.age.ms is not set. Differs: Java's clients look every 5 minutes
_LOOK_EVERY_S: Final = 3.0
# A look at 10,000 partitions takes 50 ms of a broker beside; so it takes 1 % of the task's time at most
_LOOK_SHARE: Final = 100
# The fetch waits for a look: briefly, and longer where a cluster needs longer
_FIRST_WAIT_S: Final = 1.0
_MOST_WAIT_S: Final = 8.0


class PatternTopics:
    """Asks the brokers for their topics when it is due. Threads: one."""

    def __init__(
        self, pattern: TopicPattern, list_topics: Callable[[float], Any], every_s: float | None, name: str
    ) -> None:
        """`list_topics`: of the client, with a timeout. `every_s`: as the user has set it."""
        self._pattern = pattern
        self._list_topics = list_topics
        self._every_s = _LOOK_EVERY_S if every_s is None else every_s
        self._name = name
        self._wait_s = _FIRST_WAIT_S
        self._due_at_s = float("-inf")
        self._found: frozenset[str] | None = None

    def look_if_due(self, note_error: Callable[[KafkaError], None]) -> Sequence[str] | None:
        """The topics, if they are others than at the last look. A broker that is away is asked again."""
        began_s = time.monotonic()
        if began_s < self._due_at_s:
            return None
        try:
            names = sorted(self._pattern.of(self._list_topics(self._wait_s).topics))
        except KafkaException as error:
            note_error(error.args[0])
            self._wait_s = min(self._wait_s * 2, _MOST_WAIT_S)
            self._due_at_s = time.monotonic() + min(self._every_s, _LOOK_EVERY_S)
            return None
        took_s = time.monotonic() - began_s
        self._due_at_s = time.monotonic() + max(self._every_s, took_s * _LOOK_SHARE)
        found, before = frozenset(names), self._found
        if found == before:
            return None
        self._found = found
        self._tell(found, before)
        return names

    def _tell(self, found: frozenset[str], before: frozenset[str] | None) -> None:
        regex, every_s = self._pattern.regex, self._every_s
        if not found:
            log.warning(
                "%s reads no topic: none matches topics.regex=%s. It looks again every %g s.",
                self._name,
                regex,
                every_s,
            )
        elif before is None:
            log.info("%s reads the topics that match topics.regex=%s: %s", self._name, regex, _listed(found))
        else:
            for what, changed in (("reads", found - before), ("no longer reads", before - found)):
                if changed:
                    log.info("%s %s, by topics.regex=%s", self._name, f"{what} {_listed(changed)}", regex)


def _listed(names: frozenset[str], most: int = 20) -> str:
    some = ", ".join(sorted(names)[:most])
    return some if len(names) <= most else f"{some} and {len(names) - most} more"

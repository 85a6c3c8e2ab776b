"""What RecordConsumer adds to librdkafka's consumer.

PatternTopics: the topics of a cluster that a sink's pattern means, looked for again and again. TimedResets: where it
begins by `auto.offset.reset=by_duration:..`. UnansweredCommits: which of its commits an answer belongs to.
ConsumerFacts: what it knows of its group and its partitions, for plugins of Java that ask theirs. LostJoins: when its
request to join the group will have no answer.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from kconnect.errors import ConnectError
from kconnect.model import TopicPartition
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka.clients import connect_error, kafka_errors

log = logging.getLogger(__name__)

# Where metadata.max.age.ms is not set. Differs: Java's clients look every 5 minutes
_LOOK_EVERY_S: Final = 3.0
# A look at 10,000 partitions takes 50 ms of a broker beside; so it takes 1 % of the task's time at most
_LOOK_SHARE: Final = 100
# The fetch waits for a look: briefly, and longer where a cluster needs longer
_FIRST_WAIT_S: Final = 1.0
_MOST_WAIT_S: Final = 8.0


PASSING: Final = frozenset(
    {
        KafkaError._PARTITION_EOF,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._MAX_POLL_EXCEEDED,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)
"""Errors that the client recovers from."""


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


# As librdkafka waits for committed offsets and for those at a time
_TIMEOUT_S: Final = 30.0


class TimedResets:
    """Looks for offsets by time, with the client of the consumer. Threads: its own. Errors: ConnectError."""

    def __init__(self, client: Consumer, back_ms: int, name: str) -> None:
        self._client = client
        self._back_ms = back_ms
        self._name = name

    def by(self, client: Consumer) -> TimedResets:
        """The same by another client of the consumer."""
        return TimedResets(client, self._back_ms, self._name)

    def begin(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where those of the partitions begin that have no committed offset."""
        if not partitions:
            return {}
        asked = [ClientPartition(at.topic, at.partition) for at in partitions]
        with kafka_errors("Committed offsets cannot be read"):
            committed = _checked(self._client.committed(asked, timeout=_TIMEOUT_S))
        since_ms = max(int(time.time() * 1000) - self._back_ms, 0)
        asked = [ClientPartition(at.topic, at.partition, since_ms) for at in committed if at.offset < 0]
        return self._at_times(asked) if asked else {}

    def _at_times(self, asked: list[ClientPartition]) -> dict[TopicPartition, int]:
        """The first record from a time on in each partition; its end where there is none."""
        with kafka_errors("Offsets at a time cannot be read"):
            found = _checked(self._client.offsets_for_times(asked, timeout=_TIMEOUT_S))
        offsets = {TopicPartition(at.topic, at.partition): at.offset if at.offset >= 0 else OFFSET_END for at in found}
        log.info(
            "%s begins, by auto.offset.reset, at %s",
            self._name,
            ", ".join(f"{at}: {'the end' if offset < 0 else offset}" for at, offset in sorted(offsets.items())),
        )
        return offsets


def _checked(found: Iterable[ClientPartition]) -> list[ClientPartition]:
    """Errors: ConnectError for the first partition that has one."""
    places = list(found)
    for at in places:
        if at.error is not None:
            raise connect_error(f"The offset of {at.topic}-{at.partition} cannot be read", at.error)
    return places


CommitDone = Callable[[ConnectError | None], None]
"""Called with the answer: None, or why the offsets were not committed."""


class UnansweredCommits:
    """Commits that were sent, until each has its own answer, however late. Threads: one.

    librdkafka answers without a number, but repeats the offsets; those of two commits are hardly ever the same, and
    where they are, the older one is answered first.
    """

    def __init__(self) -> None:
        self._sent: list[tuple[Mapping[TopicPartition, int], CommitDone]] = []

    @property
    def is_empty(self) -> bool:
        return not self._sent

    def sent(self, offsets: Mapping[TopicPartition, int], done: CommitDone) -> None:
        self._sent.append((dict(offsets), done))

    def answered(self, offsets: Mapping[TopicPartition, int], error: ConnectError | None) -> None:
        """Tell the commit of these offsets; an answer to none that was sent is ignored."""
        for index, (own, done) in enumerate(self._sent):
            if own == offsets:
                del self._sent[index]
                done(error)
                return


# A rebalance of a quiet group takes 3 s. The first look and the one that confirms it end within half a minute
_JOIN_LOOK_S: Final = 10.0
_JOIN_CONFIRM_S: Final = 5.0
_JOIN_LOOK_MOST_S: Final = 60.0


class LostJoins:
    """Finds that a member waits for nothing: its group does not have it, though it has asked to join. Threads: one.

    A coordinator that hands its groups over while the request waits may answer it to nobody, as a Kafka of one node
    does that was frozen and goes on. The client then reads nothing for max.poll.interval.ms, five minutes, as Java's
    does; its connection waits with it, so only another client joins sooner.
    """

    def __init__(self, members: Callable[[], Collection[str]], monotonic: Callable[[], float] = time.monotonic) -> None:
        """`members`: the ids that the group has now. Errors: ConnectError."""
        self._members = members
        self._monotonic = monotonic
        self._missed: str | None = None
        self._pause_s = _JOIN_LOOK_S
        self._due_at_s: float | None = monotonic() + _JOIN_LOOK_S
        """When the group is asked; it is None once the member has joined."""

    def joined(self) -> None:
        self._due_at_s = None

    def waits(self) -> None:
        """It has asked to join, or does so again."""
        self._missed, self._pause_s = None, _JOIN_LOOK_S
        self._due_at_s = self._monotonic() + _JOIN_LOOK_S

    def is_lost(self, member_id: Callable[[], str | None]) -> bool:
        """Asks the group when that is due; true once it was twice without a member that has the same id since.

        Without an id it has not asked yet, as while none of its topics exists.
        """
        if self._due_at_s is None or self._monotonic() < self._due_at_s:
            return False
        own = member_id()
        try:
            is_missed = bool(own) and own not in self._members()
        except ConnectError:  # whoever cannot be asked does not say that it is lost
            is_missed = False
        is_lost = is_missed and own == self._missed
        self._missed = own if is_missed else None
        # Members of one group may wait for each other for minutes: it is asked less and less often
        self._pause_s = _JOIN_CONFIRM_S if is_missed else min(self._pause_s * 2, _JOIN_LOOK_MOST_S)
        self._due_at_s = self._monotonic() + self._pause_s
        return is_lost


# How librdkafka writes a member for another client: this, generation, group, member, whether it has no instance, that
_MAGIC: Final = b"CGMDv2:"
_GENERATION: Final = struct.Struct("=i")
_FROM_THE_FIRST: Final = ("earliest", "smallest", "beginning")


class ConsumerFacts:
    """Answers of one consumer, as JSON has them. A partition is [topic, number], or [topic, number, time].

    Threads: any. Errors: ConnectError; TimedOutError when the broker does not answer within the time given.
    """

    def __init__(self, client: Consumer, topics: Callable[[], Sequence[str]], reset: str) -> None:
        """`topics`: those that it has subscribed to. `reset`: its auto.offset.reset."""
        self._client = client
        self._topics = topics
        self._reset = reset

    def answer(self, asked: Mapping[str, Any]) -> Any:
        """The answer to a question of Java's HostConsumer: `what`, `partitions`, `timeout_ms`."""
        rows, timeout_s = asked["partitions"], int(asked["timeout_ms"]) / 1000
        match asked["what"]:
            case "group":
                return member_of(self._client.consumer_group_metadata())
            case "subscription":
                return list(self._topics())
            case "position":
                return self._positions(rows, timeout_s)
            case "committed":
                return self._committed(rows, timeout_s)
            case "ends":
                return [[topic, number, *self._ends(topic, number, timeout_s)] for topic, number in rows]
            case "times":
                return self._at_times(rows, timeout_s)
        raise ConnectError(f"A consumer does not answer {asked['what']}")

    def _committed(self, rows: Sequence[Sequence[Any]], timeout_s: float) -> list[list[Any]]:
        wanted = [ClientPartition(topic, number) for topic, number in rows]
        with kafka_errors("The committed offsets cannot be asked for"):
            found = self._client.committed(wanted, timeout=timeout_s)
        return [[one.topic, one.partition, _offset(one), one.metadata or ""] for one in found]

    def _positions(self, rows: Sequence[Sequence[Any]], timeout_s: float) -> list[list[Any]]:
        """Where it fetches next: behind what it fetched, else at what is committed, else where it would begin."""
        wanted = [ClientPartition(topic, number) for topic, number in rows]
        with kafka_errors("The position cannot be asked for"):
            found = {(one.topic, one.partition): one.offset for one in self._client.position(wanted)}
        made = []
        for topic, number in rows:
            offset = found.get((topic, number), -1)
            if offset < 0:
                offset = self._committed([(topic, number)], timeout_s)[0][2]
            if offset is None:
                first, end = self._ends(topic, number, timeout_s)
                offset = first if self._reset in _FROM_THE_FIRST else end
            made.append([topic, number, offset])
        return made

    def _ends(self, topic: str, number: int, timeout_s: float) -> tuple[int, int]:
        with kafka_errors(f"The ends of {topic}-{number} cannot be asked for"):
            found = self._client.get_watermark_offsets(ClientPartition(topic, number), timeout=timeout_s)
        first, end = found
        return first, end

    def _at_times(self, rows: Sequence[Sequence[Any]], timeout_s: float) -> list[list[Any]]:
        wanted = [ClientPartition(topic, number, int(time_ms)) for topic, number, time_ms in rows]
        with kafka_errors("The offsets of times cannot be asked for"):
            found = self._client.offsets_for_times(wanted, timeout=timeout_s)
        return [[one.topic, one.partition, _offset(one)] for one in found]


def member_of(written: bytes) -> dict[str, Any]:
    """A member of a group as librdkafka writes it: group, generation (-1 before it has joined), member, instance."""
    if not written.startswith(_MAGIC):
        raise ConnectError("The installed librdkafka writes members of groups in an unknown form")
    (generation,) = _GENERATION.unpack_from(written, len(_MAGIC))
    group, _, rest = written[len(_MAGIC) + _GENERATION.size :].partition(b"\0")
    member, _, rest = rest.partition(b"\0")
    return {
        "group": group.decode(),
        "generation": generation,
        "member": member.decode(),
        "instance": None if rest[:1] == b"\1" else rest[1:].rstrip(b"\0").decode(),
    }


def _offset(partition: ClientPartition) -> int | None:
    if partition.error is not None:
        raise connect_error(f"An offset of {partition.topic}-{partition.partition} cannot be given", partition.error)
    return partition.offset if partition.offset >= 0 else None

"""Where a sink is moved to without naming offsets: a time, the first or the next record, some records on or back.

Source: kafka-consumer-groups.sh --reset-offsets (Kafka 4.3), which does the same for any consumer group.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.read.connector_offsets import resolved_config
from kconnect.errors import BadRequestError, ConfigError, NotFoundError
from kconnect.logs.wording import pluralize
from kconnect.model import AtOffset, AtTime, ConnectorInfo, ConnectorOffset, ConnectorType, Edge, TopicPartition
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.herder.offsets.consumer_groups import kafka_group_offsets
from kconnect.runtime.herder.offsets.offsets_admin import OFFSET, PARTITION, TOPIC, consumer_group_of


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """So many records on from the committed offset, or back if negative; at most to an end of the partition."""

    records: int


SinkTarget = Edge | AtTime | ShiftBy | AtOffset


def target_to_json(target: SinkTarget) -> dict[str, Any]:
    """Gives the target as a worker is asked for it."""
    match target:
        case AtTime(time_ms):
            return {"to_time": time_ms}
        case AtOffset(offset):
            return {"to_offset": offset}
        case ShiftBy(records):
            return {"shift_by": records}
        case Edge():
            return {"to": target.value}


def target_of_json(body: Mapping[str, Any]) -> SinkTarget:
    """Errors: BadRequestError for none, several, or another value."""
    made: dict[str, Callable[[Any], SinkTarget]] = {
        "to_time": AtTime,
        "to_offset": AtOffset,
        "shift_by": ShiftBy,
        "to": Edge,
    }
    given = [(name, body[name]) for name in made if name in body]
    if len(given) != 1:
        raise BadRequestError(f"The target must be one of {', '.join(made)}")
    name, value = given[0]
    if (name == "to") != isinstance(value, str) or isinstance(value, bool) or not isinstance(value, str | int):
        raise BadRequestError(f"{name} cannot be {value!r}")
    try:
        return made[name](value)
    except ValueError:
        raise BadRequestError(f"{name} must be {' or '.join(edge.value for edge in Edge)}, not {value!r}") from None


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which of a sink's partitions are moved: all, or those of these topics and with these numbers."""

    topics: frozenset[str] = frozenset()
    partitions: frozenset[int] = frozenset()

    def of(
        self, name: str, there: Mapping[str, int], config: Mapping[str, str], worker: Mapping[str, str]
    ) -> list[TopicPartition]:
        """`there`: the cluster's topics, each with its number of partitions.

        Errors: NotFoundError, BadRequestError for what the sink does not read.
        """
        read = {topic: count for topic, count in there.items() if topic in _topics_of(config, worker, there)}
        for topic in sorted(self.topics - read.keys()):
            hint = f"It reads {', '.join(sorted(read)) or 'no topic that exists'}."
            raise NotFoundError(f"Connector {name} reads no topic {topic}", hint=hint)
        topics = {topic: count for topic, count in sorted(read.items()) if not self.topics or topic in self.topics}
        found = [
            TopicPartition(topic, number)
            for topic, count in topics.items()
            for number in range(count)
            if not self.partitions or number in self.partitions
        ]
        if missing := sorted(self.partitions - {at.partition for at in found}):
            most = max(topics.values(), default=0)
            raise NotFoundError(
                f"Connector {name} reads no partition {missing[0]}",
                hint=f"Its topics have at most {pluralize(most, 'partition')}, numbered from 0.",
            )
        return found


def offsets_at(
    target: SinkTarget,
    ranges: Mapping[TopicPartition, tuple[int, int]],
    committed: Mapping[TopicPartition, int],
    first_at_time: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """The offset of each partition in `ranges` (its first offset, and that of the next record).

    `first_at_time`: the first record at or after the time, -1 where there is none.
    Errors: BadRequestError for a shift from no offset, and for an offset that a partition does not have.
    """
    match target:
        case Edge.EARLIEST:
            return {at: begin for at, (begin, _) in ranges.items()}
        case Edge.LATEST:
            return {at: end for at, (_, end) in ranges.items()}
        case AtTime():
            return {at: first if (first := first_at_time[at]) >= 0 else end for at, (_, end) in ranges.items()}
        case ShiftBy(records):
            if missing := sorted(ranges.keys() - committed.keys()):
                raise BadRequestError(
                    f"{missing[0]} has no committed offset to shift from",
                    hint="Choose others with --topic and --partition, or use --to-time, --to-earliest, --to-latest.",
                )
            return {at: min(max(committed[at] + records, begin), end) for at, (begin, end) in ranges.items()}
        case AtOffset(offset):
            for at, (begin, end) in sorted(ranges.items()):
                if not begin <= offset <= end:
                    raise BadRequestError(
                        f"{at} has no offset {offset}: its records are from {begin} to {end - 1}, the next is {end}",
                        hint="Choose partitions with --topic and --partition, or use --to-earliest or --to-latest.",
                    )
            return dict.fromkeys(ranges, offset)


def sink_offsets_at(
    access: ClusterAccess, info: ConnectorInfo, target: SinkTarget, chosen: Chosen
) -> list[ConnectorOffset]:
    """The offsets of a sink's partitions at the target, as `GET /connectors/X/offsets` shows offsets.

    Errors: BadRequestError for a source; NotFoundError; ConnectError of the brokers.
    """
    if info.type is not ConnectorType.SINK:
        raise BadRequestError(
            f"{info.name} is a source: only the connector knows what its offsets mean",
            hint="Set them by connect offsets alter, or forget them by connect offsets reset without a target.",
        )
    config = resolved_config(access, info)
    read_topics = {key: value or "" for key, value in {**info.config, **config}.items()}
    with kafka_group_offsets(access.worker, access.timeout_s, timeout_setting="--timeout")(config) as groups:
        partitions = chosen.of(info.name, groups.topics(), read_topics, access.worker)
        ranges = groups.log_ranges(partitions).ranges
        committed = groups.list_offsets(consumer_group_of(info.name, config)) if isinstance(target, ShiftBy) else {}
        first = groups.offsets_at_time(partitions, target.time_ms) if isinstance(target, AtTime) else {}
    offsets = offsets_at(target, ranges, committed, first)
    return [
        ConnectorOffset({PARTITION: at.partition, TOPIC: at.topic}, {OFFSET: offset})
        for at, offset in sorted(offsets.items())
    ]


def _topics_of(config: Mapping[str, str], worker: Mapping[str, str], there: Collection[str]) -> set[str]:
    listed = {name for part in config.get("topics", "").split(",") if (name := part.strip())}
    try:
        pattern = TopicPattern.of_sink(worker, config)
        return listed if pattern is None else listed | set(pattern.of(there))
    except ConfigError as err:
        raise BadRequestError(f"topics.regex {config['topics.regex']} cannot be read: {err}") from err

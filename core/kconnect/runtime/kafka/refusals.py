"""What no topic takes, whatever the broker: a record without a topic or with an impossible name, partition or time.

Pure. Producers ask, or name what librdkafka has refused; what runs without Kafka asks `refusal_of`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kconnect.api.topic_names import topic_name_problem, topic_renaming
from kconnect.errors import ConnectError, DataError
from kconnect.runtime.kafka.produced_records import KafkaRecord

NO_PARTITION: Final = -1
"""The client's number for a record whose partition the partitioner chooses."""
_KEY_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that will not be written, as far as is known of it."""

    topic: str
    partition: int | None = None
    key: bytes | None = None
    value: bytes | None = None

    def __str__(self) -> str:
        """With its size and key, for those who look for it."""
        return f"A record of {self.size:,} bytes {self.key_shown}"

    @property
    def key_shown(self) -> str:
        """Its key, so far as it fits a sentence."""
        if self.key is None:
            return "without a key"
        return f"with the key {self.key[:_KEY_SHOWN]!r}" + (".." if len(self.key) > _KEY_SHOWN else "")

    @property
    def size(self) -> int:
        return len(self.key or b"") + len(self.value or b"")

    @property
    def place(self) -> str:
        number = "" if self.partition is None or self.partition < 0 else f", partition {self.partition}"
        return f"topic {self.topic!r}{number}"


def refusal_of(record: KafkaRecord) -> ConnectError | None:
    """What a producer says of a record that no broker takes; None of any other."""
    try:
        require_topic(record.topic)
        if refusal := topic_refusal(record.topic):
            return refusal
        partition_number(record.partition, record.topic)
    except DataError as error:
        return error
    try:
        producer_time(record.timestamp)
    except DataError as error:
        return named(error, RefusedRecord(record.topic, record.partition, record.key))
    return None


def require_topic(topic: str | None) -> None:
    """Errors: DataError, which errors.tolerance does not tolerate, as Java's ProducerRecord has it of a null topic."""
    hint = "Give each record that poll() returns a topic."
    if not topic:
        raise DataError("A record could not be written: it has no topic.", hint=hint)
    if not isinstance(topic, str):
        raise DataError(f"A record could not be written: its topic is {_odd(topic)}.", hint=hint)


def topic_refusal(topic: str) -> ConnectError | None:
    """The error of a name that no topic can have; None for any other."""
    problem = topic_name_problem(topic)
    if problem is None:
        return None
    return ConnectError(f"A record could not be written: {problem}.", hint=f"To rename it: {topic_renaming(topic)}")


def partition_number(partition: int | None, topic: str) -> int:
    """The client's number for it. Errors: DataError, as of Java's ProducerRecord."""
    if partition is None:
        return NO_PARTITION
    if not isinstance(partition, int):
        raise DataError(f"Invalid partition: {_odd(partition)}. A record for topic {topic!r} has it.")
    if partition < 0:
        raise DataError(
            f"Invalid partition: {partition}. A record for topic {topic!r} has it. Partition number should always be "
            "non-negative or null: without one the partitioner chooses."
        )
    return partition


def named(error: DataError, record: RefusedRecord) -> DataError:
    """The error of a record's time, with the record that has it."""
    return DataError(
        f"{error} of a record for {record.place} {record.key_shown}. Kafka's times are milliseconds since 1970, none "
        "before it; a record without one gets the present time."
    )


def producer_time(timestamp: int | None) -> int:
    """The client's 0 means now. Errors: DataError for a time before 1970, which Kafka cannot represent.

    Source: ConnectUtils.checkAndConvertTimestamp. Differs: a record of 1970-01-01T00:00Z exactly gets the present time,
    as librdkafka has no other way to say "now".
    """
    if timestamp is None or timestamp == -1:
        return 0
    if type(timestamp) is not int:
        raise DataError(f"Invalid record timestamp {_odd(timestamp)}")
    if timestamp < 0:
        raise DataError(f"Invalid record timestamp {timestamp}")
    return timestamp


def _odd(value: object) -> str:
    """What Java's compiler would have refused."""
    return f"{value!r} of type {type(value).__qualname__}"

"""TimestampRouter: another topic for a record, by its topic and its time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from kconnect.api import ConfigDef, ConnectRecord, DataError, RecordBatch, Transformation
from kconnect.builtin.transforms.date_pattern import pattern_validator
from kconnect.builtin.version import KAFKA_VERSION
from kconnect.java.compat.simple_date_format import DatePattern, format_instant

if TYPE_CHECKING:
    import pyarrow as pa

R = TypeVar("R", bound=ConnectRecord)

TOPIC_FORMAT, TIMESTAMP_FORMAT = "topic.format", "timestamp.format"

CONFIG = (
    ConfigDef()
    .define(
        TOPIC_FORMAT,
        ConfigDef.Type.STRING,
        "${topic}-${timestamp}",
        None,
        ConfigDef.Importance.HIGH,
        "The new topic; ${topic} and ${timestamp} stand for the record's topic and time.",
    )
    .define(
        TIMESTAMP_FORMAT,
        ConfigDef.Type.STRING,
        "yyyyMMdd",
        pattern_validator(),
        ConfigDef.Importance.HIGH,
        "How the time is written: a pattern of Java's SimpleDateFormat, in UTC and with English names.",
    )
)

# The smallest part of time that a letter shows, in ms; all others show whole days
_STEPS = {"S": 1, "s": 1000, "m": 60_000, **dict.fromkeys("HkKha", 3_600_000)}
_MILLIS_PER_DAY = 86_400_000


class TimestampRouter(Transformation):
    """Source: o.a.k.connect.transforms.TimestampRouter (Kafka 4.3).

    Differs: a pattern that Java refuses at the first record is refused by validate.
    """

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        self._topic_format: str = config[TOPIC_FORMAT]
        self._pattern = DatePattern(config[TIMESTAMP_FORMAT])
        self._step_ms = min((_STEPS.get(piece.letter, _MILLIS_PER_DAY) for piece in self._pattern.pieces), default=1)
        self._last: tuple[str, int] | None = None
        self._last_route = ""

    def apply(self, record: R) -> R:
        if record.timestamp is None:
            raise DataError(f"Timestamp missing on record: {record!r}")
        return record.new_record(topic=self._route(record.topic, record.timestamp))

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | Any:  # Any: mypy takes NotImplemented for it
        """Nothing but the topic is looked at. Records that part ways, as at midnight, go one by one."""
        stamp = batch.timestamp
        if stamp is None:
            return NotImplemented
        if isinstance(stamp, int):
            return batch.with_(topic=self._route(batch.topic, stamp))
        if stamp.null_count or not len(stamp):
            return NotImplemented
        routes = {self._route(batch.topic, millis) for millis in self._steps(stamp)}
        return batch.with_(topic=routes.pop()) if len(routes) == 1 else NotImplemented

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _route(self, topic: str, millis: int) -> str:
        """The topic for that time. Most records follow one of the same topic and the same day or hour."""
        step = (topic, millis // self._step_ms)
        if step != self._last:
            written = format_instant(self._pattern, millis)
            self._last, self._last_route = (
                step,
                self._topic_format.replace("${topic}", topic).replace("${timestamp}", written),
            )
        return self._last_route

    def _steps(self, stamp: pa.Array) -> list[int]:
        """One time for each step of the pattern that the column has; negative ones may come twice."""
        import pyarrow.compute as pc

        steps = pc.unique(pc.divide(stamp, self._step_ms))
        return [millis for step in steps.to_pylist() for millis in self._ends(step)]

    def _ends(self, step: int) -> tuple[int, ...]:
        start = step * self._step_ms
        return (start,) if step > 0 else (start, start - self._step_ms)  # division is towards zero

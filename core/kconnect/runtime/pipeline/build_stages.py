"""Builds what records go through between a task and Kafka: steps, converters, failure policy, dead letters.

Schemas that converters of a sink inferred outlive the task: they are kept in a compacted topic. Differs: KIP-301,
which was never finished, has no memory.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from kconnect.api import ProducerInterceptor, SinkTask, SourceRecord
from kconnect.builtin.types.seen import NOTHING, Kind, Numbers, Seen
from kconnect.errors import ConnectError
from kconnect.runtime.config.client_config import admin_config, producer_config, producer_interceptors
from kconnect.runtime.config.connector_config import ConnectorConfig, SinkConnectorConfig, SourceConnectorConfig
from kconnect.runtime.config.own_worker_keys import schemas_topic
from kconnect.runtime.kafka import KafkaAdmin, RecordProducer
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.batch_forms import BatchForms
from kconnect.runtime.pipeline.build_transactions import seconds, warn
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.dead_letter import DeadLetterQueue
from kconnect.runtime.pipeline.health import TaskHealth
from kconnect.runtime.pipeline.interceptors import InterceptedProducer, Interceptors, make_interceptors
from kconnect.runtime.pipeline.plugin_parts import closed_if_it_fails, make_converters, make_steps, parse_config
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.sink_context import ErrantRecords
from kconnect.runtime.pipeline.sink_conversion import SinkConversion, UsedTopics
from kconnect.runtime.pipeline.source_dead_letters import SourceDeadLetters, make_letter_converters
from kconnect.runtime.pipeline.stages import Stage, StageError
from kconnect.runtime.pipeline.tolerance import LogReporter, Tolerance, ToleranceSettings
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kconnect.runtime.storage.compacted_topic import CompactedTopic

if TYPE_CHECKING:
    from kconnect.model import TaskSpec


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SourceStages:
    """What a source's records go through between task and producer."""

    tolerance: Tolerance
    transforms: TransformChain
    converters: Converters
    dead_letters: SourceDeadLetters | None
    forms: BatchForms = field(default_factory=BatchForms)

    def give_up(self, plugin: type, record: SourceRecord, error: BaseException) -> None:
        """A record that the task of this class could not read. Errors: StageError unless errors are tolerated."""
        self.tolerance.give_up(StageError(Stage.TASK_POLL, plugin, record, error))

    def close(self) -> None:
        self.tolerance.close()
        self.transforms.close()
        self.converters.close()


def source_stages(control: TaskControl, ports: TaskPorts, *, in_java: bool = False) -> SourceStages:
    """The stages of a source's config, not started; `in_java`: Java has a chain of them that does their work.

    Errors: ConfigError, NotFoundError for what its configs name.
    """
    spec = control.spec
    config = parse_config(SourceConnectorConfig, spec.connector_config, ports.plugins)
    tolerance = _tolerance(control, config, ports)
    dead_letters = _source_dead_letters(control, config, ports)
    tolerance.report_to([*_log_reporter(control, config, ports), *([dead_letters] if dead_letters else [])])
    control.count_with(partial(_count_errors, tolerance, control.health, dead_letters))
    forms = _counted_forms(control)
    transforms, converters = _steps_and_converters(control, ports, config, tolerance, forms, defers=in_java)
    return SourceStages(tolerance, transforms, converters, dead_letters, forms)


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


@dataclass(frozen=True, slots=True)
class SinkStages:
    """What a sink's records go through between consumer and task."""

    tolerance: Tolerance
    transforms: TransformChain
    converters: Converters
    raw_records: RawRecords
    errant: ErrantRecords
    dead_letters: DeadLetterQueue | None
    forms: BatchForms = field(default_factory=BatchForms)
    close_memory: Callable[[], None] = nothing_kept

    def conversion(self, used_topics: UsedTopics, *, takes_batches: bool, fewest_in_batch: int = 0) -> SinkConversion:
        """Makes the conversion of what is fetched, by these stages."""
        return SinkConversion(
            self.converters,
            self.transforms,
            self.raw_records,
            used_topics,
            takes_batches=takes_batches,
            fewest_in_batch=fewest_in_batch,
            forms=self.forms,
        )

    def reporter(self) -> ErrantRecords | None:
        """What the task reports to, if anybody listens."""
        return self.errant.for_task() if self.raw_records.is_wanted else None

    def close(self) -> None:
        self.tolerance.close()
        self.transforms.close()
        self.converters.close()
        self.close_memory()


def sink_stages(
    control: TaskControl, ports: TaskPorts, task_class: type[SinkTask], *, in_java: bool = False
) -> SinkStages:
    """The stages of a sink's config, as source_stages. Errors: ConfigError, NotFoundError for what its configs name."""
    spec = control.spec
    config = parse_config(SinkConnectorConfig, spec.connector_config, ports.plugins)
    tolerance = _tolerance(control, config, ports)
    forms = _counted_forms(control)
    transforms, converters = _steps_and_converters(control, ports, config, tolerance, forms, defers=in_java)
    raw_records = RawRecords(is_wanted=config.errors_log_enable or config.dead_letters is not None)
    with closed_if_it_fails() as closes:
        closes += [transforms.close, converters.close]
        close_memory = remember_inferred(converters, spec)
        closes.append(close_memory)
        dead_letters = _dead_letters(control, config, ports, raw_records)
    tolerance.report_to(
        [*_log_reporter(control, config, ports, raw_records), *([dead_letters] if dead_letters else [])]
    )
    control.count_with(partial(_count_errors, tolerance, control.health, dead_letters))
    errant = ErrantRecords(tolerance, task_class, raw_records, converters.unguarded().to_kafka_record)
    return SinkStages(tolerance, transforms, converters, raw_records, errant, dead_letters, forms, close_memory)


def _counted_forms(control: TaskControl) -> BatchForms:
    forms = BatchForms()
    control.count_with(forms.count)
    return forms


def _steps_and_converters(
    control: TaskControl,
    ports: TaskPorts,
    config: ConnectorConfig,
    tolerance: Tolerance,
    forms: BatchForms,
    *,
    defers: bool,
) -> tuple[TransformChain, Converters]:
    plugins, monitor = ports.plugins, control.monitor
    with closed_if_it_fails() as closes:
        transforms = TransformChain(make_steps(config, plugins, monitor, defers=defers), tolerance, forms.by_records)
        closes.append(transforms.close)
        worker = control.spec.worker_config
        made = make_converters(config, worker, plugins, tolerance, monitor, forms.by_records, defers=defers)
        return transforms, made


def _tolerance(control: TaskControl, config: ConnectorConfig, ports: TaskPorts) -> Tolerance:
    settings = ToleranceSettings(
        tolerate_all=config.tolerates_errors,
        retry_timeout_ms=config.errors_retry_timeout_ms,
        retry_delay_max_ms=config.errors_retry_delay_max_ms,
        log_enable=config.errors_log_enable,
        log_include_messages=config.errors_log_include_messages,
    )
    timeout_s = seconds(control.spec.worker_config, "offset.flush.timeout.ms")
    return Tolerance(settings, control.wait, clock=ports.clock, settle_timeout_s=timeout_s, health=control.health)


def _count_errors(
    tolerance: Tolerance,
    health: TaskHealth,
    dead_letters: DeadLetterQueue | SourceDeadLetters | None,
    counters: TaskCounters,
) -> None:
    """Copies what the failure policy, retried calls and the dead letter queue counted."""
    counts = tolerance.counts
    counters.failures, counters.errors = counts.failures + health.failed_calls, counts.errors
    counters.skipped, counters.retries = counts.skipped, counts.retries + health.failed_calls
    counters.errors_logged = counts.errors if tolerance.settings.log_enable else 0
    counters.last_error_ms = counts.last_error_ms or 0
    if dead_letters is not None:
        counters.dead_letters, counters.dead_letter_failures = dead_letters.requests, dead_letters.failures


def _log_reporter(
    control: TaskControl, config: ConnectorConfig, ports: TaskPorts, raw_records: RawRecords | None = None
) -> list[LogReporter]:
    if not config.errors_log_enable:
        return []
    original = (lambda record: None) if raw_records is None else raw_records.of
    return [
        LogReporter(
            control.spec.id,
            include_messages=config.errors_log_include_messages,
            java_name=ports.plugins.java_name,
            original=original,
        )
    ]


def _source_dead_letters(
    control: TaskControl, config: SourceConnectorConfig, ports: TaskPorts
) -> SourceDeadLetters | None:
    settings = config.dead_letters
    if settings is None:
        return None
    if not config.tolerates_errors:
        log.warning(
            "errors.deadletterqueue.topic.name of %s has no effect because errors.tolerance is not all: a record that "
            "fails stops the task, which begins there again",
            control.spec.id.connector,
        )
        return None
    spec = control.spec
    admin_settings, warnings = admin_config(
        spec.worker_config, spec.connector_config, client_id=f"connector-dlq-adminclient-{spec.id}"
    )
    warn(warnings)
    return SourceDeadLetters(
        settings,
        control,
        make_letter_converters(ports.plugins),
        lambda: KafkaAdmin(admin_settings, f"the dead letters of {spec.id}"),
        ports.plugins.java_name,
    )


def _dead_letters(
    control: TaskControl, config: SinkConnectorConfig, ports: TaskPorts, raw_records: RawRecords
) -> DeadLetterQueue | None:
    """The connector's dead letter queue, with Java's client ids. Source: Worker.sinkTaskReporters (Kafka 4.3)."""
    settings = config.dead_letters
    if settings is None:
        return None
    spec = control.spec
    client_id = f"connector-dlq-producer-{spec.id}"
    producer_settings, warnings = producer_config(
        spec.worker_config, spec.connector_config, client_id=client_id, keeps_order=False
    )
    admin_settings, more = admin_config(
        spec.worker_config, spec.connector_config, client_id=f"connector-dlq-adminclient-{spec.id}"
    )
    warn([*warnings, *more])
    interceptors = interceptors_of_producer(control, ports, client_id, keeps_order=False)
    producer = RecordProducer(producer_settings, f"the dead letters of {spec.id}", report_each=bool(interceptors))
    return DeadLetterQueue(
        settings,
        control,
        InterceptedProducer(producer, interceptors) if interceptors else producer,
        lambda: KafkaAdmin(admin_settings, f"the dead letters of {spec.id}"),
        raw_records,
        ports.plugins.java_name,
    )


def interceptors_of_producer(
    control: TaskControl, ports: TaskPorts, client_id: str, *, keeps_order: bool = True
) -> Interceptors[ProducerInterceptor]:
    spec = control.spec
    settings = producer_interceptors(
        spec.worker_config, spec.connector_config, client_id=client_id, keeps_order=keeps_order
    )
    return make_interceptors(ProducerInterceptor, settings, ports.plugins, control.in_stage, control.monitor)  # type: ignore[type-abstract]  # looks for a subclass

"""Builds a task's loop, ready to start, from its configs and plugins."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from kconnect.api import (
    ConsumerInterceptor,
    ProducerInterceptor,
    SinkTask,
    SourceRecord,
    SourceTask,
)
from kconnect.errors import ConfigError
from kconnect.java.plugins import JavaChain, JavaSinkTask, JavaSourceTask
from kconnect.model import ConnectorType
from kconnect.runtime.config.client_config import (
    admin_config,
    consumer_config,
    consumer_interceptors,
    max_poll_records,
    offset_reset,
    producer_config,
    producer_interceptors,
)
from kconnect.runtime.config.connector_config import (
    ConnectorConfig,
    SinkConnectorConfig,
    SourceConnectorConfig,
)
from kconnect.runtime.config.topic_creation import topic_groups
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.kafka import BulkProducer, KafkaAdmin, RecordConsumer, RecordProducer
from kconnect.runtime.metrics import TaskCounters
from kconnect.runtime.pipeline.at_least_once import AtLeastOnce
from kconnect.runtime.pipeline.build_transactions import note_usage, seconds, transactions_of, warn
from kconnect.runtime.pipeline.conversion import Converters
from kconnect.runtime.pipeline.dead_letter import DeadLetterQueue
from kconnect.runtime.pipeline.exactly_once import ExactlyOnce, OtherTopics
from kconnect.runtime.pipeline.guarantee import DeliveryGuarantee
from kconnect.runtime.pipeline.health import TaskHealth
from kconnect.runtime.pipeline.inflight import InFlight
from kconnect.runtime.pipeline.interceptors import (
    InterceptedConsumer,
    InterceptedProducer,
    Interceptors,
    make_interceptors,
)
from kconnect.runtime.pipeline.java_chain import JavaDecoding, JavaPolls, java_chain, raw_record, reported_record
from kconnect.runtime.pipeline.offset_updates import OffsetUpdates
from kconnect.runtime.pipeline.plugin_call import Calling, plugin_call
from kconnect.runtime.pipeline.plugin_parts import (
    Closes,
    closed_if_it_fails,
    make_converters,
    make_steps,
    make_task,
    worker_value,
)
from kconnect.runtime.pipeline.polled import polled_by
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.raw_records import RawRecords
from kconnect.runtime.pipeline.resting_producer import RestingProducer, TopicProducer
from kconnect.runtime.pipeline.sending import SourceTopics
from kconnect.runtime.pipeline.sink import SinkLoop, SinkParts
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_commits import CommitTimes
from kconnect.runtime.pipeline.sink_consumer import SinkConsumer
from kconnect.runtime.pipeline.sink_context import ErrantRecords, SinkContext
from kconnect.runtime.pipeline.sink_conversion import SinkConversion, SinkForms, UsedTopics
from kconnect.runtime.pipeline.source import SourceLoop, SourceParts
from kconnect.runtime.pipeline.source_context import SourceCalls, SourceContext
from kconnect.runtime.pipeline.source_dead_letters import SourceDeadLetters, make_letter_converters
from kconnect.runtime.pipeline.source_offsets import SourceOffsetCommitter
from kconnect.runtime.pipeline.stages import Stage, StageError, TransformChain
from kconnect.runtime.pipeline.task_hooks import TaskHooks, release, wants_each_record
from kconnect.runtime.pipeline.tolerance import LogReporter, Tolerance, ToleranceSettings
from kconnect.runtime.pipeline.topics import MissingTopics, TopicCreation
from kconnect.runtime.storage import CommittedOffsets

log = logging.getLogger(__name__)

# Records in one fetch of a columnar sink, unless max.poll.records says otherwise: between 2000 and 10000 it makes no
# difference (2.0 M records/s), with 50000 the fetched messages leave the CPU's cache (1.0 M/s).
_COLUMNAR_FETCH = 5_000
# The same of a Java sink: the objects of 2000 outlive no collection of a small heap. Collections took 0.03 us a record,
# with 5000 and a young generation of 5 MB 0.25 us.
_JAVA_FETCH = 2_000


def build_loop(control: TaskControl, ports: TaskPorts) -> SourceLoop | SinkLoop:
    """The loop of a task, not started. Errors: ConfigError, NotFoundError for what its configs name.

    What a failing build has opened is closed.
    """
    with closed_if_it_fails() as closes:
        return _loop(control, ports, closes)


def _loop(control: TaskControl, ports: TaskPorts, closes: Closes) -> SourceLoop | SinkLoop:
    if control.spec.type is ConnectorType.SOURCE:
        return _source_loop(control, ports, closes)
    if control.spec.type is ConnectorType.SINK:
        return _sink_loop(control, ports, closes)
    # Of a connector that this worker lacks nobody knows the type: the search for it says what is missing
    ports.plugins.connector_class(control.spec.connector_config.get("connector.class", ""))
    raise ConfigError(f"Task {control.spec.id} is of type {control.spec.type}; only source and sink tasks can run")


def _source_loop(control: TaskControl, ports: TaskPorts, closes: Closes) -> SourceLoop:
    spec = control.spec
    config = SourceConnectorConfig.parse(spec.connector_config)
    named = spec.task_config.get("task.class")
    task = make_task(spec.connector_config, ports.plugins, SourceTask, named)  # type: ignore[type-abstract]  # looks for a subclass
    closes.append(partial(release, task))
    interceptors = _producer_interceptors(control, ports, _producer_id(control))
    chain = None
    if isinstance(task, JavaSourceTask):
        task.give_runs()
        chain = None if interceptors else java_chain(config, spec.worker_config, ports.plugins)
        if chain is not None:
            task.encode_with(chain)
    stages = source_stages(control, ports, in_java=chain is not None)
    closes.append(stages.close)
    report_each = wants_each_record(task) or bool(interceptors)
    transactions = transactions_of(control, config, report_each=report_each)
    requests = None if transactions is None else transactions.requests
    producer: TopicProducer = _plain_producer(control, report_each) if transactions is None else transactions.producer
    closes.append(producer.close)
    topics: SourceTopics = source_topics(control, producer)
    guarantee: DeliveryGuarantee
    if transactions is None:
        guarantee = _at_least_once(control, ports, config, producer, task)
    else:
        updates = OffsetUpdates.of_task(control, task)
        exactly_once = transactions.parts(ports, _stop_budget_s(spec.worker_config), updates)
        guarantee = ExactlyOnce(control, exactly_once, TaskHooks(control, task))
        topics = OtherTopics(topics, exactly_once.offsets_topic)
    context = SourceContext(
        control,
        CommittedOffsets(partial(ports.offsets.read, spec.id.connector)),
        lambda: spec.task_config,
        control.monitor.of_task,
        requests,
        partial(stages.give_up, type(task)),
    )
    parts = SourceParts(
        calls=SourceCalls(task, spec.task_config, context, partial(plugin_call, health=control.health)),
        transforms=stages.transforms,
        converters=stages.converters,
        producer=InterceptedProducer(producer, interceptors) if interceptors else producer,
        topics=topics,
        retry_delay_most_s=config.errors_retry_delay_max_ms / 1000,
        stop_budget_s=_stop_budget_s(spec.worker_config),
        dead_letters=stages.dead_letters,
        form_of=JavaPolls(stages.tolerance) if isinstance(task, JavaSourceTask) else polled_by,
    )
    return SourceLoop(control, parts, guarantee)


@dataclass(frozen=True, slots=True)
class SourceStages:
    """What a source's records go through between task and producer."""

    tolerance: Tolerance
    transforms: TransformChain
    converters: Converters
    dead_letters: SourceDeadLetters | None

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
    config = SourceConnectorConfig.parse(spec.connector_config)
    tolerance = _tolerance(control, config, ports)
    dead_letters = _source_dead_letters(control, config, ports)
    tolerance.report_to([*_log_reporter(control, config, ports), *([dead_letters] if dead_letters else [])])
    control.count_with(partial(_count_errors, tolerance, control.health, dead_letters))
    transforms, converters = _steps_and_converters(control, ports, config, tolerance, defers=in_java)
    return SourceStages(tolerance, transforms, converters, dead_letters)


def _steps_and_converters(
    control: TaskControl, ports: TaskPorts, config: ConnectorConfig, tolerance: Tolerance, *, defers: bool
) -> tuple[TransformChain, Converters]:
    plugins, monitor = ports.plugins, control.monitor
    with closed_if_it_fails() as closes:
        transforms = TransformChain(make_steps(config, plugins, monitor, defers=defers), tolerance)
        closes.append(transforms.close)
        worker = control.spec.worker_config
        return transforms, make_converters(config, worker, plugins, tolerance, monitor, defers=defers)


def source_topics(control: TaskControl, producer: NamesTopics) -> SourceTopics:
    """Creates missing topics if the config says how; else logs them."""
    return _topic_creation(control) or _missing_topics(control, producer)


class NamesTopics(Protocol):
    """What a producer must say to find missing topics."""

    def topic_names(self, timeout_s: float) -> Collection[str]: ...


def _at_least_once(
    control: TaskControl, ports: TaskPorts, config: SourceConnectorConfig, producer: TopicProducer, task: SourceTask
) -> AtLeastOnce:
    worker, inflight = control.spec.worker_config, InFlight()
    return AtLeastOnce(
        control,
        producer,
        inflight,
        SourceOffsetCommitter(control, ports, inflight, producer.serve, OffsetUpdates.of_task(control, task)),
        TaskHooks(control, task),
        flush_interval_s=seconds(worker, "offset.flush.interval.ms"),
        stop_budget_s=_stop_budget_s(worker),
        tolerates_all=config.tolerates_errors,
    )


def _plain_producer(control: TaskControl, report_each: bool) -> RestingProducer:
    spec = control.spec
    settings, warnings = producer_config(spec.worker_config, spec.connector_config, client_id=_producer_id(control))
    warn(warnings)
    name, note = str(spec.id), partial(note_usage, control.counters)
    if report_each or "oauth_cb" in settings:  # the bulk client has no way to be given a token
        return RestingProducer(name, lambda: RecordProducer(settings, name, report_each=report_each, note_usage=note))
    return RestingProducer(name, lambda: BulkProducer(settings, name, note_usage=note))


def _producer_id(control: TaskControl) -> str:
    return f"connector-producer-{control.spec.id.connector}-{control.spec.id.task}"


def _producer_interceptors(control: TaskControl, ports: TaskPorts, client_id: str) -> Interceptors[ProducerInterceptor]:
    settings = producer_interceptors(control.spec.worker_config, control.spec.connector_config, client_id=client_id)
    return make_interceptors(ProducerInterceptor, settings, ports.plugins, control.in_stage, control.monitor)  # type: ignore[type-abstract]  # looks for a subclass


def _topic_creation(control: TaskControl) -> TopicCreation | None:
    """Creates a source's topics, if its config says how. Source: Worker.SourceTaskBuilder (Kafka 4.3)."""
    spec = control.spec
    if not worker_value(spec.worker_config, "topic.creation.enable"):
        if any(key.startswith("topic.creation.") for key in spec.connector_config):
            log.warning(
                "The topic.creation.* settings of %s have no effect because topic.creation.enable is false on the "
                "worker: missing topics are left to the broker (auto.create.topics.enable)",
                spec.id.connector,
            )
        return None
    groups = topic_groups(spec.connector_config)
    if not groups:
        return None
    settings, warnings = admin_config(
        spec.worker_config, spec.connector_config, client_id=f"connector-adminclient-{spec.id}"
    )
    warn(warnings)
    return TopicCreation(groups, control, lambda: KafkaAdmin(settings, f"the topics of {spec.id}"))


def _missing_topics(control: TaskControl, producer: NamesTopics) -> MissingTopics:
    may_be_made = bool(worker_value(control.spec.worker_config, "topic.creation.enable"))
    return MissingTopics(control, producer.topic_names, may_be_made=may_be_made)


def _require_one_of_one(transforms: TransformChain) -> None:
    """Errors: ConfigError for a chain in front of a sink of Java that may make several records of one offset."""
    if transforms.expands:
        raise ConfigError(
            "A transformation that makes several records of one, such as a query with explode(), cannot be used with a "
            "sink of Java: it may name files, or commit, between records of one offset.",
            hint="Keep the array, or write by a sink of kconnect: TableSink, SqlSink, ObjectSink.",
        )


def _sink_loop(control: TaskControl, ports: TaskPorts, closes: Closes) -> SinkLoop:
    spec = control.spec
    config = SinkConnectorConfig.parse(spec.connector_config)
    named = spec.task_config.get("task.class")
    task = make_task(spec.connector_config, ports.plugins, SinkTask, named)  # type: ignore[type-abstract]  # looks for a subclass
    chain = java_chain(config, spec.worker_config, ports.plugins) if isinstance(task, JavaSinkTask) else None
    stages = sink_stages(control, ports, type(task), in_java=chain is not None)
    closes.append(stages.close)
    consumer = _consumer(control, ports)
    closes.append(consumer.close)
    calling = partial(plugin_call, health=control.health)
    context = SinkContext(consumer, lambda: spec.task_config, control.monitor.of_task, stages.reporter)
    if isinstance(task, JavaSinkTask):
        _require_one_of_one(stages.transforms)
    return SinkLoop(
        control,
        SinkParts(
            calls=SinkCalls(task, spec.task_config, context, calling, stages.raw_records),
            forms=_sink_forms(control, task, chain, stages, calling),
            transforms=stages.transforms,
            converters=stages.converters,
            consumer=consumer,
            commit_times=CommitTimes(
                interval_s=seconds(spec.worker_config, "offset.flush.interval.ms"),
                timeout_s=seconds(spec.worker_config, "offset.flush.timeout.ms"),
                end_timeout_s=_stop_budget_s(spec.worker_config),
            ),
            topics=TopicPattern.of_sink(spec.worker_config, spec.connector_config) or config.topics,
            retry_delay_most_s=config.errors_retry_delay_max_ms / 1000,
            max_records=_fetch_size(spec.worker_config, spec.connector_config, task),
            tolerance=stages.tolerance,
            raw_records=stages.raw_records,
            errant=stages.errant,
            dead_letters=stages.dead_letters,
            clock=ports.clock,
        ),
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

    def conversion(self, used_topics: UsedTopics, *, takes_batches: bool) -> SinkConversion:
        """Of what is fetched, by these stages."""
        return SinkConversion(
            self.converters, self.transforms, self.raw_records, used_topics, takes_batches=takes_batches
        )

    def reporter(self) -> ErrantRecords | None:
        """What the task reports to, if anybody listens."""
        return self.errant.for_task() if self.raw_records.is_wanted else None

    def close(self) -> None:
        self.tolerance.close()
        self.transforms.close()
        self.converters.close()


def sink_stages(
    control: TaskControl, ports: TaskPorts, task_class: type[SinkTask], *, in_java: bool = False
) -> SinkStages:
    """The stages of a sink's config, as source_stages. Errors: ConfigError, NotFoundError for what its configs name."""
    spec = control.spec
    config = SinkConnectorConfig.parse(spec.connector_config)
    tolerance = _tolerance(control, config, ports)
    transforms, converters = _steps_and_converters(control, ports, config, tolerance, defers=in_java)
    raw_records = RawRecords(is_wanted=config.errors_log_enable or config.dead_letters is not None)
    with closed_if_it_fails() as closes:
        closes += [transforms.close, converters.close]
        dead_letters = _dead_letters(control, config, ports, raw_records)
    tolerance.report_to(
        [*_log_reporter(control, config, ports, raw_records), *([dead_letters] if dead_letters else [])]
    )
    control.count_with(partial(_count_errors, tolerance, control.health, dead_letters))
    errant = ErrantRecords(tolerance, task_class, raw_records, converters.unguarded().to_kafka_record)
    return SinkStages(tolerance, transforms, converters, raw_records, errant, dead_letters)


def _sink_forms(
    control: TaskControl, task: SinkTask, chain: JavaChain | None, stages: SinkStages, calling: Calling
) -> SinkForms:
    """Java's, where the whole chain of a sink is Java's; else ours."""
    if isinstance(task, JavaSinkTask):
        task.report_with(
            lambda run, error: stages.errant.report(reported_record(run), error),
            partial(raw_record, stages.raw_records),
        )
        if chain is not None:
            task.decode_with(chain)
            return JavaDecoding(task, stages.tolerance, control.used_topics, calling)
    return stages.conversion(control.used_topics, takes_batches=task.supports_batches)


def _consumer(control: TaskControl, ports: TaskPorts) -> SinkConsumer:
    spec = control.spec
    ids = {
        "client_id": f"connector-consumer-{spec.id.connector}-{spec.id.task}",
        "group_id": f"connect-{spec.id.connector}",
    }
    settings, warnings = consumer_config(spec.worker_config, spec.connector_config, **ids)
    warn(warnings)
    wanted = consumer_interceptors(spec.worker_config, spec.connector_config, **ids)
    interceptors = make_interceptors(ConsumerInterceptor, wanted, ports.plugins, control.in_stage, control.monitor)  # type: ignore[type-abstract]  # looks for a subclass
    reset = offset_reset(spec.worker_config, spec.connector_config)
    noted = partial(note_usage, control.counters)
    consumer = RecordConsumer(settings, str(spec.id), note_usage=noted, reset=reset)
    return InterceptedConsumer(consumer, interceptors) if interceptors else consumer


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
    producer_settings, warnings = producer_config(spec.worker_config, spec.connector_config, client_id=client_id)
    admin_settings, more = admin_config(
        spec.worker_config, spec.connector_config, client_id=f"connector-dlq-adminclient-{spec.id}"
    )
    warn([*warnings, *more])
    interceptors = _producer_interceptors(control, ports, client_id)
    producer = RecordProducer(producer_settings, f"the dead letters of {spec.id}", report_each=bool(interceptors))
    return DeadLetterQueue(
        settings,
        control,
        InterceptedProducer(producer, interceptors) if interceptors else producer,
        lambda: KafkaAdmin(admin_settings, f"the dead letters of {spec.id}"),
        raw_records,
        ports.plugins.java_name,
    )


def _stop_budget_s(worker: Mapping[str, str]) -> float:
    """How long a task's last commit may take: the host's timeout less time to stop the plugin and clients."""
    return min(seconds(worker, "offset.flush.timeout.ms"), seconds(worker, "task.shutdown.graceful.timeout.ms") * 0.6)


def _fetch_size(worker: Mapping[str, str], connector: Mapping[str, str], task: SinkTask) -> int:
    is_set = "consumer.max.poll.records" in worker or "consumer.override.max.poll.records" in connector
    if is_set or not task.supports_batches:
        return max_poll_records(worker, connector)
    return _JAVA_FETCH if isinstance(task, JavaSinkTask) else _COLUMNAR_FETCH

"""Builds a task's loop, ready to start, from its configs and plugins."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial
from typing import Protocol

from kconnect.api import (
    ConsumerInterceptor,
    SinkTask,
    SourceTask,
)
from kconnect.errors import ConfigError
from kconnect.java.plugins import JavaChain, JavaSinkTask, JavaSourceTask
from kconnect.model import ConnectorType, TaskSpec
from kconnect.runtime.config.client_config import (
    admin_config,
    consumer_config,
    consumer_interceptors,
    max_poll_records,
    offset_reset,
    producer_config,
    refuse_overrides,
)
from kconnect.runtime.config.connector_config import (
    SinkConnectorConfig,
    SourceConnectorConfig,
)
from kconnect.runtime.config.own_worker_keys import own_topics
from kconnect.runtime.config.topic_creation import topic_groups
from kconnect.runtime.config.topic_pattern import TopicPattern
from kconnect.runtime.config.worker_config import worker_value
from kconnect.runtime.kafka import BulkProducer, ConsumedRun, KafkaAdmin, RecordConsumer, RecordProducer
from kconnect.runtime.kafka.consumer_additions import LostJoins
from kconnect.runtime.pipeline.build_stages import SinkStages, interceptors_of_producer, sink_stages, source_stages
from kconnect.runtime.pipeline.build_transactions import note_usage, seconds, transactions_of, warn
from kconnect.runtime.pipeline.exactly_once import ExactlyOnce
from kconnect.runtime.pipeline.guarantee import AtLeastOnce, DeliveryGuarantee
from kconnect.runtime.pipeline.inflight import InFlight
from kconnect.runtime.pipeline.interceptors import (
    InterceptedConsumer,
    InterceptedProducer,
    make_interceptors,
)
from kconnect.runtime.pipeline.java_chain import JavaDecoding, JavaPolls, java_chain, raw_record, reported_record
from kconnect.runtime.pipeline.offset_updates import OffsetUpdates
from kconnect.runtime.pipeline.plugin_call import Calling, plugin_call
from kconnect.runtime.pipeline.plugin_parts import (
    Closes,
    closed_if_it_fails,
    make_task,
    parse_config,
)
from kconnect.runtime.pipeline.polled import polled_by
from kconnect.runtime.pipeline.ports import TaskControl, TaskPorts
from kconnect.runtime.pipeline.sink import SinkLoop, SinkParts
from kconnect.runtime.pipeline.sink_calls import SinkCalls
from kconnect.runtime.pipeline.sink_commits import CommitTimes
from kconnect.runtime.pipeline.sink_consumer import SinkConsumer
from kconnect.runtime.pipeline.sink_context import SinkContext
from kconnect.runtime.pipeline.sink_conversion import SinkForms
from kconnect.runtime.pipeline.source import SourceCalls, SourceContext, SourceLoop, SourceParts
from kconnect.runtime.pipeline.source_offsets import SourceOffsetCommitter
from kconnect.runtime.pipeline.task_hooks import TaskHooks, release, wants_each_record
from kconnect.runtime.pipeline.topics import MissingTopics, OtherTopics, SourceTopics, TopicCreation
from kconnect.runtime.pipeline.transform_chain import TransformChain
from kconnect.runtime.pipeline.unit_producer import IdleClosingProducer, TopicProducer
from kconnect.runtime.storage import CommittedOffsets

log = logging.getLogger(__name__)

# Nothing is read meanwhile, and a task that is stopped waits for it
_GROUP_ASKED_S = 3.0
# Records in one fetch of a columnar sink, unless max.poll.records says otherwise: between 2000 and 10000 it makes no
# difference (2.0 M records/s), with 50000 the fetched messages leave the CPU's cache (1.0 M/s).
_COLUMNAR_FETCH = 5_000
# The same of a Java sink: the objects of 2000 outlive no collection of a small heap. Collections took 0.03 us a record,
# with 5000 and a young generation of 5 MB 0.25 us.
_JAVA_FETCH = 2_000
OWN_OFFSETS = "Source tasks may not produce to their own offsets topics when exactly-once support is enabled"


def build_loop(control: TaskControl, ports: TaskPorts) -> SourceLoop | SinkLoop:
    """The loop of a task, not started. Errors: ConfigError, NotFoundError for what its configs name.

    What a failing build has opened is closed.
    """
    with closed_if_it_fails() as closes:
        return _loop(control, ports, closes)


def _loop(control: TaskControl, ports: TaskPorts, closes: Closes) -> SourceLoop | SinkLoop:
    refuse_overrides(control.spec.worker_config, control.spec.connector_config, _clients(control.spec))
    if control.spec.type is ConnectorType.SOURCE:
        return _source_loop(control, ports, closes)
    if control.spec.type is ConnectorType.SINK:
        return _sink_loop(control, ports, closes)
    # Of a connector that this worker lacks nobody knows the type: the search for it says what is missing
    ports.plugins.connector_class(control.spec.connector_config.get("connector.class", ""))
    raise ConfigError(f"Task {control.spec.id} is of type {control.spec.type}; only source and sink tasks can run")


def _clients(spec: TaskSpec) -> Collection[str]:
    """The kinds of Kafka clients that a task has."""
    config = spec.connector_config
    if (config.get("errors.deadletterqueue.topic.name") or "").strip():
        return "producer", "consumer", "admin"
    if spec.type is ConnectorType.SINK:
        return ("consumer",)
    makes_topics = any(key.startswith("topic.creation.") for key in config)
    return ("producer", "admin") if makes_topics else ("producer",)


def _source_loop(control: TaskControl, ports: TaskPorts, closes: Closes) -> SourceLoop:
    spec = control.spec
    config = parse_config(SourceConnectorConfig, spec.connector_config, ports.plugins)
    named = spec.task_config.get("task.class")
    task = make_task(spec.connector_config, ports.plugins, SourceTask, named)  # type: ignore[type-abstract]  # looks for a subclass
    closes.append(partial(release, task))
    interceptors = interceptors_of_producer(control, ports, _producer_id(control))
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
        # A task that reads its offsets would wait for its own transaction (ExactlyOnceWorkerSourceTask, Kafka 4.3)
        topics = OtherTopics(topics, {exactly_once.offsets_topic: OWN_OFFSETS})
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
        stages=stages,
        producer=InterceptedProducer(producer, interceptors) if interceptors else producer,
        topics=topics,
        stop_budget_s=_stop_budget_s(spec.worker_config),
        form_of=JavaPolls(stages.tolerance) if isinstance(task, JavaSourceTask) else polled_by,
    )
    return SourceLoop(control, parts, guarantee)


def source_topics(control: TaskControl, producer: NamesTopics) -> SourceTopics:
    """Creates missing topics if the config says how; else logs them."""
    topics = _topic_creation(control) or _missing_topics(control, producer)
    refused = own_topics(control.spec.worker_config)
    return OtherTopics(topics, refused) if refused else topics


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


def _plain_producer(control: TaskControl, report_each: bool) -> IdleClosingProducer:
    spec = control.spec
    settings, warnings = producer_config(spec.worker_config, spec.connector_config, client_id=_producer_id(control))
    warn(warnings)
    name, note = str(spec.id), partial(note_usage, control)
    if report_each or "oauth_cb" in settings:  # the bulk client has no way to be given a token
        return IdleClosingProducer(
            name, lambda: RecordProducer(settings, name, report_each=report_each, note_usage=note)
        )
    return IdleClosingProducer(name, lambda: BulkProducer(settings, name, note_usage=note))


def _producer_id(control: TaskControl) -> str:
    return f"connector-producer-{control.spec.id.connector}-{control.spec.id.task}"


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
    config = parse_config(SinkConnectorConfig, spec.connector_config, ports.plugins)
    named = spec.task_config.get("task.class")
    task = make_task(spec.connector_config, ports.plugins, SinkTask, named)  # type: ignore[type-abstract]  # looks for a subclass
    chain = java_chain(config, spec.worker_config, ports.plugins) if isinstance(task, JavaSinkTask) else None
    stages = sink_stages(control, ports, type(task), in_java=chain is not None)
    closes.append(stages.close)
    consumer = _consumer(control, ports, task)
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
            stages=stages,
            consumer=consumer,
            commit_times=CommitTimes(
                interval_s=seconds(spec.worker_config, "offset.flush.interval.ms"),
                timeout_s=seconds(spec.worker_config, "offset.flush.timeout.ms"),
                end_timeout_s=_stop_budget_s(spec.worker_config),
            ),
            topics=TopicPattern.of_sink(spec.worker_config, spec.connector_config) or config.topics,
            max_records=fetch_size(spec.worker_config, spec.connector_config, task),
            clock=ports.clock,
        ),
    )


def _sink_forms(
    control: TaskControl, task: SinkTask, chain: JavaChain | None, stages: SinkStages, calling: Calling
) -> SinkForms[ConsumedRun]:
    """Java's, where the whole chain of a sink is Java's; else ours."""
    if isinstance(task, JavaSinkTask):
        task.report_with(
            lambda run, error: stages.errant.report(reported_record(run), error),
            partial(raw_record, stages.raw_records),
        )
        if chain is not None:
            task.decode_with(chain)
            return JavaDecoding(task, stages.tolerance, control.used_topics, calling)
    return stages.conversion(
        control.used_topics, takes_batches=task.supports_batches, fewest_in_batch=task.fewest_in_batch
    )


def _consumer(control: TaskControl, ports: TaskPorts, task: SinkTask) -> SinkConsumer[ConsumedRun]:
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
    noted = partial(note_usage, control)
    group = str(settings["group.id"])
    joins = LostJoins(partial(_members, control, group))
    consumer = RecordConsumer(settings, str(spec.id), note_usage=noted, reset=reset, lost_joins=joins)
    if isinstance(task, JavaSinkTask):
        task.ask_consumer_by(consumer.answer)
    return InterceptedConsumer(consumer, interceptors) if interceptors else consumer


def _members(control: TaskControl, group: str) -> Collection[str]:
    """The ids of a group's members, asked by a client that is there for as long. Errors: ConnectError."""
    spec = control.spec
    client_id = f"connector-adminclient-{spec.id}"
    settings, _ = admin_config(spec.worker_config, spec.connector_config, client_id=client_id)
    with KafkaAdmin(settings, f"the group of {spec.id}") as admin:
        return admin.group_members(group, _GROUP_ASKED_S)


def _stop_budget_s(worker: Mapping[str, str]) -> float:
    """How long a task's last commit may take: the host's timeout less time to stop the plugin and clients."""
    return min(seconds(worker, "offset.flush.timeout.ms"), seconds(worker, "task.shutdown.graceful.timeout.ms") * 0.6)


def fetch_size(worker: Mapping[str, str], connector: Mapping[str, str], task: SinkTask) -> int:
    """The most records in one fetch of a sink."""
    is_set = "consumer.max.poll.records" in worker or "consumer.override.max.poll.records" in connector
    if is_set or not task.supports_batches:
        return max_poll_records(worker, connector)
    return _JAVA_FETCH if isinstance(task, JavaSinkTask) else _COLUMNAR_FETCH

"""Cases that move records: how many a second, and at what cost."""

from __future__ import annotations

import contextlib
import statistics
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bench.ground import (
    LINE_BYTES,
    Ground,
    Metrics,
    end_offsets,
    file_source,
    made_topic,
    running,
    stream,
)
from bench.meter import ProcessTree, cpu_us_per_record, sample_until, steady_rate
from bench.sides import Side, await_rest, delete_connector, put_connector

__all__ = [
    "FAMILIES",
    "beside_kcat",
    "dlq_idle",
    "file_to_topic",
    "java_file",
    "java_file_2",
    "java_json",
    "java_sink",
    "javas",
    "json_schemaless",
    "json_schemas",
    "python_source",
    "topic_to_file",
    "transformation",
    "two_sources",
]

_TRANSFORMS = {
    "transforms": "hoist,insert,route",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.insert.static.field": "source",
    "transforms.insert.static.value": "bench",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": "(.*)[.]raw",
    "transforms.route.replacement": "$1",
}
_PACKAGE = "org.apache.kafka.connect.transforms."
_HOIST = {"type": _PACKAGE + "HoistField$Value", "field": "line"}
_TIME = {"type": _PACKAGE + "InsertField$Value", "timestamp.field": "at", "static.field": "source", "static.value": "b"}
_HEADER = {"type": _PACKAGE + "InsertHeader", "header": "source", "value.literal": "bench"}
# The family that is measured is the last step; those before it make what it works on
FAMILIES: dict[str, tuple[dict[str, str], ...]] = {
    "cast": (_HOIST, _TIME, {"type": _PACKAGE + "Cast$Value", "spec": "at:int64"}),
    "drop-headers": (_HEADER, {"type": _PACKAGE + "DropHeaders", "headers": "source"}),
    "flatten": (_HOIST, {"type": _PACKAGE + "HoistField$Value", "field": "row"}, {"type": _PACKAGE + "Flatten$Value"}),
    "header-from": (
        _HOIST,
        _TIME,
        {"type": _PACKAGE + "HeaderFrom$Value", "fields": "source", "headers": "source", "operation": "move"},
    ),
    "insert-header": (_HEADER,),
    "set-schema-metadata": (_HOIST, {"type": _PACKAGE + "SetSchemaMetadata$Value", "schema.name": "row"}),
    "timestamp-converter": (
        _HOIST,
        _TIME,
        {
            "type": _PACKAGE + "TimestampConverter$Value",
            "field": "at",
            "target.type": "string",
            "format": "yyyy-MM-dd'T'HH:mm:ss.SSSX",
        },
    ),
    "timestamp-router": ({"type": _PACKAGE + "TimestampRouter", "topic.format": "${topic}"},),
    "sql": (
        _HOIST,
        {"type": "SqlTransform", "query": "SELECT upper(line) AS line FROM records WHERE length(line) > 10"},
    ),
    # What `sql` is compared with: the same without its last step
    "without-sql": (_HOIST,),
}
_QUEUE = {
    "errors.tolerance": "all",
    "errors.retry.timeout": "60000",
    "errors.log.enable": "true",
    "errors.deadletterqueue.topic.name": "dead-letters",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}
# Pairs of passes of one run: enough that their median settles; Java, which is only there to be seen, takes longer
_PAIRS = {"java": 2, "ours": 8}


def file_to_topic(side: str, ground: Ground) -> Metrics:
    """A file of lines into a topic of one partition."""
    with made_topic(ground, side, "file-to-topic") as topic, end_offsets(ground.bootstrap, topic) as progress:
        connector = file_source(topic, ground.input_file)
        with running(side, ground, topic, connector) as (worker, began):
            return stream(worker, began, ground, progress)


def java_file(side: str, ground: Ground) -> Metrics:
    """The same by Java's FileStreamSource on both sides: here in the JVM of a slot, with producing ours."""
    with made_topic(ground, side, "java-file") as topic, end_offsets(ground.bootstrap, topic) as progress:
        connector = javas(side, file_source(topic, ground.input_file))
        with running(side, ground, topic, connector) as (worker, began):
            return stream(worker, began, ground, progress)


def java_file_2(side: str, ground: Ground) -> Metrics:
    """Two of Java's FileStreamSource at once, each with all lines of the input, into one topic."""
    with made_topic(ground, side, "java-file-2") as topic, end_offsets(ground.bootstrap, topic) as progress:
        source = javas(side, file_source(topic, ground.input_file))
        two = ({**source, "name": f"{topic}-{number}"} for number in (1, 2))
        with running(side, ground, topic, *two) as (worker, began):
            return stream(worker, began, ground, progress, 2 * ground.lines)


def java_json(side: str, ground: Ground) -> Metrics:
    """Java's FileStreamSource through three of its transformations, as JSON with the schema beside each value."""
    return _file_to_json(side, ground, "java-json", "true", is_javas=True)


def java_sink(side: str, ground: Ground) -> Metrics:
    """The records of one topic into a file, by Java's FileStreamSink on both sides."""
    ground.fill_topic()
    name = ground.next_name(side, "java-sink")
    target = ground.folder / f"{name}.txt"
    try:
        with running(side, ground, name, javas(side, _sink(name, ground, target))) as (worker, began):
            return stream(worker, began, ground, lambda: _lines_in(target))
    finally:
        target.unlink(missing_ok=True)


def javas(side: str, connector: dict[str, str]) -> dict[str, str]:
    """The connector with Java's class on both sides."""
    if side == "java":
        return connector
    return {**connector, "connector.class": f"java:{connector['connector.class']}"}


def beside_kcat(side: str, ground: Ground) -> Metrics:
    """The same beside `kcat -P -l`, which is C on the library that we have: `times_kcat` is to be 0.9 at least."""
    with made_topic(ground, "kcat", "beside-kcat") as topic, end_offsets(ground.bootstrap, topic) as progress:
        kcat = _kcat(ground, topic, progress)
    ours = file_to_topic(side, ground)
    return {
        **ours,
        "kcat_per_s": kcat["records_per_s"],
        "times_kcat": ours["records_per_s"] / kcat["records_per_s"],
        "kcat_cpu_us": kcat["cpu_us_per_record"],
    }


def _kcat(ground: Ground, topic: str, progress: Callable[[], int]) -> Metrics:
    command = ["kcat", "-P", "-b", ground.bootstrap, "-t", topic, "-l", str(ground.input_file)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as kcat:
        try:
            # it ends once all is written, which may be between a look at the topic and one at it
            samples = sample_until(
                ground.lines, progress, ProcessTree(kcat.pid), lambda: not kcat.poll(), ground.deadline_s
            )
        finally:
            kcat.kill()
    return {"records_per_s": steady_rate(samples), "cpu_us_per_record": cpu_us_per_record(samples)}


def json_schemas(side: str, ground: Ground) -> Metrics:
    """The same through three transformations, as JSON with the schema beside each value."""
    return _file_to_json(side, ground, "json-schemas", "true")


def json_schemaless(side: str, ground: Ground) -> Metrics:
    """The same as JSON without schemas."""
    return _file_to_json(side, ground, "json-schemaless", "false")


def transformation(name: str) -> Callable[[str, Ground], Metrics]:
    """A case for one family: lines in a struct through it, as JSON with schemas; of headers and topics, as text."""

    def run(side: str, ground: Ground) -> Metrics:
        steps = FAMILIES[name]
        with made_topic(ground, side, name) as topic, end_offsets(ground.bootstrap, topic) as progress:
            connector = file_source(topic, ground.input_file) | _chained(steps)
            if steps[0] is _HOIST:
                connector["value.converter"] = "org.apache.kafka.connect.json.JsonConverter"
            with running(side, ground, topic, connector) as (worker, began):
                return stream(worker, began, ground, progress)

    family, is_json = FAMILIES[name][-1]["type"].removeprefix(_PACKAGE), FAMILIES[name][0] is _HOIST
    run.__doc__ = f"A file of lines through {family}, {'as JSON with schemas' if is_json else 'as text'}."
    return run


def _chained(steps: Sequence[Mapping[str, str]]) -> dict[str, str]:
    names = [f"t{number}" for number in range(len(steps))]
    settings = {"transforms": ",".join(names)}
    for name, step in zip(names, steps, strict=True):
        settings |= {f"transforms.{name}.{key}": value for key, value in step.items()}
    return settings


def _file_to_json(side: str, ground: Ground, case: str, schemas: str, *, is_javas: bool = False) -> Metrics:
    with made_topic(ground, side, case) as topic, end_offsets(ground.bootstrap, topic) as progress:
        connector = file_source(topic, ground.input_file) | {
            "topic": f"{topic}.raw",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": schemas,
            **_TRANSFORMS,
        }
        if is_javas:
            connector = javas(side, connector)
        with running(side, ground, topic, connector) as (worker, began):
            return stream(worker, began, ground, progress)


def python_source(side: str, ground: Ground) -> Metrics:
    """Plain lists of SourceRecord from a custom Python source, dicts of four fields, as JSON without schemas."""
    with made_topic(ground, side, "python-source") as topic, end_offsets(ground.bootstrap, topic) as progress:
        connector = {
            "name": topic,
            "connector.class": "NumbersSource",
            "tasks.max": "1",
            "topic": topic,
            "count": str(ground.lines),
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        }
        with running(side, ground, topic, connector) as (worker, began):
            return stream(worker, began, ground, progress)


def two_sources(side: str, ground: Ground) -> Metrics:
    """Two custom sources in two slots against one of them: `times_one` is to be 1.6 at least on two cores.

    What bounds it is Python in the slots: dicts from a custom source through three transformations, as JSON without
    schemas, some 8 us a record, all of it in one process for each source. The broker, on the same cores, takes its part
    for twice the records too: what is measured is what a user of one machine gets, less than two slots alone would do.
    One worker runs the one source to its end, then a second worker the two; a third of the lines each.
    """
    count = ground.lines // 3
    one, _ = _numbers(side, ground, 1, count)
    two, metrics = _numbers(side, ground, 2, count)
    return {"records_per_s": two, "one_per_s": one, "times_one": two / one, **metrics}


def _numbers(side: str, ground: Ground, sources: int, count: int) -> tuple[float, Metrics]:
    """Records/s of all sources together while all of them run, and the cost."""
    with contextlib.ExitStack() as stack:
        topics = [stack.enter_context(made_topic(ground, side, f"sources-{sources}")) for _ in range(sources)]
        ends = [stack.enter_context(end_offsets(ground.bootstrap, topic)) for topic in topics]
        connectors = [
            {
                "name": topic,
                "connector.class": "NumbersSource",
                "tasks.max": "1",
                "topic": f"{topic}.raw",
                "count": str(count),
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter.schemas.enable": "false",
                **_TRANSFORMS,
            }
            for topic in topics
        ]
        worker, _ = stack.enter_context(running(side, ground, f"{topics[0]}-worker", *connectors))
        tree = ProcessTree(worker.pid)
        samples = sample_until(
            count * sources, lambda: sum(end() for end in ends), tree, worker.is_alive, ground.deadline_s
        )
        return steady_rate(samples), {"cpu_us_per_record": cpu_us_per_record(samples)}


def topic_to_file(side: str, ground: Ground) -> Metrics:
    """The records of one topic into a file."""
    ground.fill_topic()
    name = ground.next_name(side, "topic-to-file")
    target = ground.folder / f"{name}.txt"
    try:
        with running(side, ground, name, _sink(name, ground, target)) as (worker, began):
            return stream(worker, began, ground, lambda: _lines_in(target))
    finally:
        target.unlink(missing_ok=True)


def dlq_idle(side: str, ground: Ground) -> Metrics:
    """The same with a dead letter queue that gets nothing: within 5 % of the same without, in records/s and CPU.

    One worker reads the topic again and again, by turns with and without, and each pass is compared with the other one
    of its pair, so that what the machine does meanwhile hits both. Metrics are medians of the passes with a queue;
    `rate_to_without` and `cpu_to_without` are medians of the pairs.
    """
    ground.fill_topic()
    pairs: list[tuple[Metrics, Metrics]] = []
    with running(side, ground, ground.next_name(side, "dlq-idle")) as (worker, _):
        await_rest(worker)
        _pass(side, ground, worker, {})  # warms up
        for number in range(_PAIRS[side]):
            turns = (_QUEUE, {}) if number % 2 == 0 else ({}, _QUEUE)
            first, second = (_pass(side, ground, worker, more) for more in turns)
            pairs.append((first, second) if turns[0] else (second, first))
    metrics = {name: statistics.median(queued[name] for queued, _ in pairs) for name in pairs[0][0]}
    ratios = {name: statistics.median(queued[name] / bare[name] for queued, bare in pairs) for name in metrics}
    return {
        **metrics,
        "rate_to_without": ratios["records_per_s"],
        "cpu_to_without": ratios["cpu_us_per_record"],
    }


def _pass(side: str, ground: Ground, worker: Side, more: dict[str, str]) -> Metrics:
    """The whole topic into a file, by a sink that is made for it and deleted after it."""
    name = ground.next_name(side, "dlq-pass")
    target = ground.folder / f"{name}.txt"
    try:
        put_connector(worker, _sink(name, ground, target) | more)
        tree = ProcessTree(worker.pid)
        samples = sample_until(ground.lines, lambda: _lines_in(target), tree, worker.is_alive, ground.deadline_s)
        delete_connector(worker, name)
    finally:
        target.unlink(missing_ok=True)
    return {"records_per_s": steady_rate(samples), "cpu_us_per_record": cpu_us_per_record(samples)}


def _sink(name: str, ground: Ground, target: Path) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "topics": ground.filled_topic,
        "file": str(target),
    }


def _lines_in(target: Path) -> int:
    return target.stat().st_size // (LINE_BYTES + 1) if target.exists() else 0

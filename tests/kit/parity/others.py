"""Camel, Iceberg, MirrorMaker, converters, config providers, and plugins that are only validated."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from kit.parity.sides import DUMP, Pair, Record, Side, totals_of
from kit.parity.table import Row
from kit.topics import create_topic, produce_lines
from kit.waiting import eventually

__all__ = [
    "compare_apicurio",
    "compare_camel_sinks",
    "compare_camel_sources",
    "compare_config_providers",
    "compare_iceberg",
    "compare_mirror",
    "compare_validated",
]

_STRING: Final = "org.apache.kafka.connect.storage.StringConverter"
_BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_ICEBERG_ROWS: Final = 20
_AVRO_LINES: Final = 40


def compare_camel_sources(pair: Pair, row: Row) -> None:
    """Camel's generic source over a file and a timer: a line each, ten ticks."""
    lines = pair.folder / "lines"
    for side in pair.sides:
        (lines / side.token).mkdir(parents=True)
        (lines / side.token / "in.txt").write_text("one\ntwo\nthree\n")

    def config(side: Side, url: str, topic: str) -> dict[str, str]:
        return {
            "connector.class": "org.apache.camel.kafkaconnector.CamelSourceConnector",
            "topics": f"{side.token}.{topic}",
            "camel.source.url": url,
            "value.converter": _STRING,
            "key.converter": _STRING,
        }

    urls = {
        "file": lambda side: f"file:{lines / side.token}?fileName=in.txt&noop=true&idempotent=true",
        "timer": lambda _: "timer:tick?period=50&repeatCount=10&includeMetadata=false",
        "nothing": lambda _: "nosuchcomponent:x",
    }
    names = list(urls)
    _compare_settings(pair, row, lambda side: config(side, "timer:tick", "x"))
    refused = pair.each(lambda side: {name: side.create(name, config(side, urls[name](side), name)) for name in names})
    row.compare("errors", *refused, "created")
    pair.each(lambda side: [side.await_started(name) for name in names])
    for name, least in (("file", 1), ("timer", 10)):
        found = pair.each(lambda side, name=name, least=least: [_camel(one) for one in side.records(name, least)])
        row.compare("records", *found, f"of {name}")
    row.compare("statuses", *pair.each(lambda side: {name: side.states(name) for name in names}), "connectors")
    _compare_failures(pair, row, ["nothing"])
    row.compare(
        "offsets", *pair.each(lambda side: {name: side.offsets(name) for name in ("file", "timer")}), "connectors"
    )
    row.compare("metrics", *totals_of(pair, ["file", "timer"]), "connectors")
    pair.each(lambda side: [side.delete(name) for name in names])


def compare_camel_sinks(pair: Pair, row: Row) -> None:
    """Camel's generic sink into a file, over HTTP, and into the log."""
    topic = f"camel-{uuid.uuid4().hex[:8]}"
    create_topic(pair.bootstrap, topic)
    produce_lines(pair.bootstrap, topic, ["one", "two", "three"])
    with _received() as (port, received):

        def config(side: Side, url: str) -> dict[str, str]:
            return {
                "connector.class": "org.apache.camel.kafkaconnector.CamelSinkConnector",
                "topics": topic,
                "camel.sink.url": url,
                "value.converter": _STRING,
                "key.converter": _STRING,
                "consumer.override.auto.offset.reset": "earliest",
            }

        urls = {
            "file": lambda side: f"file:{side.folder / 'camel-out'}?fileName=out.txt&fileExist=Append",
            "http": lambda side: f"http:127.0.0.1:{port}/{side.token}?httpMethod=POST",
            "log": lambda _: "log:parity?level=INFO",
        }
        names = list(urls)
        _compare_settings(pair, row, lambda side: config(side, "log:x"))
        row.compare(
            "errors",
            *pair.each(
                lambda side: {name: side.create(f"to-{name}", config(side, urls[name](side))) for name in names}
            ),
            "created",
        )

        def came(side: Side) -> dict[str, Any]:
            out = side.folder / "camel-out" / "out.txt"

            def all_there() -> dict[str, Any]:
                seen = {
                    "file": out.read_text() if out.exists() else "",
                    "http": [body for path, body in received if path == f"/{side.token}"],
                    "log": side.totals(["to-log"])["to-log"].get("sink-record-send-total", 0.0),
                }
                counts = seen["file"].count("three"), len(seen["http"]) // 3, seen["log"] // 3
                assert min(counts) >= 1, f"{seen}"
                return seen

            found: dict[str, Any] = eventually(all_there, 60, f"Camel has written at {side.name}", pause_s=0.5)
            return found

        row.compare("records", *pair.each(came), "sinks")
        own = [f"to-{name}" for name in names]
        row.compare("statuses", *pair.each(lambda side: {name: side.states(name) for name in own}), "connectors")
        row.compare("offsets", *pair.each(lambda side: {name: _committed(side, name, 3) for name in own}), "connectors")
        row.compare("metrics", *totals_of(pair, own), "connectors")
        pair.each(lambda side: [side.delete(name) for name in own])


def compare_iceberg(pair: Pair, row: Row) -> None:
    """Iceberg's sink into a table of a Hadoop catalog on disk."""
    topic = f"ice-{uuid.uuid4().hex[:8]}"
    create_topic(pair.bootstrap, topic)
    fields = [
        {"field": "id", "type": "int64", "optional": False},
        {"field": "name", "type": "string", "optional": True},
    ]
    schema = {"type": "struct", "optional": False, "fields": fields}
    rows = [json.dumps({"schema": schema, "payload": {"id": n, "name": f"n{n}"}}) for n in range(_ICEBERG_ROWS)]
    produce_lines(pair.bootstrap, topic, rows)
    for side in pair.sides:
        create_topic(pair.bootstrap, f"{side.token}-control")

    def config(side: Side) -> dict[str, str]:
        return {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            "topics": topic,
            "key.converter": _STRING,
            "iceberg.tables": "db.events",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.catalog": "cat",
            "iceberg.catalog.type": "hadoop",
            "iceberg.catalog.warehouse": str(side.folder / "warehouse"),
            "iceberg.control.topic": f"{side.token}-control",
            "iceberg.control.commit.interval-ms": "3000",
            "iceberg.control.commit.timeout-ms": "3000",
            "iceberg.kafka.auto.offset.reset": "earliest",
            "consumer.override.auto.offset.reset": "earliest",
        }

    _compare_settings(pair, row, config)
    row.compare("errors", *pair.each(lambda side: side.create("ice", config(side))), "created")
    pair.each(lambda side: side.await_started("ice"))

    def written(side: Side) -> list[dict[str, Any]]:
        import pyarrow.parquet as pq

        def all_there() -> list[dict[str, Any]]:
            table = side.folder / "warehouse" / "db" / "events"
            assert list(table.glob("metadata/snap-*.avro")), f"no snapshot in {table}"
            found = [one for file in sorted(table.rglob("*.parquet")) for one in pq.read_table(file).to_pylist()]
            assert len(found) >= _ICEBERG_ROWS, f"{len(found)} rows"
            return sorted(found, key=lambda one: int(one["id"]))

        seen: list[dict[str, Any]] = eventually(all_there, 60, f"Iceberg has committed at {side.name}", pause_s=0.5)
        return seen

    row.compare("records", *pair.each(written), "rows")
    row.compare("statuses", *pair.each(lambda side: side.states("ice")))
    row.compare("metrics", *totals_of(pair, ["ice"]), "connector")
    pair.each(lambda side: side.delete("ice"))


def compare_mirror(pair: Pair, row: Row) -> None:
    """MirrorMaker's source and heartbeats as connectors: a topic with keys and headers."""
    topic = f"mirrored-{uuid.uuid4().hex[:8]}"
    create_topic(pair.bootstrap, topic, partitions=2)
    for partition in (0, 1):
        produce_lines(pair.bootstrap, topic, [f"{partition} {n}" for n in range(50)], key=b"k", partition=partition)

    def config(side: Side, kind: str) -> dict[str, str]:
        return {
            "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
            "source.cluster.alias": side.token,
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": pair.bootstrap,
            "target.cluster.bootstrap.servers": pair.bootstrap,
            "topics": topic,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.location": "target",
            **{f"{part}.converter": _BYTES for part in ("key", "value", "header")},
        }

    _compare_settings(pair, row, lambda side: config(side, "Source"))
    row.compare("errors", *pair.each(lambda side: side.create("mm", config(side, "Source"))), "created")
    pair.each(lambda side: side.await_started("mm"))
    row.compare("records", *pair.each(lambda side: side.records(topic, 100)), "mirrored")
    row.compare("statuses", *pair.each(lambda side: side.states("mm")))

    def offsets(side: Side) -> Any:
        def whole() -> Any:
            found = side.offsets("mm")
            assert [one["offset"]["offset"] for one in found] == [49, 49], f"{found}"
            return found

        return eventually(whole, 30, "both partitions are committed")

    row.compare("offsets", *pair.each(offsets), "partitions")
    row.compare("metrics", *totals_of(pair, ["mm"]), "connector")
    pair.each(lambda side: side.delete("mm"))


def compare_apicurio(pair: Pair, row: Row, url: str) -> None:
    """Apicurio's Avro converter behind Kafka's file source: bytes that both write with one registry."""
    lines = pair.folder / "lines.txt"
    lines.write_text("".join(f"line {number}\n" for number in range(_AVRO_LINES)))

    def config(side: Side) -> dict[str, str]:
        java = "java:" if side is pair.ours else ""  # it has counterparts
        converter = {
            "": f"{java}io.apicurio.registry.utils.converter.AvroConverter",
            ".apicurio.registry.url": url,
            ".apicurio.registry.auto-register": "true",
            ".apicurio.registry.headers.enabled": "false",
            ".apicurio.registry.as-confluent": "true",
            ".apicurio.registry.use-id": "contentId",
        }
        return {
            "connector.class": f"{java}org.apache.kafka.connect.file.FileStreamSourceConnector",
            "topic": f"{side.token}.avro",
            "file": str(lines),
            "transforms": "hoist",
            "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.hoist.field": "line",
            **{f"value.converter{key}": value for key, value in converter.items()},
        }

    row.compare("errors", *pair.each(lambda side: side.create("avro", config(side))), "created")
    pair.each(lambda side: side.await_started("avro"))

    row.compare(
        "records", *pair.each(lambda side: side.records("avro", _AVRO_LINES)), "records with the registry's number"
    )
    row.compare("statuses", *pair.each(lambda side: side.states("avro")))
    row.compare("offsets", *pair.each(lambda side: side.offsets("avro")))
    row.compare("metrics", *totals_of(pair, ["avro"]), "connector")
    pair.each(lambda side: side.delete("avro"))


def compare_config_providers(pair: Pair, row: Row) -> None:
    """References of Strimzi's provider in a sink's config; the Kubernetes ones without a cluster."""
    topic = f"provided-{uuid.uuid4().hex[:8]}"
    create_topic(pair.bootstrap, topic)
    produce_lines(pair.bootstrap, topic, ["one"])

    def config(side: Side, reference: str) -> dict[str, str]:
        return {
            "connector.class": DUMP,
            "topics": topic,
            "out": str(side.folder / "provided"),
            "value.converter": _STRING,
            "transforms": "t",
            "transforms.t.type": "org.apache.kafka.connect.transforms.InsertHeader",
            "transforms.t.header": "home",
            "transforms.t.value.literal": reference,
            "consumer.override.auto.offset.reset": "earliest",
        }

    references = {
        "env": "${strimzienv:PARITY}",
        "env-missing": "${strimzienv:NOT_SET_AT_ALL}",
        "secret": "${strimzisecret:ns/name:key}",
    }
    refused = pair.each(lambda side: {name: side.create(name, config(side, one)) for name, one in references.items()})
    row.compare("errors", *({name: said[:60] for name, said in side.items()} for side in refused), "created")

    def lines(side: Side) -> list[str]:
        out = side.folder / "provided"
        found: list[str] = eventually(lambda: out.exists() and out.read_text().splitlines(), 60, "a record came")
        return [side.plain(line) for line in found if "from-the-environment" in line][:1]

    row.compare("records", *pair.each(lines), "with the value")
    row.compare("statuses", *pair.each(lambda side: side.states("env")))
    shown = pair.each(
        lambda side: side.ask("GET", f"/connectors/{side.named('env')}/config")[1].get("transforms.t.value.literal")
    )
    row.compare("settings", *shown, "shown as reference")
    pair.each(lambda side: [side.delete(name) for name in references])


def compare_validated(pair: Pair, row: Row, cls: str, config: Mapping[str, str]) -> None:
    """All settings of a connector as they are reported, with values and errors of a config."""
    _compare_settings(pair, row, lambda _: {"connector.class": cls, **config})


def _compare_settings(pair: Pair, row: Row, config_of: Callable[[Side], Mapping[str, str]]) -> None:
    def reported(side: Side) -> dict[str, Any]:
        config = config_of(side)
        path = f"/connector-plugins/{config['connector.class']}/config/validate"
        status, body = side.ask("PUT", path, {**config, "name": "x"})
        if status != 200:
            return {"refused": f"{status}: {body.get('message')}"[:300]}
        found = {one["definition"]["name"]: one for one in json.loads(side.plain(json.dumps(body)))["configs"]}
        return {key: one for key, one in found.items() if not _is_connects(key)}

    row.compare("settings", *pair.each(reported), "settings reported")


_OF_CONNECT: Final = frozenset(
    {
        "name",
        "connector.class",
        "connector.plugin.version",
        "tasks.max",
        "tasks.max.enforce",
        "topics",
        "topics.regex",
        "key.converter",
        "value.converter",
        "header.converter",
        "config.action.reload",
        "transforms",
        "predicates",
        "topic.creation.groups",
        "exactly.once.support",
        "transaction.boundary",
        "transaction.boundary.interval.ms",
        "offsets.storage.topic",
    }
)


def _is_connects(key: str) -> bool:
    """Connect's own settings, which are reported in our words."""
    return (
        key in _OF_CONNECT
        or key.startswith(
            (
                "errors.",
                "topic.creation.",
                "transforms.",
                "predicates.",
                "consumer.",
                "key.converter.",
                "value.converter.",
                "header.converter.",
            )
        )
        or key.endswith(".converter.plugin.version")
    )


def _compare_failures(pair: Pair, row: Row, names: list[str]) -> None:
    from kit.parity.sides import causes

    traces = pair.each(lambda side: {name: side.trace(name) for name in names})
    both = {name: causes(traces[0][name], traces[1][name]) for name in names}
    row.compare("errors", *({name: two[at] for name, two in both.items()} for at in (0, 1)), "failures")


def _camel(record: Record) -> dict[str, Any]:
    """Without times and names of files of the run."""
    headers = {key: data.decode("utf-8", "replace") if data else data for key, data in record.headers}
    kept = {
        key: "RUN" if any(word in key for word in ("Time", "timestamp", "Modified", "Id", "Uuid", "Date")) else value
        for key, value in headers.items()
    }
    return {"topic": record.topic, "key": record.key, "value": record.value, "headers": kept}


def _committed(side: Side, name: str, least: int) -> Any:
    def there() -> Any:
        found = side.offsets(name)
        assert sum(one["offset"]["kafka_offset"] for one in found) >= least, f"{found}"
        return found

    return eventually(there, 60, f"{name} has committed {least}", pause_s=0.3)


@contextmanager
def _received() -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """A server that keeps what is posted to it: its port, and paths with bodies."""
    found: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append((self.path, self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="received")
    thread.start()
    try:
        yield server.server_address[1], found
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)

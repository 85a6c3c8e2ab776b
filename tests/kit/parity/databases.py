"""Debezium beside Java Connect: the changes of a PostgreSQL and of a MariaDB, with signals, outbox and routing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg

from kit.mariadb import mariadb
from kit.parity.sides import Pair, Record, Side
from kit.parity.table import Row
from kit.postgres import logical_postgres
from kit.waiting import eventually

__all__ = ["compare_mariadb", "compare_postgres"]

_SIGNAL: Final = (
    "INSERT INTO signals VALUES ('s-1', 'execute-snapshot', "
    '\'{{"data-collections": ["{}.customers"], "type": "incremental"}}\')'
)
_TABLES: Final = (
    "CREATE TABLE customers (id int PRIMARY KEY, name varchar(40), amount decimal(10,2), born date)",
    "CREATE TABLE orders_1 (id int PRIMARY KEY, item varchar(40))",
    "CREATE TABLE orders_2 (id int PRIMARY KEY, item varchar(40))",
    "CREATE TABLE outbox (id varchar(36) PRIMARY KEY, aggregatetype varchar(40), aggregateid varchar(40), "
    "type varchar(40), payload text)",
    "CREATE TABLE signals (id varchar(42) PRIMARY KEY, type varchar(32), data text)",
    "INSERT INTO customers VALUES (1, 'Ada', 1.50, '1815-12-10'), (2, 'Grace', NULL, NULL)",
    "INSERT INTO customers VALUES (3, 'Zoë', -7.25, '2000-02-29')",
    "INSERT INTO orders_1 VALUES (1, 'pen')",
    "INSERT INTO orders_2 VALUES (1, 'ink')",
)
_CHANGES: Final = (
    "UPDATE customers SET name = 'Ada L.' WHERE id = 1",
    "DELETE FROM customers WHERE id = 3",
    "INSERT INTO customers VALUES (4, 'Edith', 0.01, '1999-12-31')",
    "INSERT INTO orders_1 VALUES (2, 'paper')",
    "UPDATE orders_2 SET item = 'blue ink' WHERE id = 1",
    "INSERT INTO outbox VALUES ('u-1', 'invoice', '77', 'InvoiceMade', '{\"total\": 7}')",
)
_ALTERED: Final = "ALTER TABLE orders_1 ADD COLUMN note varchar(10) DEFAULT 'none'"
_ROUTED: Final = {
    "transforms": "outbox,shards",
    "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "transforms.outbox.predicate": "isOutbox",
    "transforms.outbox.table.expand.json.payload": "true",
    "transforms.shards.type": "io.debezium.transforms.ByLogicalTableRouter",
    "transforms.shards.topic.regex": r"(.*)orders_\d",
    "transforms.shards.topic.replacement": "$1orders",
    "transforms.shards.predicate": "isShard",
    "predicates": "isOutbox,isShard",
    "predicates.isOutbox.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.isOutbox.pattern": r".*\.outbox",
    "predicates.isShard.type": "org.apache.kafka.connect.transforms.predicates.TopicNameMatches",
    "predicates.isShard.pattern": r".*orders_\d",
    "heartbeat.interval.ms": "700",
    "poll.interval.ms": "50",
    "tasks.max": "1",
}


def compare_postgres(pair: Pair, row: Row) -> None:
    """A snapshot, changes, an incremental snapshot that a signal asks for, and a plugin whose server is away."""
    with logical_postgres() as (uri, port), psycopg.connect(uri, autocommit=True) as db:
        for statement in _TABLES:
            db.execute(statement)

        def config(side: Side) -> dict[str, str]:
            return {
                **_ROUTED,
                "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
                "database.hostname": "127.0.0.1",
                "database.port": str(port),
                "database.user": "postgres",
                "database.password": "unused",
                "database.dbname": "postgres",
                "plugin.name": "pgoutput",
                **_topics(side, "pg"),
                "table.include.list": "public.(customers|orders_.|outbox|signals)",
                "signal.data.collection": "public.signals",
                "slot.name": side.token,
                "publication.name": side.token,
            }

        def follows(side: Side) -> None:
            query = "SELECT 1 FROM pg_replication_slots WHERE active AND slot_name = %s"
            eventually(lambda: db.execute(query, [side.token]).fetchone(), 60, f"{side.name} follows")

        _compare(pair, row, "pg", config, follows, db.execute, [*_CHANGES, _SIGNAL.format("public")])


def compare_mariadb(pair: Pair, row: Row, folder: Path) -> None:
    """The same of a MariaDB, whose schema changes are followed as well."""
    with mariadb(folder, is_followed=True) as server:
        schema = server.make_schema("shop")
        user = "'connect'@'127.0.0.1'"
        rights = "SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT, BINLOG MONITOR"
        server.run(f"GRANT {rights} ON *.* TO {user}")
        server.run(*_TABLES, schema=schema)
        own = server.settings(schema)

        def config(side: Side) -> dict[str, str]:
            return {
                **_ROUTED,
                "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
                "database.hostname": "127.0.0.1",
                "database.port": str(server.port),
                "database.user": own["connection.user"],
                "database.password": own["connection.password"],
                "database.server.id": "5401" if side is pair.java else "5402",
                "database.include.list": schema,
                **_topics(side, "my"),
                "signal.data.collection": f"{schema}.signals",
                "schema.history.internal.kafka.bootstrap.servers": pair.bootstrap,
                "schema.history.internal.kafka.topic": f"{side.token}-history",
                "include.schema.changes": "true",
            }

        def follows(side: Side) -> None:
            def has_offset() -> bool:
                assert side.offsets("my"), "no offset yet"
                return bool(
                    server.run("SELECT 1 FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'")
                )

            eventually(has_offset, 90, f"{side.name} follows")

        changes = [*_CHANGES, _ALTERED, _SIGNAL.format(schema)]
        _compare(pair, row, "my", config, follows, lambda one: server.run(one, schema=schema), changes)


def _topics(side: Side, name: str) -> dict[str, str]:
    prefix = f"{side.token}.{name}"
    return {
        "topic.prefix": prefix,
        "topic.heartbeat.prefix": f"{prefix}-heartbeat",
        "transforms.outbox.route.topic.replacement": f"{prefix}.outbox.${{routedByValue}}",
    }


def _compare(
    pair: Pair,
    row: Row,
    name: str,
    config: Callable[[Side], Mapping[str, str]],
    follows: Callable[[Side], None],
    run: Callable[[str], Any],
    changes: Sequence[str],
) -> None:
    cls = config(pair.java)["connector.class"]
    row.compare("settings", *pair.each(lambda side: _validated(side, cls, config(side))), "settings reported")
    refused = pair.each(lambda side: side.create(name, config(side)))
    assert refused == ("", ""), f"{refused}"
    pair.each(lambda side: side.await_started(name))
    pair.each(follows)
    for statement in changes:
        run(statement)
    # 5 rows; 6 changes and the tombstone of the deleted one; the signal; the 3 rows of the snapshot that it asks for
    least = 5 + 7 + 1 + 3
    found = pair.each(lambda side: side.records(name, least))
    java, ours = ([_comparable(record) for record in side] for side in found)
    for heading, chosen in _parts(java, ours):
        row.compare("records", *chosen, heading)
    row.compare("statuses", *pair.each(lambda side: side.states(name)))
    row.compare("offsets", *pair.each(lambda side: [_masked(one) for one in side.offsets(name)]))
    away = {"database.port": "1", "database.password": "wrong"}
    java_said, we_said = pair.each(lambda side: side.create(f"{name}-away", {**config(side), **away}))
    if java_said.startswith("500") and we_said.startswith("400"):
        row.say(
            "errors", "server away: Java answers 500 with a NullPointerException of its own, here 400 with the reason"
        )
    else:
        row.compare("errors", java_said, we_said, "server away")
    row.compare("metrics", *pair.each(lambda side: _without_heartbeats(side.totals([name])[name])))
    pair.each(lambda side: side.delete(name))


def _validated(side: Side, cls: str, config: Mapping[str, str]) -> dict[str, Any]:
    """What is reported of the plugin's own settings; for Connect's only the errors."""
    _, body = side.ask("PUT", f"/connector-plugins/{cls}/config/validate", {**config, "name": side.named("x")})
    found = {one["definition"]["name"]: one for one in json.loads(side.plain(json.dumps(body)))["configs"]}
    own = [key for key, one in found.items() if one["definition"]["group"] not in _CONNECTS]
    return {key: found[key] for key in own if not key.startswith(("transforms", "predicates"))}


_CONNECTS: Final = (
    "Common",
    "Transforms",
    "Predicates",
    "Error Handling",
    "Topic Creation",
    "Exactly Once Support",
    "offsets.topic",
)


def _parts(java: Sequence[Any], ours: Sequence[Any]) -> Iterator[tuple[str, tuple[list[Any], list[Any]]]]:
    """By topic, in order; how often a heartbeat came is a matter of time: only what it looks like counts."""
    topics = sorted({one["topic"] for one in (*java, *ours)})
    beats = [topic for topic in topics if "heartbeat" in topic]
    both = [[one for one in side if one["topic"] not in beats] for side in (java, ours)]
    counts = [dict(Counter(one["topic"] for one in side)) for side in both]
    yield (
        f"records of {len(topics) - len(beats)} topics" if counts[0] == counts[1] else f"records ({counts})",
        (both[0], both[1]),
    )
    seen = [[one for one in side if one["topic"] in beats][:1] for side in (java, ours)]
    yield "heartbeats", (seen[0], seen[1])


def _comparable(record: Record) -> dict[str, Any]:
    """Without times of the run and without where a snapshot stood: both sides made one of their own."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "key": _masked(_parsed(record.key)),
        "value": _masked(_parsed(record.value)),
        "headers": [(key, "RUN" if key in _OF_RUN else _masked(_parsed(data))) for key, data in record.headers],
        "has time": record.has_time,
    }


def _parsed(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return data.decode("utf-8", "replace")


_IN_FLIGHT: Final = 2
_OF_RUN: Final = ("__debezium.context.runId",)
_OF_TIME: Final = re.compile(r"ts_(ms|us|ns)|ts_(usec|sec|nsec)")
_OF_PLACE: Final = (
    "lsn",
    "txId",
    "xmin",
    "sequence",
    "lsn_commit",
    "lsn_proc",
    "pos",
    "gtid",
    "row",
    "thread",
    "server_id",
    "messageType",
)


def _masked_member(key: str, value: Any, *, is_snapshot: bool) -> Any:
    if _OF_TIME.fullmatch(key) and isinstance(value, int):
        return "TIME"
    return "PLACE" if key in _OF_PLACE and (is_snapshot or key == "lsn_proc") else _masked(value)


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        is_snapshot = value.get("snapshot") not in (None, "false", False)
        return {key: _masked_member(key, one, is_snapshot=is_snapshot) for key, one in value.items()}
    if isinstance(value, list):
        return [_masked(one) for one in value]
    return value


def _without_heartbeats(totals: Mapping[str, float]) -> dict[str, float]:
    """Whether what was polled is written, but for heartbeats of this moment, and all else."""
    own = dict(totals)
    polled, written = own.pop("source-record-poll-total"), own.pop("source-record-write-total")
    own["polled are written"] = float(written > 0 and polled - written <= _IN_FLIGHT)
    return own

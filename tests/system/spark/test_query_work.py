"""What queries do with records: dead letters, joins, windows, new topics, databases. All of it in one worker."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest

from kconnect.client import ConnectClient
from kconnect.java.devbroker import DevBroker
from kconnect.model import ConnectorOffset, RunState
from kit.cli import cli_run
from kit.debezium import debezium_plugin_path
from kit.distributed_worker import Distributed
from kit.ports import free_port
from kit.postgres import Door, socket_of
from kit.topics import committed_values, consume, create_topic, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(400)]

_WORKER = {
    "kconnect.slots": "1",
    "exactly.once.source.support": "enabled",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
_HOUR = 3_600_000


def test_what_queries_do_with_records(broker: DevBroker, postgres_uri: str, topic: str, tmp_path: Path) -> None:
    with Door(socket_of(postgres_uri), free_port()) as door:  # nobody else is given it while the door is shut
        world = _World(broker, topic, tmp_path, postgres_uri, door)
        jar = next((debezium_plugin_path() / "debezium-connector-postgres").glob("postgresql-*.jar"))
        connectors = world.connectors()
        with Distributed(tmp_path, broker.bootstrap, f"{topic}-group", {**_WORKER, "spark.jars": str(jar)}) as worker:
            worker.start(120)
            with worker.client() as client:
                for name, config in connectors.items():
                    client.put_connector_config(name, config)
                world.sees_letters(client)
                world.sees_letters_once(client)
                world.sees_letters_of_a_source(client)
                world.sees_joins()
                world.sees_windows()
                world.sees_late_records()
                world.sees_new_topics(client)
                world.sees_the_database(worker, client)
                world.sees_types_of_a_table(client)
                _shows_queries(client, worker, set(connectors))
                world.sees_offsets(worker, client)
                world.sees_what_is_wrong(worker, client)
            worker.stop()


class _World:
    """Topics, folders and tables, and the connectors between them."""

    def __init__(self, broker: DevBroker, topic: str, folder: Path, uri: str, door: Door) -> None:
        self.broker, self.topic, self.folder, self.uri, self.door = broker, topic, folder, uri, door
        self.shop, self.orders, self.prices = (f"{name}_{topic[-6:]}" for name in ("shop", "orders", "prices"))
        names = ("mixed", "orders", "at", "late", "grown", "many-1", "rows", "prices")
        self.topics = {name: f"{topic}-{name}" for name in names}
        for name, full in self.topics.items():
            create_topic(broker.bootstrap, full, partitions=2 if name == "grown" else 1)
        self.send("mixed", [{"id": 1}, "{", {"id": "x"}, {"id": 2}, {"id": 3, "more": 1}])
        self.send("orders", [{"id": n, "country": "de" if n % 2 else "fr", "before": n - 1} for n in range(10)])
        times = [10, 20, _HOUR + 5, 3 * _HOUR]  # the last one ends the first two hours, and is in none of them
        self.send("at", [{"id": n, "at_ms": at} for n, at in enumerate(times)])
        self.send("late", [{"id": 0, "at": "1970-01-01T01:00:00.010+01:00"}, {"id": 1, "at": 20}])
        self.send("late", [{"id": 2, "at": _HOUR + 5}, {"id": 3, "at": 3 * _HOUR}])
        self.send("grown", [{"id": 1, "price": None}])
        self.send("many-1", [{"id": 1}])
        self.send("prices", [{"id": 1, "price": 5}, {"id": 2, "price": 5.5}, {"id": 3, "price": 7}])
        (folder / "countries").mkdir()
        (folder / "countries" / "all.json").write_text(
            '{"code": "de", "name": "Germany"}\n{"code": "fr", "name": "France"}\n'
        )
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(f"CREATE TABLE {self.shop} (id bigint PRIMARY KEY, name text, at timestamptz)")
            connection.execute(f"INSERT INTO {self.shop} VALUES (0, 'zero', now())")
            price = "price bigint, note text NOT NULL DEFAULT 'none'"
            connection.execute(f"CREATE TABLE {self.prices} (id bigint PRIMARY KEY, {price})")
            connection.execute(f"INSERT INTO {self.shop} SELECT n, n, now() FROM generate_series(1, 99) n")

    def send(self, name: str, values: Iterable[Any], partition: int = 0) -> None:
        texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
        produce_lines(self.broker.bootstrap, self.topics[name], texts, partition=partition)

    def connectors(self) -> dict[str, dict[str, str]]:
        at = self.topics
        jdbc = {"spark.format": "jdbc", "spark.options.url": f"jdbc:postgresql://127.0.0.1:{self.door.port}/postgres"}
        jdbc |= {"spark.options.user": "postgres", "spark.options.driver": "org.postgresql.Driver"}
        pairs = "select a.id, b.id as next from records a join records b on b.before = a.id"
        return {
            "letters": self._into("mixed", "letters")
            | {
                "spark.schema": "id bigint",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": f"{self.topic}-dlq",
                "errors.deadletterqueue.topic.replication.factor": "1",
                "errors.deadletterqueue.context.headers.enable": "true",
            },
            "joined": self._into("orders", "joined")
            | {
                "spark.query": f"select r.id, c.name from records r "
                f"join json.`{self.folder / 'countries'}` c on r.country = c.code",
                "tasks.max": "3",
            },
            "pairs": self._into("orders", "pairs")
            | {"spark.query": pairs, "spark.checkpoint": str(self.folder / "pairs-state")},
            "hours": self._into("at", "hours")
            | {
                "spark.query": "select window(at, '1 hour').start as hour, count(*) as records from "
                "records group by window(at, '1 hour')",
                "spark.watermark": "at 10 minutes",
                "spark.checkpoint": str(self.folder / "hours-state"),
                "spark.schema": "id bigint, at timestamp",
                "transforms": "name,time",
                "transforms.name.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
                "transforms.name.renames": "at_ms:at",
                "transforms.time.type": "org.apache.kafka.connect.transforms.TimestampConverter$Value",
                "transforms.time.field": "at",
                "transforms.time.target.type": "Timestamp",
            },
            # JSON without schema: what times are is declared alone
            "late": self._into("late", "late")
            | {
                "spark.query": "select unix_millis(window(at, '1 hour').start) as hour, count(*) as records from "
                "records group by window(at, '1 hour')",
                "spark.watermark": "at 10 minutes",
                "spark.checkpoint": str(self.folder / "late-state"),
                "value.schema": "id bigint, at timestamp",
            },
            "grown": self._into("grown", "grown")
            | {
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": f"{self.topic}-grown-dlq",
                "errors.deadletterqueue.topic.replication.factor": "1",
                "schema.contract.junk": "discard-value",
                "schema.contract.spam": "discard-row",
            },
            "many": {key: value for key, value in self._into("many-1", "many").items() if key != "topics"}
            | {"topics.regex": f"{self.topic}-many-.*", "spark.query": "select id, _topic as topic from records"},
            "to-shop": {
                **self._into("orders", "unused"),
                **jdbc,
                "spark.options.dbtable": self.orders,
                "spark.query": "select id, country from records",
            },
            "to-prices": {
                **self._into("prices", "unused"),
                **jdbc,
                "spark.options.dbtable": self.prices,
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": f"{self.topic}-prices-dlq",
                "errors.deadletterqueue.topic.replication.factor": "1",
            },
            "from-shop": {
                "connector.class": "SparkSource",
                "topic": at["rows"],
                "spark.trigger.ms": "100",
                **jdbc,
                "spark.options.dbtable": self.shop,
                "cursor.column": "id",
                "spark.max.records": "60",
                "transforms": "number",
                "transforms.number.type": "org.apache.kafka.connect.transforms.Cast$Value",
                "transforms.number.spec": "name:int32",
                "errors.tolerance": "all",
                "errors.deadletterqueue.topic.name": f"{self.topic}-source-dlq",
                "errors.deadletterqueue.topic.replication.factor": "1",
            },
        }

    def _into(self, topic: str, folder: str) -> dict[str, str]:
        return {
            "connector.class": "SparkSink",
            "topics": self.topics[topic],
            "spark.trigger.ms": "100",
            "spark.format": "parquet",
            "spark.options.path": str(self.folder / folder),
        }

    def rows(self, folder: str) -> list[dict[str, Any]]:
        files = [file for file in sorted((self.folder / folder).glob("*.parquet")) if file.stat().st_size]
        return [row for file in files for row in pq.read_table(file).to_pylist()]

    def sees_letters(self, client: ConnectClient) -> None:
        eventually(lambda: {row["id"] for row in self.rows("letters")} == {1, 2, 3}, 60, "good records are written")
        letters = consume(self.broker.bootstrap, f"{self.topic}-dlq", 2)
        assert [letter.value() for letter in letters] == [b"{", b'{"id": "x"}']
        headers = [{name: value.decode() for name, value in letter.headers() or []} for letter in letters]
        assert [each["__connect.errors.offset"] for each in headers] == ["1", "2"]
        assert [each["__connect.errors.stage"] for each in headers] == ["VALUE_CONVERTER", "TRANSFORMATION"]
        assert "Field id does not fit its column of type bigint" in headers[1]["__connect.errors.exception.message"]
        for name in ("deadletterqueue_produce_requests", "total_records_skipped", "total_record_errors"):
            full = f"kafka_connect_task_error_metrics_{name}"
            eventually(lambda full=full: _metric(client, full, "letters") == self._letters(), 20, f"{name} has all")

    def _letters(self) -> int:
        return len(committed_values(self.broker.bootstrap, f"{self.topic}-dlq"))

    def sees_letters_once(self, client: ConnectClient) -> None:
        """A batch with a new field is read again, its other partition too; each dead letter is written once.

        What contracts leave out is counted once as well.
        """
        eventually(lambda: {row["id"] for row in self.rows("grown")} == {1}, 60, "the first record")
        self.send("grown", ["{", {"id": 2, "more": "x", "price": 3.5}, "[", {"id": 3}])
        eventually(lambda: {row["id"] for row in self.rows("grown")} == {1, 2, 3}, 60, "the new field is a column")
        assert [row["more"] for row in self.rows("grown") if row.get("more")] == ["x"]
        assert [row["price"] for row in self.rows("grown") if row.get("price")] == [3.5], "it was null at first"
        client.pause_connector("grown")
        eventually(lambda: client.connector_status("grown").tasks[0].state is RunState.PAUSED, 30, "it is paused")
        self.send("grown", ["<", {"id": 4}])  # read to its end before the second partition, whose new fields end that
        self.send("grown", [">", {"id": 5, "inner": {"a": 1}}], partition=1)
        client.resume_connector("grown")
        eventually(lambda: {row["id"] for row in self.rows("grown")} == {1, 2, 3, 4, 5}, 60, "one more is a column")
        client.pause_connector("grown")
        eventually(lambda: client.connector_status("grown").tasks[0].state is RunState.PAUSED, 30, "it is paused")
        self.send("grown", ["!", {"id": 6, "inner": {"a": 2}, "junk": "x"}, {"id": 9, "spam": 1}])
        self.send("grown", [{"id": 7, "inner": {"a": 3, "b": "y"}, "junk": "y"}], partition=1)
        self.send("grown", [{"id": 8, "price": "much"}], partition=1)  # the next start would look at it
        client.resume_connector("grown")
        eventually(lambda: {row["id"] for row in self.rows("grown")} == set(range(1, 9)), 60, "a member more")
        rows = sorted(self.rows("grown"), key=lambda row: int(row["id"]))
        assert (rows[7]["price"], rows[7]["price__v_text"]) == (None, "much"), "a column stays what it was"
        assert [row["inner"] for row in rows[4:7]] == [{"a": 1}, {"a": 2, "b": None}, {"a": 3, "b": "y"}]
        letters = committed_values(self.broker.bootstrap, f"{self.topic}-grown-dlq")
        assert sorted(letter or b"" for letter in letters) == sorted([b"{", b"[", b"<", b">", b"!"])
        full = "kafka_connect_task_error_metrics_total_record_errors"
        eventually(lambda: _metric(client, full, "grown") == 5, 20, "each is counted once")
        for name, count in (("values", 2), ("records", 1)):
            full = f"kafka_connect_plugins_{name}_discarded_total"
            eventually(lambda full=full, count=count: _metric(client, full, "grown") == count, 20, f"{name} left out")

    def sees_letters_of_a_source(self, client: ConnectClient) -> None:
        (letter,) = consume(self.broker.bootstrap, f"{self.topic}-source-dlq", 1)
        assert b'"zero"' in (letter.value() or b"")
        full = "kafka_connect_task_error_metrics_deadletterqueue_produce_requests"
        eventually(lambda: _metric(client, full, "from-shop") == 1, 20, "the dead letter is counted")

    def sees_joins(self) -> None:
        wanted = {(n, "Germany" if n % 2 else "France") for n in range(10)}
        eventually(lambda: {(row["id"], row["name"]) for row in self.rows("joined")} == wanted, 60, "a table is joined")
        pairs = {(n, n + 1) for n in range(9)}
        eventually(lambda: {(row["id"], row["next"]) for row in self.rows("pairs")} == pairs, 90, "records are joined")

    def sees_windows(self) -> None:
        eventually(lambda: {row["records"] for row in self.rows("hours")} == {1, 2}, 90, "hours that are over")

    def sees_late_records(self) -> None:
        def hours() -> dict[int, int]:
            rows = [(row["hour"] // _HOUR, row["records"]) for row in self.rows("late")]
            assert len(dict(rows)) == len(rows), f"an hour is written once: {rows}"
            return dict(rows)

        eventually(lambda: hours() == {0: 2, 1: 1}, 90, "hours that are over")
        late, in_time = {"id": 4, "at": 30}, {"id": 5, "at": 3 * _HOUR - 300_000}
        self.send("late", [late, in_time, {"id": 6, "at": 6 * _HOUR}])
        eventually(lambda: hours() == {0: 2, 1: 1, 2: 1, 3: 1}, 90, "what is too late is in no hour")

    def sees_new_topics(self, client: ConnectClient) -> None:
        eventually(lambda: {row["id"] for row in self.rows("many")} == {1}, 60, "the first topic")
        self.topics["many-2"] = f"{self.topic}-many-2"
        create_topic(self.broker.bootstrap, self.topics["many-2"])
        eventually(
            lambda: _offset(client, "many", self.topics["many-2"]) == 0, 60, "the batch without records is reported"
        )
        assert client.topics("many") == [self.topics["many-1"]], "none of the other has come"
        self.send("many-2", [{"id": 2}])
        eventually(lambda: {row["id"] for row in self.rows("many")} == {1, 2}, 60, "a topic that is new")
        assert {row["topic"] for row in self.rows("many")} == {self.topics["many-1"], self.topics["many-2"]}

    def sees_the_database(self, worker: Distributed, client: ConnectClient) -> None:
        with psycopg.connect(self.uri, autocommit=True) as connection:

            def orders() -> int:
                if connection.execute("SELECT to_regclass(%s)", [self.orders]).fetchone() == (None,):
                    return 0
                return int(connection.execute(f"SELECT count(DISTINCT id) FROM {self.orders}").fetchall()[0][0])

            eventually(lambda: len(self._rows_in_topic()) == 99, 60, "the table is in the topic")
            eventually(lambda: orders() == 10, 60, "the topic is in a table")
            connection.execute(f"INSERT INTO {self.shop} SELECT n, n, now() FROM generate_series(100, 149) n")
            eventually(lambda: len(self._rows_in_topic()) == 149, 30, "new rows follow")
            port = self.door.port
            self.door.__exit__()
            said = rf"Query from-shop will start again in \d+ s: Connection to 127.0.0.1:{port} refused"
            eventually(lambda: re.search(said, worker.log_text()), 60, "it is said that the database is gone")
            connection.execute(f"INSERT INTO {self.shop} SELECT n, n, now() FROM generate_series(150, 159) n")
            with Door(socket_of(self.uri), port):
                eventually(lambda: len(self._rows_in_topic()) == 159, 60, "it goes on when the database is back")
            assert sorted(row["id"] for row in self._rows_in_topic()) == list(range(1, 160))

    def sees_types_of_a_table(self, client: ConnectClient) -> None:
        """PostgreSQL would round a number for a column of bigint; a column that no record has gets its default."""
        with psycopg.connect(self.uri, autocommit=True) as connection, Door(socket_of(self.uri), self.door.port):

            def rows() -> list[Any]:
                return connection.execute(f"SELECT id, price, note FROM {self.prices} ORDER BY id").fetchall()

            eventually(lambda: rows() == [(1, 5, "none"), (3, 7, "none")], 60, "what fits is in the table")
            client.pause_connector("to-prices")
            eventually(lambda: client.connector_status("to-prices").tasks[0].state is RunState.PAUSED, 30, "it pauses")
            self.send("prices", [{"id": 4, "price": 1.25}, {"id": 5, "price": 9, "note": "new"}])
            client.restart_connector("to-prices", include_tasks=True)
            client.resume_connector("to-prices")
            eventually(lambda: rows()[2:] == [(5, 9, "new")], 60, "the next start asks the table as well")
        letters = committed_values(self.broker.bootstrap, f"{self.topic}-prices-dlq")
        assert [json.loads(letter or b"")["id"] for letter in letters] == [2, 4]

    def sees_offsets(self, worker: Distributed, client: ConnectClient) -> None:
        """Exported, reset and imported on the topics, each seen in the data; 159 rows are there."""
        home, file = worker.folder / "cli", worker.folder / "saved.json"
        direct = {"KCONNECT_WORKER": str(worker.files[0]), "KCONNECT_URL": worker.url}
        with psycopg.connect(self.uri, autocommit=True) as connection, Door(socket_of(self.uri), self.door.port):
            client.stop_connector("from-shop")
            shown = cli_run("offsets", "show", "from-shop", "-o", "json", home=home, env=direct, expect=0).json
            assert '"159"' in json.dumps(shown["offsets"]).replace("\\", ""), shown
            cli_run("offsets", "export", str(file), "from-shop", home=home, env=direct, expect=0)
            cli_run("offsets", "reset", "from-shop", "--direct", "--force", "--yes", home=home, env=direct, expect=0)
            client.resume_connector("from-shop")
            eventually(lambda: len(self._rows_in_topic()) == 318, 30, "after a reset all rows come again")
            client.stop_connector("from-shop")
            cli_run("offsets", "import", str(file), "from-shop", "--yes", home=home, env=direct, expect=0)
            connection.execute(f"INSERT INTO {self.shop} SELECT n, n, now() FROM generate_series(160, 169) n")
            client.resume_connector("from-shop")
            eventually(lambda: len(self._rows_in_topic()) == 328, 30, "after an import only new ones come")
            client.stop_connector("from-shop")
            (now,) = client.connector_offsets("from-shop")
            back = ConnectorOffset(now.partition, {**(now.offset or {}), "batch": 0, "done": '{"cursor":"99"}'})
            client.alter_connector_offsets("from-shop", [back])
            client.resume_connector("from-shop")
            eventually(lambda: len(self._rows_in_topic()) == 398, 30, "after an alter those after it come again")
            client.stop_connector("from-shop")

    def sees_what_is_wrong(self, worker: Distributed, client: ConnectClient) -> None:
        assert self._errors(client, {"tasks.max": "4"}) == {}
        settings = {**self._into("orders", "wrong"), "name": "wrong", "tasks.max": "4"}
        values = {each["value"]["name"]: each["value"] for each in client.validate("SparkSink", settings)["configs"]}
        assert (values["tasks.max"]["value"], values["tasks.max"]["recommended_values"]) == ("4", ["1"])
        found = self._errors(client, {"spark.format": "avro", "spark.schema": "id bigint, at nothing"})
        assert "spark.jars.packages=org.apache.spark:spark-avro_2.13:4.1.1" in found["spark.format"]
        assert "at line 1, column" in found["spark.schema"]
        found = self._errors(client, {"spark.format": "parket", "spark.query": "select id,\n from records where"})
        assert found["spark.format"].startswith("Spark has no format parket: ")
        assert "at line 2, column" in found["spark.query"]
        once = {"errors.restart.max": "0"}
        client.put_connector_config("misfit", {**self._into("mixed", "misfit"), "spark.schema": "id bigint", **once})
        taken = self.connectors()["hours"] | {"spark.options.path": str(self.folder / "taken"), **once}
        client.put_connector_config("taken", taken)
        trace = worker.await_task("misfit", RunState.FAILED, 60)
        assert f"{self.topics['mixed']}" in trace.split("\n\tat ")[0], trace
        trace = worker.await_task("taken", RunState.FAILED, 60)
        assert 'It is that of another query: {"connector": "hours"' in trace.splitlines()[0], trace

    def _errors(self, client: ConnectClient, more: dict[str, str]) -> dict[str, str]:
        settings = {**self._into("orders", "wrong"), "name": "wrong", **more}
        configs = client.validate("SparkSink", settings)["configs"]
        return {each["value"]["name"]: each["value"]["errors"][0] for each in configs if each["value"]["errors"]}

    def _rows_in_topic(self) -> list[dict[str, Any]]:
        values = committed_values(self.broker.bootstrap, self.topics["rows"])
        return [json.loads(value) for value in values if value is not None]


def _shows_queries(client: ConnectClient, worker: Distributed, names: set[str]) -> None:
    (driver,) = [slot for slot in client.slots() if slot["slot"] is None]
    assert {task["connector"] for task in driver["tasks"]} == names
    assert (driver["pid"], driver["executor"], driver["attached"]) == (worker.pid, "driver", True)
    home = worker.folder / "cli"
    home.mkdir()
    shown = cli_run("slots", home=home, env={"KCONNECT_URL": worker.url}, expect=0).stdout
    assert any(line.startswith("driver") and "letters-0" in line for line in shown.splitlines()), shown


def _offset(client: ConnectClient, name: str, topic: str) -> Any:
    """That of the topic's first partition; None if the group has none."""
    offsets = {item.partition["kafka_topic"]: item.offset for item in client.connector_offsets(name)}
    return (offsets.get(topic) or {}).get("kafka_offset")


def _metric(client: ConnectClient, name: str, connector: str) -> float:
    return sum(sample.value for sample in client.metrics([name]) if sample.labels.get("connector") == connector)

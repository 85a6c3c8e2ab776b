"""SparkSink and SparkSource in a real worker: through a kill, altered offsets, settings and queries that are wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from kconnect.client import ConnectClient
from kconnect.errors import ConnectError
from kconnect.java.devbroker import DevBroker
from kconnect.model import ConnectorOffset, RunState
from kit.distributed_worker import Distributed
from kit.freezing import freeze, wake
from kit.source_kills import ids_in
from kit.standalone import Standalone
from kit.topics import committed_values, create_topic, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(300)]

JSON = {
    "kconnect.slots": "1",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def sink(topic: str, **more: str) -> dict[str, str]:
    return {"connector.class": "SparkSink", "topics": topic, "spark.trigger.ms": "100", **_keys(more)}


def source(topic: str, **more: str) -> dict[str, str]:
    return {"connector.class": "SparkSource", "topic": topic, "spark.trigger.ms": "100", **_keys(more)}


def _keys(settings: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "."): value for key, value in settings.items()}


def send(broker: DevBroker, topic: str, ids: Iterable[int]) -> None:
    produce_lines(broker.bootstrap, topic, [json.dumps({"id": number, "name": f"n{number}"}) for number in ids])


def write_file(folder: Path, number: int) -> None:
    """A file of 1000 numbers, which is there at once."""
    ids = range(number * 1000, number * 1000 + 1000)
    hidden = folder / f".{number}"
    hidden.write_text("".join(json.dumps({"id": each}) + "\n" for each in ids))
    hidden.rename(folder / f"{number}.json")


def ids_of(broker: DevBroker, topic: str) -> list[int]:
    """All committed in a topic, in order."""
    return sorted(json.loads(value)["id"] for value in committed_values(broker.bootstrap, topic) if value is not None)


def test_queries_go_on_after_a_killed_worker_and_from_altered_offsets(
    broker: DevBroker, topic: str, tmp_path: Path
) -> None:
    into, from_files = (f"{topic}-{name}" for name in ("in", "files"))
    for name in (into, from_files):
        create_topic(broker.bootstrap, name, partitions=2)
    table, folder = tmp_path / "table", tmp_path / "in"
    folder.mkdir()
    for number in range(6):
        write_file(folder, number)
    send(broker, into, range(1000))
    lake = sink(into, spark_format="parquet", **{"spark.options.path": str(table)})
    lake["spark.query"] = "select id, name, _offset as at from records where id >= 0"
    files = source(from_files, spark_format="json", spark_schema="id bigint", delivery_guarantee="exactly_once")
    files |= {"spark.options.path": str(folder), "spark.options.maxFilesPerTrigger": "1"}
    total = sink(into, spark_format="parquet", spark_query="select count(*) as id from records")
    total |= {"spark.output.mode": "complete", "spark.options.path": str(tmp_path / "total")}
    total["spark.checkpoint"] = str(tmp_path / "state")
    connectors = {"lake": lake, "files": files, "total": total}
    with Standalone(tmp_path, broker.bootstrap, connectors, JSON) as worker:
        worker.start()
        eventually(lambda: ids_in(table) == list(range(1000)), 60, "the first records are in the table")
        eventually(lambda: len(ids_of(broker, from_files)) >= 1000, 60, "the first file is in the topic")
        eventually(lambda: ids_in(tmp_path / "total") == [1000], 60, "they are counted")
        eventually(lambda: _lag(worker) == 0, 10, "the group follows")
        worker.kill()
        # As if it had been killed before Spark noted its first batch as ended, which it then does again from its begin
        for note in (tmp_path / "state" / "commits").glob("*0*"):
            note.unlink()

        send(broker, into, range(1000, 1500))
        worker.start()
        eventually(lambda: ids_in(table) == list(range(1500)), 60, "the other records follow, and none twice")
        eventually(lambda: len(ids_of(broker, from_files)) >= 6000, 60, "the other files follow")
        assert ids_of(broker, from_files) == list(range(6000)), "each row is there once"
        eventually(lambda: _has_counted(worker, tmp_path / "total", 1500), 60, "the count goes on from its state")

        with worker.client() as client:
            for name in ("sink_task_metrics_sink_record_read_total", "plugins_query_write_ms"):
                eventually(lambda name=name: _metric(client, f"kafka_connect_{name}", "lake") > 0, 10, name)
            _alter_and_reset(client, worker, table, from_files, broker)
            _refuses_what_cannot_run(client, into)
            _fails_alone(client, worker, broker, into, table)
        worker.stop()


def _alter_and_reset(
    client: ConnectClient, worker: Standalone, table: Path, from_files: str, broker: DevBroker
) -> None:
    for name in ("lake", "files"):
        client.stop_connector(name)
    back = [
        ConnectorOffset(item.partition, {"kafka_offset": item.offset["kafka_offset"] - 10})
        for item in client.connector_offsets("lake")
        if item.offset
    ]
    client.alter_connector_offsets("lake", back)
    client.reset_connector_offsets("files")
    for name in ("lake", "files"):
        client.resume_connector(name)
    eventually(lambda: len(ids_in(table)) == 1500 + 10 * len(back), 30, "ten records of each partition come again")
    eventually(lambda: len(ids_of(broker, from_files)) == 12_000, 30, "after a reset all files are read again")


def _refuses_what_cannot_run(client: ConnectClient, topic: str) -> None:
    wrong = sink(topic, name="wrong", spark_format="delta", spark_query="select id from records where\n id > > 1")
    errors = {
        item["value"]["name"]: item["value"]["errors"]
        for item in client.validate("SparkSink", wrong | {"delivery.guarantee": "any"})["configs"]
        if item["value"]["errors"]
    }
    assert errors.keys() == {"spark.query", "spark.format"}
    assert "at line 2, column" in errors["spark.query"][0]
    assert "no jar of it works with this version: there is one for Spark 4.1 and 4.2" in errors["spark.format"][0]
    with pytest.raises(ConnectError, match="writes parquet at least once"):
        client.create_connector("wrong", sink(topic, spark_format="parquet", delivery_guarantee="exactly_once"))


def _fails_alone(client: ConnectClient, worker: Standalone, broker: DevBroker, topic: str, table: Path) -> None:
    """A query that cannot write is FAILED with the reason first; the others and the slots go on."""
    settings = sink(topic, name="nowhere", spark_format="jdbc", errors_restart_max="0")
    client.create_connector("nowhere", settings | {"spark.options.url": "jdbc:nothing:1", "spark.options.dbtable": "t"})
    trace = worker.await_task("nowhere", RunState.FAILED, 30)
    assert "No suitable driver" in trace.splitlines()[0]
    before = len(ids_in(table))
    send(broker, topic, range(2000, 2010))
    eventually(lambda: len(ids_in(table)) == before + 10, 30, "the other query goes on")
    assert all(slot["attached"] for slot in client.slots())
    client.delete_connector("nowhere")


def _has_counted(worker: Standalone, total: Path, wanted: int) -> bool:
    found = ids_in(total)
    assert found == [wanted], f"{found}\n{worker.log_text()[-6000:]}"
    return True


def _metric(client: ConnectClient, name: str, connector: str) -> float:
    return sum(sample.value for sample in client.metrics([name]) if sample.labels.get("connector") == connector)


def _lag(worker: Standalone) -> Any:
    with worker.client() as client:
        lag = client.offsets_and_lag("lake")[1]
    return None if lag is None else lag.total


def queries_go_on_elsewhere_when_a_worker_is_frozen_or_killed(broker: DevBroker, topic: str, tmp_path: Path) -> None:
    flow = _Flow(broker, topic, tmp_path)
    quick = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "exactly.once.source.support": "enabled"}
    first, second = (
        Distributed(tmp_path / name, broker.bootstrap, f"{topic}-group", {**JSON, **quick}) for name in ("a", "b")
    )
    with first, second:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda worker: worker.start(), (first, second)))
        workers = {f"127.0.0.1:{worker.port}": worker for worker in (first, second)}
        with second.client() as client:
            for name, config in flow.connectors().items():
                client.create_connector(name, config)
            flow.goes_on()
            for name in ("files", "lake"):
                victim = workers[client.connector_status(name).tasks[0].worker_id]
                other = next(worker for worker in (first, second) if worker is not victim)
                family = [psutil.Process(victim.pid), *victim.descendants()]
                flow.feed()  # it is at work when it freezes
                freeze(family)
                flow.goes_on()
                with other.client() as alive:
                    where = {alive.connector_status(each).tasks[0].worker_id for each in ("files", "lake")}
                assert where == {f"127.0.0.1:{other.port}"}
                wake(family)
                flow.goes_on()
                with victim.client() as back:  # in its group
                    for each in ("files", "lake"):
                        eventually(lambda each=each: _runs(back, each), 90, f"{each} is well")
                flow.goes_on()
            victim = workers[client.connector_status("files").tasks[0].worker_id]
        victim.kill()
        flow.goes_on()


class _Flow:
    """Records for a sink, and files for a source; each of them may be there once only."""

    def __init__(self, broker: DevBroker, topic: str, folder: Path) -> None:
        self._broker, self._into, self._from = broker, topic, f"{topic}-files"
        create_topic(broker.bootstrap, self._from, partitions=2)
        self._table, self._folder = folder / "table", folder / "in"
        self._folder.mkdir()
        self._sent = self._files = 0

    def connectors(self) -> dict[str, dict[str, str]]:
        files = source(self._from, name="files", spark_format="json", spark_schema="id bigint")
        lake = sink(self._into, name="lake", spark_format="parquet", **{"spark.options.path": str(self._table)})
        return {"lake": lake, "files": files | {"spark.options.path": str(self._folder)}}

    def feed(self) -> None:
        send(self._broker, self._into, range(self._sent, self._sent + 500))
        write_file(self._folder, self._files)
        self._sent, self._files = self._sent + 500, self._files + 1

    def goes_on(self) -> None:
        self.feed()
        records, rows = list(range(self._sent)), list(range(self._files * 1000))
        eventually(lambda: ids_in(self._table) == records, 120, "each record is in the table, once")
        eventually(lambda: ids_of(self._broker, self._from) == rows, 120, "each row is in the topic, once")


def _runs(client: ConnectClient, name: str) -> bool:
    return client.connector_status(name).tasks[0].state == RunState.RUNNING


if os.environ.get("KCONNECT_QUERIES") == "long":  # `make queries`: two workers on Spark, and minutes of waiting
    test_two_workers = pytest.mark.timeout(1200)(queries_go_on_elsewhere_when_a_worker_is_frozen_or_killed)

"""Records stream into tables of all three formats, through one worker, while its slots, itself and the broker die."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path

import pyarrow.compute as pc
from confluent_kafka import Producer

from kconnect.devbroker import DevBroker
from kit.standalone import Standalone
from kit.tables import FORMATS, read_table, table_settings
from kit.waiting import eventually

__all__ = ["Numbers", "TableRun"]

_PARTITIONS = 2
_JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


class Numbers:
    """Produces so many numbered records at a rate, each acknowledged, whatever happens to the broker."""

    def __init__(self, bootstrap: str, topic: str, count: int, rate: int) -> None:
        self._topic, self._count, self._rate = topic, count, rate
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        self.produced = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="test-numbers")

    def _run(self) -> None:
        began = time.monotonic()
        while self.produced < self._count and not self._stop.wait(0.01):
            due = min(self._count, int((time.monotonic() - began) * self._rate))
            for number in range(self.produced, due):
                value = json.dumps({"id": number, "name": f"name {number % 97}", "price": number / 4})
                self._producer.produce(self._topic, value, partition=number % _PARTITIONS)
            self.produced = due
            self._producer.poll(0)

    def __enter__(self) -> Numbers:
        self._thread.start()
        return self

    def await_end(self, within_s: float) -> None:
        eventually(lambda: self.produced >= self._count, within_s, "all are produced", pause_s=0.2)
        eventually(lambda: self._producer.flush(1) == 0, within_s, "all are acknowledged")

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(10)
        self._producer.purge()


class TableRun:
    """A worker with a TableSink for each format. A context manager."""

    def __init__(self, folder: Path, broker: DevBroker, topic: str, seed: int) -> None:
        self.broker, self._chance = broker, random.Random(seed)
        self.settings: dict[str, dict[str, str]] = {}
        connectors = {}
        for kind in FORMATS:
            name = f"{topic}-{kind}"
            place = folder / kind
            place.mkdir()
            self.settings[kind] = table_settings(kind, place, name)
            connectors[name] = {
                "connector.class": "TableSink",
                "tasks.max": str(_PARTITIONS),
                "topics": topic,
                "flush.ms": "100",
                **{key: value for key, value in self.settings[kind].items() if key != "name"},
            }
        self.worker = Standalone(folder, broker.bootstrap, connectors, {**_JSON, "kconnect.slots": "2"})
        self.kills: dict[str, int] = {}

    def __enter__(self) -> TableRun:
        self.worker.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.worker.__exit__(None, None, None)

    def kill(self, what: str) -> None:
        """SIGKILL to a slot that chance picks, or to the worker or the broker, which are started again."""
        self.kills[what] = self.kills.get(what, 0) + 1
        if what == "worker":
            self.worker.kill()
            self.worker.start(running=False)
        elif what == "broker":
            self.broker.kill()
            self.broker.start()
        else:
            slots = eventually(self.worker.slots, 30.0, "the worker has slots")
            self._chance.choice(slots).kill()

    def rows(self, kind: str) -> int:
        return read_table(self.settings[kind]).num_rows

    def await_rows(self, least: int, within_s: float) -> None:
        """Wait until each table has so many rows."""
        for kind in FORMATS:
            eventually(lambda kind=kind: self._has(kind, least), within_s, f"{kind} has {least} rows", pause_s=0.3)

    def _has(self, kind: str, least: int) -> bool:
        rows = self.rows(kind)
        assert rows >= least, f"{kind} has {rows} rows; {self.worker.log_text()[-3000:]}"
        return True

    def assert_each_once(self, count: int) -> None:
        """Each record is in each table once. Errors: AssertionError that says what is missing or doubled."""
        for kind in FORMATS:
            ids = read_table(self.settings[kind]).column("id")
            unique = pc.count_distinct(ids).as_py()
            assert (len(ids), unique) == (count, count), (
                f"{kind}: {len(ids)} rows, {unique} different records of {count}\n{self.worker.log_text()[-6000:]}"
            )
            assert (pc.min(ids).as_py(), pc.max(ids).as_py()) == (0, count - 1)

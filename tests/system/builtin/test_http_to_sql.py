"""A web service becomes a table: HttpJsonSource and SqlSink in one real worker, with Kafka between them."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kconnect.model import RunState
from kit.pace import ample_s
from kit.standalone import Standalone
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark]

SOURCE, SINK, TOPIC = "orders-of-the-shop", "orders-as-a-table", "http-to-sql-orders"
JSON = {
    "key.converter": "JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


class Shop:
    """A service that gives its orders changed after `since`, the way such services do."""

    def __init__(self) -> None:
        self.orders: dict[int, dict[str, Any]] = {}
        self.asked_since: list[int] = []
        self._lock = threading.Lock()  # guards both: requests come in threads of their own
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                since = int(parse_qs(urlsplit(self.path).query).get("since", ["0"])[-1])
                body = json.dumps({"orders": outer.changed_after(since)}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/orders"

    def put(self, order: int, version: int, item: str) -> None:
        with self._lock:
            self.orders[order] = {"id": order, "version": version, "item": item}

    def changed_after(self, version: int) -> list[dict[str, Any]]:
        with self._lock:
            self.asked_since.append(version)
            return [order for order in self.orders.values() if order["version"] > version]

    def asked(self) -> list[int]:
        with self._lock:
            return list(self.asked_since)

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    made = Shop()
    for version, (order, item) in enumerate([(7, "tea"), (8, "crème brûlée"), (9, "cake")], start=1):
        made.put(order, version, item)
    yield made
    made.close()


@pytest.fixture(scope="module")
def worker(broker, shop: Shop, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    folder = tmp_path_factory.mktemp("http-to-sql")
    connectors = {
        SOURCE: {
            "connector.class": "HttpJsonSource",
            "url": shop.url,
            "topic": TOPIC,
            "items.pointer": "/orders",
            "key.field": "id",
            "cursor.field": "version",
            "cursor.param": "since",
            "poll.interval.ms": "200",
            **JSON,
        },
        SINK: {
            "connector.class": "SqlSink",
            "topics": TOPIC,
            "connection.driver": "sqlite3",
            "connection.url": str(folder / "shop.db"),
            "table.name.format": "orders",
            "auto.create": "true",
            "insert.mode": "upsert",
            "pk.mode": "record_value",
            "pk.fields": "id",
            **JSON,
        },
    }
    running = Standalone(folder, broker.bootstrap, connectors).start()
    yield running
    running.stop()


def rows(worker: Standalone) -> list[tuple[int, int, str]]:
    connection = sqlite3.connect(worker.folder / "shop.db", timeout=ample_s(5))  # the sink may hold the lock
    try:
        found = connection.execute("SELECT name FROM sqlite_master WHERE name = 'orders'").fetchall()
        return connection.execute("SELECT id, version, item FROM orders ORDER BY id").fetchall() if found else []
    finally:
        connection.close()


def test_what_a_service_tells_stands_in_the_table_and_a_change_of_it_changes_its_row(worker, shop):
    expected = [(7, 1, "tea"), (8, 2, "crème brûlée"), (9, 3, "cake")]
    eventually(lambda: rows(worker) == expected, 30, "the three orders are rows")
    shop.put(8, 4, "coffee")
    shop.put(10, 5, "milk")
    expected = [(7, 1, "tea"), (8, 4, "coffee"), (9, 3, "cake"), (10, 5, "milk")]
    eventually(lambda: rows(worker) == expected, 30, "the changed order and the new one are there")


def test_a_slot_that_is_killed_goes_on_at_the_kept_cursor(worker, shop):
    eventually(lambda: shop.asked()[-1:] == [5], 30, "the source asks for what came after the last order")
    with worker.client() as client:
        eventually(
            lambda: (
                [(entry.partition, entry.offset) for entry in client.connector_offsets(SOURCE)]
                == [({"url": shop.url}, {"cursor": 5})]
            ),
            30,
            "the cursor is committed",
        )
    before = len(shop.asked())
    with worker.client() as client:
        (pid,) = {slot["pid"] for slot in client.slots() if SOURCE in {task["connector"] for task in slot["tasks"]}}
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: len(shop.asked()) > before + 1, 60, "the source asks again, from another slot")
    assert set(shop.asked()[before:]) == {5}
    shop.put(7, 6, "tea, no sugar")
    eventually(lambda: (7, 6, "tea, no sugar") in rows(worker), 60, "the next change arrives")
    assert len(rows(worker)) == 4
    for name in (SOURCE, SINK):
        assert worker.await_task(name, RunState.RUNNING) == ""

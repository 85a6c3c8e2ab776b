"""A shop's cluster as an operator meets it: a real broker, two real workers, connectors that move real records.

Orders and payments are lines that are written to files all the time, some of them broken: the broken ones are dead
letters. The archive has no space left, so the sink that writes there has FAILED.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kconnect.client import ConnectClient
from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.distributed_worker import Distributed
from kit.ports import free_port, is_listening
from kit.topics import create_topic
from kit.waiting import eventually

GROUP = "shop"
# Written so often that a task's every poll finds something
_EVERY_S = 0.1
_POISON_EVERY = 400
_JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
_WORKER = {"kconnect.slots": "2", "offset.flush.interval.ms": "5000"}


def _letters(topic: str) -> dict[str, str]:
    return {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": topic,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


def connectors(folder: Path) -> dict[str, dict[str, str]]:
    """Name -> config; `_await_shop` knows what becomes of each."""
    shop, web = {"kconnect.labels": "team=shop"}, {"kconnect.labels": "team=web"}
    source, sink = {"connector.class": "FileStreamSource", **shop}, {"connector.class": "FileStreamSink", **shop}
    return {
        "orders-from-shop": {**source, "file": f"{folder}/orders.jsonl", "topic": "orders"},
        "payments-from-shop": {**source, "file": f"{folder}/payments.jsonl", "topic": "payments"},
        "shipping-events": {**source, "file": f"{folder}/shipping.jsonl", "topic": "shipping"},
        "orders-to-lake": {**sink, **_JSON, **_letters("orders-dlq"), "topics": "orders", "file": f"{folder}/lake.txt"},
        "payments-to-archive": {
            **sink,
            **_JSON,
            **_letters("payments-dlq"),
            "topics": "payments",
            "file": f"{folder}/archive.txt",
            "errors.restart.max": "0",
        },
        "clickstream": {
            **web,
            "connector.class": "VerifiableSource",
            "topic": "clicks",
            "throughput": "400",
            "tasks.max": "2",
        },
        "clicks-to-search": {**web, "connector.class": "VerifiableSink", "topics": "clicks", "tasks.max": "2"},
    }


class Shop:
    """`url`: of one of its workers."""

    def __init__(self, bootstrap: str, workers: list[Distributed]) -> None:
        self.bootstrap = bootstrap
        self.workers = workers

    @property
    def url(self) -> str:
        return self.workers[0].url

    def client(self) -> ConnectClient:
        return ConnectClient(self.url, retry_conflicts_s=60)


@contextmanager
def shop_world(folder: Path) -> Iterator[Shop]:
    """The cluster, once all has happened that is in it; it goes on until the end. `folder` is in its configs."""
    with ExitStack() as stack:
        broker = stack.enter_context(DevBroker(free_port(), folder / "broker"))
        # Payments in one partition: then a broken one is always in what the archive's sink gets first
        for topic, partitions in {"orders": 2, "payments": 1, "clicks": 2, "shipping": 2}.items():
            create_topic(broker.bootstrap, topic, partitions=partitions)
        (folder / "archive.txt").symlink_to("/dev/full")
        workers = [_worker(folder / f"worker-{port}", broker.bootstrap, port) for port in (8083, 8084)]
        for worker in workers:
            stack.enter_context(worker)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda worker: worker.start(120), workers))
        stack.enter_context(_shop_open(folder))
        shop = Shop(broker.bootstrap, workers)
        with shop.client() as client:
            for name, config in connectors(folder).items():
                client.create_connector(name, config)
            _await_shop(client)
        yield shop
        for worker in workers:
            worker.stop(60)


def _worker(folder: Path, bootstrap: str, port: int) -> Distributed:
    """At Connect's own port while nobody else has it: that is what people know."""
    worker = Distributed(folder, bootstrap, GROUP, _WORKER)
    if not is_listening(port):
        file = worker.files[0]
        file.write_text(file.read_text().replace(worker.url, f"http://127.0.0.1:{port}"))
        worker.port, worker.url = port, f"http://127.0.0.1:{port}"
    return worker


def _await_shop(client: ConnectClient) -> None:
    def settled() -> bool:
        statuses = client.connector_statuses()
        for name, status in statuses.items():
            states = {task.state for task in status.tasks}
            assert states == {RunState.FAILED if name == "payments-to-archive" else RunState.RUNNING}, (
                f"{name}: {status}"
            )
        return len(statuses) == 7

    eventually(settled, 120, "each connector is as it should be")
    client.pause_connector("shipping-events")


@contextmanager
def _shop_open(folder: Path) -> Iterator[None]:
    """Orders and payments come in while this is open."""
    closing = threading.Event()
    names = {"orders": 90.0, "payments": 25.0, "shipping": 5.0}
    for name in names:
        (folder / f"{name}.jsonl").touch()

    def trade() -> None:
        began, written = time.monotonic(), dict.fromkeys(names, 0)
        while not closing.wait(_EVERY_S):
            at_s = time.monotonic() - began
            for name, per_s in names.items():
                count = round(per_s * _EVERY_S * (1 + 0.5 * math.sin(at_s / 25)))
                with (folder / f"{name}.jsonl").open("a") as file:
                    for number in range(written[name], written[name] + count):
                        file.write(_line(name, number))
                written[name] += count

    thread = threading.Thread(target=trade, name="shop")
    thread.start()
    try:
        yield
    finally:
        closing.set()
        thread.join()


def _line(name: str, number: int) -> str:
    if number % _POISON_EVERY == 2:
        return f"{name} {number}: the till has no network\n"
    return json.dumps({"id": number, "kind": name, "amount": number * 37 % 9000 / 100}) + "\n"

"""What each worker of a cluster knows of itself only, asked of one: workers with their slots, an hour of all tasks."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator

import pytest

from kconnect.client import ConnectClient
from kconnect.client.workers import worker_urls
from kconnect.model import TaskId
from kconnect.runtime.metrics import TaskMeter
from kconnect.runtime.metrics.history import SlotLoad
from kit.memory_herder import file_source
from kit.rest_cluster import RestCluster, rest_cluster
from kit.waiting import eventually

BEGIN_MS = 1_760_000_400_000


@pytest.fixture
def cluster() -> Iterator[RestCluster]:
    """Three workers; the first leads, the last has nothing to do."""
    with rest_cluster({"bootstrap.servers": "localhost:9092"}) as made:
        for _ in range(3):
            made.add()
        with ConnectClient(made.workers[0].url) as client:
            client.put_connector_config("orders", file_source())

            def runs() -> bool:
                status = client.connector_statuses().get("orders")
                return status is not None and [str(task.state) for task in status.tasks] == ["RUNNING"]

            eventually(runs, 10, "orders runs")
        yield made


def test_any_worker_lists_all_with_the_leader_and_what_they_run(cluster: RestCluster) -> None:
    ids = {worker.herder.worker_id for worker in cluster.workers}
    for worker in cluster.workers:
        with ConnectClient(worker.url) as client:

            def listed(client: ConnectClient = client) -> list[dict[str, object]]:
                found = client.workers()
                assert {each["worker"] for each in found} == ids
                return found

            found = eventually(listed, 10, "all workers, idle ones too")
            assert {each.rstrip("/") for each in worker_urls(client)} == {one.url for one in cluster.workers}
        other_name = worker.url.replace("127.0.0.1", "localhost")
        with ConnectClient(other_name) as client:
            assert sorted(worker_urls(client)) == sorted(
                {other_name, *(each.url for each in cluster.workers if each is not worker)}
            ), "none is asked twice"
        assert found[0]["worker"] == worker.herder.worker_id
        assert [each["worker"] for each in found if each["is_leader"]] == [cluster.workers[0].herder.worker_id]
        assert [task for each in found for task in each["tasks"]] == ["orders-0"]
        assert all(each["answers"] and each["rebalances"] for each in found)


def test_a_worker_that_is_away_is_listed_as_such(cluster: RestCluster) -> None:
    asked, away = cluster.workers[0], cluster.workers[2]
    away.server.stop(1.0)
    with ConnectClient(asked.url) as client:
        wanted = {worker.herder.worker_id: worker is not away for worker in cluster.workers}
        # One that is there may be late with its answer
        eventually(
            lambda: {each["worker"]: each["answers"] for each in client.workers()} == wanted, 30, "it alone is away"
        )


def test_whose_lines_are_not_in_the_log_is_said(cluster: RestCluster) -> None:
    asked, away = cluster.workers[0], cluster.workers[2]
    with ConnectClient(asked.url) as client:
        eventually(lambda: client.logs(cluster="true")["silent"] == [], 10, "all give theirs")
        away.server.stop(1.0)
        eventually(lambda: client.logs(cluster="true")["silent"] == [away.herder.worker_id], 30, "it gives none")


def test_histories_of_all_workers_are_added_up(cluster: RestCluster) -> None:
    for number, worker in enumerate(cluster.workers):
        meter = TaskMeter(run=1, born_s=0.0)
        for second in (0, 10):
            load = SlotLoad(0, 10.0 * number, None, 1)
            worker.herder.history().sample(second, BEGIN_MS + second * 1000, {TaskId("orders", number): meter}, [load])
    with ConnectClient(cluster.workers[1].url) as client:
        found = client.history("orders", cluster=True)
        assert [task["task"] for task in found["tasks"]] == [0, 1, 2]
        assert len(found["slots"]) == 3
        assert {slot["worker"] for slot in found["slots"]} == {worker.herder.worker_id for worker in cluster.workers}
        assert list(client.history(cluster=True)["connectors"]) == ["orders"]
        assert [task["task"] for task in client.history("orders")["tasks"]] == [1]


def test_lines_of_all_workers_are_merged_and_go_on_where_the_cursor_says(cluster: RestCluster) -> None:
    loggers = [logging.Logger(f"worker{number}") for number in range(3)]
    for logger, worker in zip(loggers, cluster.workers, strict=True):
        logger.addHandler(worker.herder.log_tail().handler)
        logger.error("first")
    with ConnectClient(cluster.workers[1].url) as client:
        first = client.logs(cluster="true", level="ERROR")
        assert {line["worker"] for line in first["lines"]} == {worker.herder.worker_id for worker in cluster.workers}
        loggers[2].error("second")
        loggers[0].error("third")
        again = client.logs(cluster="true", level="ERROR", cursor=first["cursor"])
        assert sorted(line["text"] for line in again["lines"]) == ["second", "third"]
        assert client.logs(cluster="true", level="ERROR", cursor=again["cursor"])["lines"] == []
        for number in (1, 2):
            for logger in loggers[:2]:
                logger.error("%d", number)
        cursor, texts = again["cursor"], list[str]()
        for _ in range(2):
            page = client.logs(cluster="true", level="ERROR", cursor=cursor, limit=1)
            cursor = page["cursor"]
            texts += [line["text"] for line in page["lines"]]
        assert sorted(texts) == ["1", "1", "2", "2"], "a page of each worker, and none is lost"


def test_nobody_is_asked_who_is_not_of_the_cluster_whatever_the_cursor_says(cluster: RestCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger, ConnectClient(cluster.workers[0].url) as client:
        stranger.settimeout(0.2)
        port = stranger.getsockname()[1]
        client.logs(cluster="true", cursor=f"127.0.0.1:{port}=1")
        with pytest.raises(TimeoutError):
            stranger.accept()

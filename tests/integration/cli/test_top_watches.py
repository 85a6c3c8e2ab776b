"""The threads behind `connect top`, against a REST server: none of them waits for another."""

from __future__ import annotations

import queue
import threading

import pytest

from kconnect.client import ConnectClient
from kconnect.errors import NotFoundError
from kconnect_cli.top.events import Event, Fetch, Fetched, Part
from kconnect_cli.top.facts import ClusterFacts, Look, StatusLook, WorkerLook, with_look
from kconnect_cli.top.run import Requests
from kconnect_cli.top.watches import RestWatches
from kit.rest_cluster import rest_cluster
from kit.waiting import eventually


class Looks:
    """What the watches have seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Look] = []

    def put(self, look: Look) -> None:
        with self._lock:
            self._found.append(look)

    def statuses(self) -> list[StatusLook]:
        with self._lock:
            return [look for look in self._found if isinstance(look, StatusLook)]

    def workers(self) -> list[WorkerLook]:
        with self._lock:
            return [look for look in self._found if isinstance(look, WorkerLook)]


@pytest.fixture
def looks(url):
    """A cluster that is being watched."""
    found = Looks()
    watches = RestWatches(
        lambda urls: ConnectClient(urls, timeout_s=1.0), [url], lambda name: name != "lines", found.put, 0.05
    )
    watches.start()
    yield found
    watches.stop(5.0)


def test_a_worker_is_asked_where_it_is_and_named_as_it_names_itself(looks, url):
    def answered():
        """Within its second, which a busy machine may need to itself."""
        found = looks.workers()
        return found[-1] if found and not found[-1].facts.problem else None

    look = eventually(answered)
    assert (look.facts.id, look.facts.url, look.facts.kind) == ("127.0.0.1:8083", url, "kconnect")
    assert look.facts.slots is not None
    statuses = eventually(lambda: looks.statuses() and looks.statuses()[-1].statuses, why="its thread is another one")
    assert list(statuses) == ["orders"], "only what is wanted"


def test_a_worker_that_hangs_in_its_metrics_holds_up_neither_statuses_nor_the_end(herder, looks):
    eventually(looks.workers)
    herder.held.add("history")
    seen = len(looks.statuses())
    eventually(lambda: len(looks.statuses()) > seen + 5)
    try:
        problem = eventually(lambda: looks.workers()[-1].facts.problem, 20)
        assert "did not answer" in problem
    finally:
        herder.gate.set()
    eventually(lambda: not looks.workers()[-1].facts.problem, 20, "it answers again")


def test_a_worker_that_left_the_group_leaves_the_screen_too():
    found: queue.SimpleQueue[Look] = queue.SimpleQueue()
    facts = ClusterFacts(place="")

    def shown():
        nonlocal facts
        while not found.empty():
            facts = with_look(facts, found.get())
        return sorted(facts.workers)

    with rest_cluster({"bootstrap.servers": "localhost:9092"}) as cluster:
        stays, goes = cluster.add(), cluster.add()
        ids = sorted(worker.herder.worker_id for worker in (stays, goes))
        watches = RestWatches(
            lambda urls: ConnectClient(urls, timeout_s=1.0), [stays.url], lambda _name: True, found.put, 0.2
        )
        watches.start()
        try:
            eventually(lambda: shown() == ids, 20, "both are seen")
            goes.stop()
            eventually(lambda: shown() == [stays.herder.worker_id], 40, "the group has dropped it")
            assert watches.workers == [stays.url]
        finally:
            watches.stop(5.0)


def test_a_cluster_whose_workers_keep_no_log_says_so_for_each(url, herder, monkeypatch):
    def none(**_query):
        raise NotFoundError("HTTP 404 Not Found")

    monkeypatch.setattr(ConnectClient, "logs", lambda _self, **query: none(**query))
    reported: queue.SimpleQueue[Event] = queue.SimpleQueue()
    requests = Requests(reported.put, connect=lambda: ConnectClient(url), workers=lambda: [url])
    requests.carry_out(Fetch("orders", Part.LOG))
    found = reported.get(timeout=20)
    assert isinstance(found, Fetched)
    assert found.lines == (f"{url} keeps no lines of its log: it is Java's, or an older kconnect.",)

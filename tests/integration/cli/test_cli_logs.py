"""`connect logs` and `GET /admin/history`: against workers in memory, behind real REST servers."""

import json
import logging
import subprocess
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from kconnect.client import ConnectClient
from kconnect.errors import BadRequestError, NotFoundError
from kconnect.logs.log_context import log_context
from kconnect.model import TaskId
from kconnect.runtime.metrics import TaskMeter
from kconnect.runtime.rest import RestServer
from kit.cli import cli_env, connect_command
from kit.memory_herder import MemoryHerder
from kit.pace import ample_s
from kit.ports import free_port
from kit.waiting import eventually

BEGIN_MS = 1_760_000_400_000


class Worker:
    """A worker whose log is one logger."""

    def __init__(self, number):
        self.herder = MemoryHerder(worker_id=f"127.0.0.1:{8083 + number}")
        # A port that nobody takes while it does not listen
        self.server = RestServer(self.herder, [f"http://127.0.0.1:{free_port()}"])
        self.log = logging.Logger(f"worker{number}")
        self.log.addHandler(self.herder.tail.handler)

    @property
    def url(self):
        return self.server.urls[0]

    def say(self, text, at_ms, level=logging.INFO, connector=None, task=None):
        with log_context(connector, task):
            record = self.log.makeRecord(self.log.name, level, "", 1, text, (), None)
            record.created = at_ms / 1000
            self.log.handle(record)


@pytest.fixture
def workers():
    """Two of a cluster; the second leads."""
    made = [Worker(1), Worker(2)]
    for worker in made:
        worker.server.start()
    yield made
    for worker in made:
        worker.server.stop()


@pytest.fixture
def cluster(workers):
    lead(workers, [worker.url for worker in workers])
    return workers


def lead(workers, members):
    """The list of rebalances of each: the last worker leads."""
    for worker in workers:
        body = {"is_leader": worker is workers[-1], "leader_url": workers[-1].url, "members": members}
        worker.herder.rebalances = lambda body=body: [SimpleNamespace(to_json=lambda: body)]


def test_lines_of_all_workers_come_in_the_order_of_time(cluster, connect):
    first, second = cluster
    first.say("one", BEGIN_MS, connector="orders", task=0)
    second.say("two", BEGIN_MS + 1, level=logging.WARNING)
    first.say("three", BEGIN_MS + 2)
    code, out, err = connect("logs", "--url", first.url)
    assert (code, err) == (0, "")
    words = [line.split() for line in out.splitlines()]
    assert [(word[0], word[3:]) for word in words] == [
        ("127.0.0.1:8084", ["INFO", "[orders|task-0]", "one", "(worker1)"]),
        ("127.0.0.1:8085", ["WARN", "two", "(worker2)"]),
        ("127.0.0.1:8084", ["INFO", "three", "(worker1)"]),
    ]


def test_a_connector_a_level_a_time_and_a_number_choose_lines(cluster, connect):
    first, second = cluster
    first.say("old", 1_000, connector="orders")
    first.say("broken", BEGIN_MS * 2, level=logging.ERROR, connector="orders", task=1)
    second.say("Task orders-1 is FAILED", BEGIN_MS * 2 + 1, level=logging.ERROR)
    second.say("other", BEGIN_MS * 2 + 2, level=logging.ERROR, connector="lines")

    def texts(*args):
        code, out, _ = connect("logs", "--url", first.url, "-o", "json", *args)
        assert code == 0
        return [line["text"] for line in json.loads(out)]

    assert texts("orders") == ["old", "broken", "Task orders-1 is FAILED"]
    assert texts("orders", "--since", "10m", "--level", "error") == ["broken", "Task orders-1 is FAILED"]
    assert texts("-n", "1") == ["other"]
    code, _, said = connect("logs", "nobody", "--url", first.url)
    assert (code, said.splitlines()[0]) == (3, "There are no lines about nobody, and no connector of that name")
    (shown,) = json.loads(connect("logs", "orders", "--url", first.url, "-n", "1", "-o", "json")[1])
    assert (shown["worker"], shown["level"], shown["connector"]) == ("127.0.0.1:8085", "ERROR", None)


def test_workers_that_do_not_answer_or_keep_no_lines_are_named(cluster, connect, monkeypatch):
    def of_java():
        raise NotFoundError("HTTP 404 Not Found")

    gone = f"http://127.0.0.1:{free_port()}"
    lead(cluster, [worker.url for worker in cluster] + [gone])
    cluster[1].herder.log_tail = of_java
    cluster[0].say("alone", BEGIN_MS)
    code, out, err = connect("logs", "--url", cluster[0].url)
    assert code == 0
    assert out.endswith("INFO alone (worker1)\n")
    assert f"{cluster[1].url} keeps no lines of its log" in err
    assert f"Nobody answers at {gone} (connection refused): its lines are left out" in err


def test_without_rebalances_statuses_name_the_workers(workers, connect, herder, url):
    herder.rebalances = workers[0].herder.rebalances = list
    herder.connector_status = of_worker(herder.connector_status, workers[0].url.removeprefix("http://"))
    workers[0].say("found", BEGIN_MS)
    code, out, _ = connect("logs", "--url", url)
    assert (code, out.split()[-2:]) == (0, ["found", "(worker1)"])


def of_worker(status, worker_id):
    def shown(name):
        found = status(name)
        return replace(found, connector=replace(found.connector, worker_id=worker_id), tasks=())

    return shown


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--level", "loud"), "Unknown log level: loud"),
        (("--since", "yesterday"), "--since yesterday is not a duration"),
        (("--follow", "-o", "yaml"), "--follow prints text"),
    ],
)
def test_bad_options_are_refused_before_anything_is_asked(connect, herder, args, said):
    herder.calls.clear()
    code, out, err = connect("logs", *args)
    assert (code, out, herder.calls) == (2, "", [])
    assert said in err


def test_follow_shows_new_lines_and_goes_on_when_a_worker_is_back(cluster, tmp_path):
    first, second = cluster
    first.say("before", BEGIN_MS)
    command = [*connect_command(), "logs", "--follow", "-o", "json", "--url", first.url]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cli_env(tmp_path)
    ) as running:
        seen, reported = [], []
        readers = [
            threading.Thread(target=lambda: seen.extend(json.loads(line)["text"] for line in running.stdout)),
            threading.Thread(target=lambda: reported.extend(running.stderr)),
        ]
        for reader in readers:
            reader.start()
        eventually(lambda: seen == ["before"], within_s=20, why="the last line")
        second.say("during", BEGIN_MS + 1)
        eventually(lambda: seen == ["before", "during"], within_s=20, why="a new line of the other worker")
        port = int(second.url.rpartition(":")[2])
        second.server.stop()
        gone = "does not answer any more, it is asked again"
        eventually(lambda: any(gone in line for line in reported), within_s=20, why="it is missed")
        second.say("while nobody could ask", BEGIN_MS + 2)
        second.server = RestServer(second.herder, [f"http://127.0.0.1:{port}"])
        second.server.start()
        eventually(lambda: "while nobody could ask" in seen, within_s=20, why="what came meanwhile")
        running.send_signal(2)
        assert running.wait(ample_s(10)) == 130
        for reader in readers:
            reader.join(5)


def test_a_request_waits_for_a_line_that_fits(workers):
    worker = workers[0]
    with ConnectClient(worker.url) as client:
        last = client.logs()["last"]
        assert client.logs(after=last, wait_ms=10)["lines"] == []
        timer = threading.Timer(0.3, lambda: worker.say("at last", BEGIN_MS, level=logging.ERROR))
        timer.start()
        worker.say("not this", BEGIN_MS)
        page = client.logs(after=last, level="ERROR", wait_ms=20_000)
        timer.join()
        assert [line["text"] for line in page["lines"]] == ["at last"]


@pytest.mark.parametrize("query", [{"limit": "-1"}, {"after": "1.5"}, {"level": "loud"}, {"wait_ms": "soon"}])
def test_a_query_that_is_none_is_refused_with_its_name(workers, query):
    with ConnectClient(workers[0].url) as client, pytest.raises(BadRequestError) as refused:
        client.logs(**query)
    assert next(iter(query)) in str(refused.value) or "Unknown log level" in str(refused.value)


def test_the_history_of_a_connector_and_of_all_is_answered(workers):
    worker = workers[0]
    meter = TaskMeter(run=1, born_s=0.0)
    for second in (0, 10):
        worker.herder.hour.sample(float(second), BEGIN_MS + second * 1000, {TaskId("a/b", 0): meter}, [])
    with ConnectClient(worker.url) as client:
        found, lines, slots = client.history("a/b"), client.history(), client.history(slots=True)
    assert found["worker"] == worker.herder.worker_id
    assert found["times"][-1] == BEGIN_MS + 10_000
    assert found["tasks"][0]["series"]["records_in_per_s"][-3:] == [None, 0, 0]
    assert list(lines["connectors"]) == ["a/b"]
    assert (slots["slots"], slots["tasks"]) == ([], [])

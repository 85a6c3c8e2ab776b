"""Commands and pages beside a worker that is really frozen (SIGSTOP): the socket takes what comes, nothing answers."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kconnect.client import ConnectClient
from kit.cli import CliResult, cli_run
from kit.distributed_worker import cluster_settings, worker_settings
from kit.pace import now
from kit.ports import free_port
from kit.shared_broker import SharedBroker
from kit.thread_worker import ThreadWorker
from kit.waiting import eventually

# Of a quiet machine; a command starts in 0.35 s
BESIDE_S, FROZEN_S = 1.5, 5.0
NAMES = ("a", "b", "c", "d")


class Pair:
    """Two workers with tasks of four connectors; the second is frozen."""

    def __init__(self, alive: ThreadWorker, frozen: ThreadWorker, home: object) -> None:
        self.alive, self.frozen, self._home = alive, frozen, home

    def timed(self, *args: str, most_s: float, expect: int | None = None) -> CliResult:
        began = now()
        result = cli_run(*args, home=self._home, expect=expect)
        took_s = now() - began
        assert took_s < most_s, f"{' '.join(args)} took {took_s:.1f} s: {result.stdout}{result.stderr}"
        return result

    def page(self, path: str, most_s: float) -> str:
        began = now()
        with urllib.request.urlopen(f"{self.alive.url}{path}", timeout=60) as answer:
            text = answer.read().decode()
        assert now() - began < most_s, path
        return text


@pytest.fixture(scope="module")
def pair(broker: SharedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("frozen")
    (folder / "lines.txt").write_text("a\nb\n")
    workers = []
    for name in ("one", "two", "home"):
        (folder / name).mkdir()
    for name in ("one", "two"):
        settings = worker_settings(broker.bootstrap, folder.name, session_timeout_ms="60000")
        workers.append(ThreadWorker(folder / name, settings))
    with workers[0], workers[1], ConnectClient(workers[0].url) as client:
        for name in NAMES:
            config = {"connector.class": "FileStreamSource", "file": str(folder / "lines.txt")}
            client.put_connector_config(name, {**config, "topic": f"{folder.name}-{name}"})

        def both_run() -> bool:
            tasks = [task for status in client.connector_statuses().values() for task in status.tasks]
            return [str(task.state) for task in tasks] == ["RUNNING"] * 4 and len({t.worker_id for t in tasks}) == 2

        eventually(both_run, 60, "each worker runs tasks")
        workers[1].freeze()
        try:
            yield Pair(*workers, folder / "home")
        finally:
            workers[1].thaw()


@pytest.fixture(scope="module")
def frozen_task(pair: Pair) -> str:
    """A connector whose task is on the frozen worker."""
    with ConnectClient(pair.alive.url) as client:
        own = pair.alive.url.removeprefix("http://")
        return next(name for name, status in client.connector_statuses().items() if status.tasks[0].worker_id != own)


@pytest.mark.parametrize(
    ("words", "code"),
    [("status", 7), ("connectors status", 0), ("describe NAME", 0), ("offsets show NAME", 0), ("slots", 0)],
)
def test_a_worker_that_is_asked_does_not_wait_for_one_that_is_frozen(pair, frozen_task, words, code):
    args = ["--url", pair.alive.url, *words.replace("NAME", frozen_task).split()]
    reported = pair.timed(*args, most_s=BESIDE_S, expect=code)
    frozen = pair.frozen.url.removeprefix("http://")
    if words == "status":
        assert f"Worker {frozen} does not answer: {pair.alive.url} gets no answer from it" in reported.stdout
    if words == "slots":
        assert f"The slots of {frozen} are not known: it does not answer, or is one of Java's." in reported.stderr
    if words == "describe NAME":
        assert f"Some rates are not known: {pair.alive.url} gets no answer from {frozen}." in reported.stderr


@pytest.mark.parametrize("path", ["/ui", "/ui/connectors/NAME", "/ui/connectors/NAME/offsets", "/ui/workers"])
def test_a_page_does_not_wait_for_one_that_is_frozen(pair, frozen_task, path):
    assert frozen_task in pair.page(path.replace("NAME", frozen_task), FROZEN_S) or path == "/ui/workers"


def test_commands_to_a_worker_that_is_frozen_end_in_time_and_say_that_it_gave_no_answer(pair):
    """All at once, as each of them only waits."""
    commands = (
        "status",
        "describe a",
        "connectors list",
        "connectors pause a",
        "connectors restart a",
        "config get a",
        "offsets show a",
        "plugins list",
        "slots",
        "logs",
        "cluster members",
        "topics doctor",
    )

    def reported(words: str) -> str:
        limit = ["--request-timeout", "1s"] if words != "describe a" else []
        return pair.timed("--url", pair.frozen.url, *words.split(), *limit, most_s=FROZEN_S, expect=6).stderr

    with ThreadPoolExecutor(3) as pool:
        for words, text in zip(commands, pool.map(reported, commands), strict=True):
            limit = "4 s" if words == "describe a" else "1 s"
            assert f"{pair.frozen.url} did not answer" in text, words
            assert f"within {limit} (--request-timeout)" in text, words
            changes = words in ("connectors pause a", "connectors restart a")
            assert ("was not sent" in text) == changes, words


def test_of_several_urls_the_one_that_answers_is_found_in_time(pair):
    url = f"{pair.frozen.url},{pair.alive.url}"
    assert "a" in pair.timed("--url", url, "connectors", "list", "-o", "name", most_s=FROZEN_S, expect=0).stdout


def test_the_limit_can_be_set_and_a_refused_connection_is_reported_at_once(pair):
    reported = pair.timed("--url", pair.frozen.url, "--request-timeout", "500ms", "status", most_s=2.5, expect=6)
    assert "within 0.5 s (--request-timeout)" in reported.stderr
    pair.timed("--url", f"http://127.0.0.1:{free_port()}", "status", most_s=BESIDE_S, expect=5)


@pytest.mark.parametrize(
    ("words", "limit"),
    [
        ("cluster members", "3 s"),
        ("cluster show --timeout 1s", "0.3 s"),
        ("topics config show --timeout 1s", "0.3 s"),
        ("connectors status --direct --timeout 1s", "0.3 s"),
        ("records x --timeout 1s", "0.3 s"),
    ],
)
def test_brokers_that_are_frozen_are_reported_in_time(pair, words, limit, tmp_path):
    """A listener whose process never takes the connection looks the same from outside as one that is stopped."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        worker = tmp_path / "worker.properties"
        settings = {**cluster_settings("g"), "bootstrap.servers": f"127.0.0.1:{frozen.getsockname()[1]}"}
        worker.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        reported = pair.timed(*words.split(), "--worker", str(worker), most_s=FROZEN_S, expect=6)
        described = ["--url", pair.alive.url, "describe", "a", "--worker", str(worker)]
        if limit == "4 s":
            assert "Its last changes are not known" in pair.timed(*described, most_s=FROZEN_S, expect=0).stderr
    assert f"answered within {limit}: no answer yet" in reported.stderr

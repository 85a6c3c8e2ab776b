"""How far sinks on Java's workers are behind: every screen asks the brokers, by one way, and none hangs at them."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kit.brokers import PatientBroker
from kit.cli import cli_env, connect_command
from kit.connect_ui import connect_ui_pages
from kit.distributed_worker import worker_settings
from kit.java_cluster import JavaCluster
from kit.pace import now
from kit.picture import Picture
from kit.ports import free_port
from kit.screen import Terminal
from kit.thread_worker import ThreadWorker
from kit.topics import produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]

BEHIND = 5
# Of a quiet machine: connect ui and a worker's /ui say so
MOST_S = 5.0


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PatientBroker]:
    with PatientBroker(free_port(), tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture(scope="module")
def cluster(own: PatientBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaCluster]:
    """A Java worker with the sink `snk`, which is five records behind and paused; and a source."""
    cluster = JavaCluster(own, tmp_path_factory.mktemp("java"))
    cluster.java.start()
    try:
        cluster.create("src", cluster.source(topic=f"{cluster.topic}-other"))
        cluster.create("snk", cluster.sink())
        fall_behind(cluster, own, "snk")
        yield cluster
    finally:
        cluster.java.stop()


def fall_behind(cluster: JavaCluster, broker: DevBroker, *names: str) -> None:
    produce_lines(broker.bootstrap, cluster.topic, ["a", "b"])
    for name in names:
        cluster.java.await_running(name)
        eventually(lambda name=name: cluster.offsets(name), 30, f"{name} has committed")  # type: ignore[misc]
        cluster.java.order("PUT", f"/connectors/{name}/pause", expect=202)
        cluster.connect("connectors", "wait", name, "--state", "PAUSED")
    produce_lines(broker.bootstrap, cluster.topic, ["c"] * BEHIND)


def lag_in(overview: str) -> dict[str, tuple[str, str]]:
    """By connector: the lag, and when it was so."""
    rows = re.findall(r'/ui/connectors/([^"]+)".*?(?:class="number lag" title="([^"]*)">([^<]*)<|</tr>)', overview)
    return {name: (lag, at) for name, at, lag in rows if lag}


def test_commands_tell_it_with_its_age(cluster: JavaCluster) -> None:
    began_ms = int(time.time() * 1000)
    for where in (("--worker", str(cluster.file)), ("--direct", "--worker", str(cluster.file))):
        found = cluster.connect("status", "-o", "json", *where).json
        assert found["lag"] == BEHIND
        assert began_ms <= found["lag_at_ms"] <= time.time() * 1000
        assert re.search(rf"{BEHIND} records behind \d+ s ago", cluster.connect("status", *where).stdout)
        assert cluster.connect("describe", "snk", "-o", "json", *where).json["lag"] == BEHIND
        assert cluster.connect("describe", "src", "-o", "json", *where).json["lag"] is None
        assert f"snk is {BEHIND} records behind." in cluster.connect("offsets", "show", "snk", *where).stderr


def test_commands_that_do_not_know_the_brokers_say_who_could_tell_it(cluster: JavaCluster) -> None:
    assert cluster.connect("status", "-o", "json").json["lag"] is None
    described = cluster.connect("describe", "snk", "-o", "json").json
    assert described["lag"] is None
    assert any("Its lag is not known" in note and "--worker FILE" in note for note in described["notes"]), described


@pytest.mark.parametrize("direct", [False, True])
def test_the_console_tells_it_with_its_age(cluster: JavaCluster, tmp_path: Path, direct: bool) -> None:
    where = ("--direct",) if direct else ("--url", cluster.java.url)
    with connect_ui_pages(tmp_path / "home", *where, "--worker", str(cluster.file)) as page:
        overview = eventually(lambda: lag_in(page("/ui")), 10, "the lag is in the overview")
        assert overview.keys() == {"snk"}
        assert re.fullmatch(r"As of \d\d:\d\d:\d\d UTC", overview["snk"][1]), overview
        assert overview["snk"][0] == str(BEHIND)
        assert re.search(rf'<td class="number">{BEHIND}</td></tr>', page("/ui/connectors/snk/topics"))
        activity = page("/ui/connectors/snk/activity/now")
        assert f'{BEHIND} records behind, as of <time data-ms="' in activity
        assert "behind" not in page("/ui/connectors/src/activity/now")


@pytest.mark.parametrize("direct", [False, True])
def test_top_tells_it(cluster: JavaCluster, tmp_path: Path, direct: bool) -> None:
    where = ["--direct"] if direct else ["--url", cluster.java.url]
    command = [*connect_command(), "top", "--interval", "500ms", *where, "--worker", str(cluster.file)]
    (tmp_path / "home").mkdir()
    with Terminal(command, cli_env(tmp_path / "home"), cwd=str(tmp_path)) as terminal:
        screen = Picture(terminal)
        screen.until(f"lag {BEHIND} ")
        screen.until(
            lambda text: ["snk", "sink", "PAUSED", "0/1", "-", str(BEHIND), "-"] in map(str.split, text.splitlines())
        )
        screen.press("q")
        assert terminal.wait() == 0


def test_no_page_hangs_at_a_frozen_broker(cluster: JavaCluster, own: PatientBroker, tmp_path: Path) -> None:
    def timed(ask: Callable[[], str]) -> str:
        began = now()
        found = ask()
        assert now() - began < MOST_S, found[-2000:]
        return found

    with connect_ui_pages(tmp_path / "home", "--url", cluster.java.url, "--worker", str(cluster.file)) as page:
        assert own.pid is not None
        os.kill(own.pid, signal.SIGSTOP)
        try:
            for _ in range(2):  # the first look ends by itself, the second begins while it lasts or after it
                for path in ("/ui", "/ui/connectors/snk", "/ui/connectors/snk/activity", "/ui/connectors/snk/topics"):
                    assert "snk" in timed(lambda path=path: page(path))  # type: ignore[misc]
        finally:
            os.kill(own.pid, signal.SIGCONT)


def test_a_worker_of_ours_shows_it_for_java_workers_of_its_group(broker: DevBroker, tmp_path: Path) -> None:
    """Either worker gets one of two sinks; ours looks up its own, and its pages ask for the other one."""
    cluster = JavaCluster(broker, tmp_path)
    cluster.java.start()
    try:
        for name in ("one", "two"):
            cluster.create(name, cluster.sink(file=str(tmp_path / f"{name}.txt")))
        more = dict(line.split("=", 1) for line in cluster.file.read_text().splitlines())
        settings = {**worker_settings(broker.bootstrap, more["group.id"]), **more}
        del settings["plugin.path"]
        (tmp_path / "ours").mkdir()
        with ThreadWorker(tmp_path / "ours", settings) as worker:

            def owners() -> set[str]:
                statuses = cluster.java.request("GET", "/connectors?expand=status")[1].values()
                found = {each["status"]["connector"]["worker_id"] for each in statuses}
                assert len(found) == 2, statuses
                return found

            eventually(owners, 60, "either worker has a sink")
            fall_behind(cluster, broker, "one", "two")

            def both() -> bool:
                with urllib.request.urlopen(f"{worker.url}/ui", timeout=60) as answer:
                    found = lag_in(str(answer.read(), "utf-8"))
                assert {name: lag for name, (lag, _) in found.items()} == {"one": str(BEHIND), "two": str(BEHIND)}
                return True

            eventually(both, 60, "the page has the lag of both")

            def one() -> bool:
                with urllib.request.urlopen(f"{worker.url}/admin/history?cluster=true", timeout=60) as answer:
                    lines = json.load(answer)["connectors"]
                assert len([name for name, line in lines.items() if line["lag"] is not None]) == 1, lines
                return True

            # It looks twice a minute, and takes a sample of what it knows every ten seconds
            eventually(one, 90, "the worker itself reports that of its own")
    finally:
        cluster.java.stop()

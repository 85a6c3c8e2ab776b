"""The console where it runs: in a worker with TLS and basic auth, and by `connect ui` for a worker and for topics."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from html import unescape

import pytest
from confluent_kafka import Producer

from kconnect.client import ClientAccess, ConnectClient
from kconnect.client.patience import LIMIT_S
from kconnect.model import RunState
from kconnect.testing import ThreadLauncher
from kconnect.worker import StandaloneWorker
from kit.certificates import Authority
from kit.connect_ui import connect_ui
from kit.console_browser import Browser, agreed, opened_ui
from kit.distributed_worker import workers
from kit.pace import ample_s
from kit.standalone import Standalone
from kit.topics import consume_values, create_topic, produce_lines
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
STRING = "org.apache.kafka.connect.storage.StringConverter"


def worker_of(tmp_path, bootstrap, settings):
    props = {
        "bootstrap.servers": bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "listeners": "http://127.0.0.1:0",
        **settings,
    }
    return StandaloneWorker(props, file=tmp_path / "worker.properties", launcher=lambda _: ThreadLauncher())


def test_a_sink_that_runs_is_moved_to_its_first_record_in_one_step_and_reads_all_again(
    tmp_path, broker, topic, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    produce_lines(broker.bootstrap, topic, ["one", "two", "three"])
    out, own = tmp_path / "out.txt", "/ui/connectors/orders"
    sink = {"connector.class": "FileStreamSink", "topics": topic, "file": str(out)}
    settings = {"offset.flush.interval.ms": "200"}
    with worker_of(tmp_path, broker.bootstrap, settings) as worker, ConnectClient(worker.rest_url) as client:
        client.create_connector("orders", sink)

        def is_at_end() -> bool:
            committed = [each.offset for each in client.connector_offsets("orders")]
            assert committed == [{"kafka_offset": 3}], f"{committed}, {client.connector_status('orders')}"
            return True

        eventually(is_at_end, 20, "all is committed")
        here = Browser(worker.rest_url)
        page = here.ask(f"{own}/offsets")[1]
        assert "stops it, changes its offsets, reads them back, and has it RUNNING again" in page
        review = here.ask(f"{own}/offsets/review", {**agreed(page), "action": "move", "to": "earliest", "amount": ""})[
            1
        ]
        assert "orders is stopped: it is RUNNING now." in review
        assert re.search(
            r'class="old">{&#34;kafka_offset&#34;:3}</td><td class="new">{&#34;kafka_offset&#34;:0}', review
        )
        assert out.read_text() == "one\ntwo\nthree\n"
        status, reported = here.ask(f"{own}/offsets", agreed(review))
        assert (status, "was stopped, its offsets were changed and read back, and it is RUNNING again" in reported) == (
            200,
            True,
        ), reported
        eventually(lambda: out.read_text() == "one\ntwo\nthree\n" * 2, 20, "it reads all again")
        assert client.connector_status("orders").connector.state is RunState.RUNNING


def test_topics_of_a_sink_are_shown_with_partitions_and_last_records_by_a_worker_and_without_one(
    tmp_path, broker, home
):
    topic = "console-looked-at"
    create_topic(broker.bootstrap, topic, partitions=2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number, value in enumerate(["one", "two", '{"three": "<b>"}']):
        place = {"partition": number % 2, "timestamp": 1_700_000_000_000 + number}
        producer.produce(topic, value.encode(), b"k", headers=[("origin", b"north")], **place)
    producer.flush(30)
    sink = {"connector.class": "FileStreamSink", "topics": topic, "file": str(tmp_path / "out.txt")}
    settings = {"offset.flush.interval.ms": "200"}
    with worker_of(tmp_path, broker.bootstrap, settings) as worker, ConnectClient(worker.rest_url) as client:
        client.create_connector("orders", sink)
        eventually(lambda: client.offsets_and_lag("orders")[1].total == 0, 20, "all is committed")
        client.pause_connector("orders")
        eventually(lambda: client.connector_status("orders").tasks[0].state is RunState.PAUSED, 20, "it pauses")
        producer.produce(topic, b"four", partition=1)
        producer.flush(30)
        eventually(lambda: client.offsets_and_lag("orders")[1].total == 1, 20, "one is behind")
        here = Browser(worker.rest_url)
        status, page = here.ask("/ui/connectors/orders/topics")
        assert status == 200, page
        assert _cells(page, "Partitions") == [["0", "2", "2", "0"], ["1", "2", "1", "1"]]
        records = _cells(page, "Last records")
        assert [row[1:3] for row in records] == [["1@1", "null"], ["0@1", "k"], ["1@0", "k"], ["0@0", "k"]]
        assert records[0][3] == "four"
        assert '{"three": "<b>"}' in records[1][3]
        assert "origin: north" in records[1][3]
        assert f'href="/ui/connectors/orders/topics?topic={topic}"' in here.ask("/ui/connectors/orders")[1]
        status, page = here.ask("/ui/connectors/orders/topics?topic=another")
        assert (status, "orders was not seen to use the topic another" in page) == (404, True)
    with WrittenCluster(broker.bootstrap, tmp_path) as cluster:
        cluster.add_connector("orders", {**sink, "tasks.max": "1"}, [{}], state=RunState.UNASSIGNED)
        with opened_ui(home, "--direct", "--worker", str(cluster.worker_file)) as laptop:
            status, page = laptop.ask("/ui/connectors/orders/topics")
            assert status == 200, page
            assert _cells(page, "Partitions") == [["0", "2", "2", "0"], ["1", "2", "1", "1"]]
            assert [row[1] for row in _cells(page, "Last records")] == ["1@1", "0@1", "1@0", "0@0"]


def _cells(page, heading):
    """The rows of the table below a heading, as text."""
    table = page.partition(f">{heading}</h2>")[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(<td.*?)</tr>", table, re.DOTALL)
    plain = [
        [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)] for row in rows
    ]
    return [[unescape(cell).strip() for cell in row] for row in plain]


def test_a_workers_console_and_connect_ui_work_behind_tls_and_basic_auth(tmp_path, broker):
    authority = Authority()
    ca = str(authority.file(tmp_path / "ca.pem"))
    (tmp_path / "users.properties").write_text("ann=s3cret\n")
    (tmp_path / "jaas.conf").write_text(f'KafkaConnect {{ {MODULE} required file="{tmp_path}/users.properties"; }};')
    settings = {
        "listeners": "https://127.0.0.1:0",
        "listeners.https.ssl.keystore.location": str(authority.sign("w").pem_file(tmp_path / "w.pem")),
        "rest.extension.classes": EXTENSION,
        "kconnect.jaas.file": str(tmp_path / "jaas.conf"),
    }
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    create_topic(broker.bootstrap, "console-orders")
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "console-orders"}
    access = ClientAccess(user="ann", password="s3cret", ca=ca)
    with (
        worker_of(tmp_path, broker.bootstrap, settings) as worker,
        ConnectClient(worker.rest_url, access=access) as client,
    ):
        client.create_connector("orders", source)
        eventually(lambda: _states(client) == [RunState.RUNNING], 20, "the task runs")
        ann = Browser(worker.rest_url, "ann:s3cret", ca)
        assert Browser(worker.rest_url, ca=ca).ask("/ui")[0] == 401
        status, page = ann.ask("/ui")
        assert (status, 'href="/ui/connectors/orders"' in page) == (200, True)
        assert "Review changes" in ann.ask("/ui/connectors/orders/config")[1]

        assert (
            ann.ask("/ui/connectors/orders/do/stop", {"seen": "RUNNING"}, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
        )
        assert ann.ask("/ui/connectors/orders/do/stop", {"seen": "RUNNING"})[0] == 200
        assert client.connector_status("orders").connector.state is RunState.STOPPED

        arguments = ("--url", worker.rest_url, "--user", "ann", "--ca", ca)
        with opened_ui(tmp_path / "home", *arguments, env={"KCONNECT_PASSWORD": "s3cret"}) as here:
            assert "STOPPED" in here.ask("/ui/connectors/orders")[1]
            assert here.ask("/ui/connectors/orders/do/resume", {"seen": "STOPPED"})[0] == 200
            eventually(lambda: _states(client) == [RunState.RUNNING], 20, "resumed from connect ui")


def test_connect_ui_ends_within_seconds_while_a_page_waits_for_a_worker_that_does_not_answer(tmp_path):
    with ExitStack() as stack:
        frozen = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        frozen.settimeout(ample_s(30))
        with connect_ui(tmp_path / "home", "--url", f"http://127.0.0.1:{frozen.getsockname()[1]}") as address:
            url, token = re.fullmatch(r"(http://[^/]+)(/ui\?token=.+)", address).groups()
            page = pool.submit(Browser(url).ask, token)
            connection = stack.enter_context(frozen.accept()[0])
            assert connection.recv(4) == b"GET "
        # It has ended, within ten seconds
        status, reported = page.result(ample_s(30))
        assert (status, "The request to http://127.0.0.1" in reported and "was aborted" in reported) == (503, True)


def test_the_console_is_switched_off_by_its_setting(tmp_path, broker):
    with worker_of(tmp_path, broker.bootstrap, {"kconnect.ui.enable": "false"}) as worker:
        assert Browser(worker.rest_url).ask("/ui")[0] == 404


def test_a_cluster_without_workers_is_shown_and_changed_on_its_topics(tmp_path, broker):
    config = {"connector.class": "FileStreamSource", "file": "/in", "topic": "t", "db.password": "geheim"}
    with WrittenCluster(broker.bootstrap, tmp_path) as cluster:
        cluster.add_connector("dead", config, [config])
        arguments = ("--direct", "--worker", str(cluster.worker_file))
        with opened_ui(tmp_path / "home", *arguments) as here:
            page = here.ask("/ui")[1]
            assert "States are the last ones that workers wrote" in page
            page = here.ask("/ui/connectors/dead")[1]
            assert "geheim" not in page
            asked = here.ask("/ui/connectors/dead/do/pause")[1]
            assert "create target-state-dead" in asked
            seen = re.search(r'name="seen" value="(\w+)"', asked)[1]
            status, page = here.ask("/ui/connectors/dead/do/pause", {"seen": seen})
            assert status == 200, page
            assert "PAUSED" in here.ask("/ui/connectors/dead/do/pause")[1]


def test_an_earlier_config_is_brought_back_and_dead_letters_are_counted(tmp_path, broker):
    group = "console-history"
    create_topic(broker.bootstrap, group)
    first = {
        "connector.class": "FileStreamSink",
        "topics": group,
        "file": str(tmp_path / "out"),
        "db.password": "geheim",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{group}-dlq",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    create_topic(broker.bootstrap, f"{group}-dlq")
    with (
        workers(broker.bootstrap, group, 1, kconnect_audit_log_file=str(tmp_path / "audit.log")) as (worker,),
        ConnectClient(worker.rest_url, retry_conflicts_s=30) as client,
    ):
        client.create_connector("lines-out", first)
        client.put_connector_config("lines-out", {**first, "file": "/elsewhere", "db.password": "geheimer"})
        here, own = Browser(worker.rest_url), "/ui/connectors/lines-out"
        page = here.ask(f"{own}/history")[1]
        assert "/elsewhere" in page
        assert "geheim" not in page
        at = re.findall(r'name="at" value="(\d+)"', page)[-1]
        asked = here.ask(f"{own}/history/review", {"at": at})[1]
        assert "geheim" not in asked
        form = agreed(asked)
        client.patch_config("lines-out", {"db.password": "geheimster", "file": "/third"})
        assert here.ask(f"{own}/history", form)[0] == 412
        status, again = here.ask(f"{own}/history", form, **{"HX-Request": "true"})
        assert (status, "Somebody else has changed the config since" in again, "geheim" in again) == (200, True, False)
        assert client.connector_config("lines-out")["file"] == "/third"
        assert here.ask(f"{own}/history", agreed(again))[0] == 200
        assert client.connector_config("lines-out")["file"] == first["file"]
        assert client.connector_config("lines-out")["db.password"] == "geheim"

        headers = [
            ("__connect.errors.connector.name", b"lines-out"),
            ("__connect.errors.stage", b"VALUE_CONVERTER"),
            ("__connect.errors.topic", group.encode()),
            ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
            ("__connect.errors.exception.message", b"no <JSON> at all"),
        ]
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        evil = "<script>alert(1)</script>"
        for value in ("first", "second", evil + "x" * 5_000 + "END"):
            producer.produce(f"{group}-dlq", value, headers=[*headers, (f"h{evil}", evil)])
        producer.produce(f"{group}-dlq", b"of another one", headers=[("__connect.errors.connector.name", b"other")])
        assert producer.flush(10) == 0
        page = here.ask(f"{own}/dead-letters")[1]
        assert "3 dead letters" in page
        assert "VALUE_CONVERTER" in page
        assert "no &lt;JSON&gt; at all" in page
        letters = f"{own}/dead-letters/letters"
        page = here.ask(f"{letters}?stage=value_converter&exception=DataException&topic={group}")[1]
        assert re.findall(r'dead-letters/letters/(\d@\d+)"', page) == ["0@2", "0@1", "0@0"]
        assert "No dead letter matches" in here.ask(f"{letters}?stage=KEY_CONVERTER")[1]
        status, page = here.ask(f"{letters}/0@2")
        assert (status, evil in page, "&lt;script&gt;alert(1)&lt;/script&gt;xxx" in page) == (200, False, True)
        assert "END" not in page
        assert "xEND" in here.ask(f"{letters}/0@2?whole=1")[1]
        assert here.ask(f"{letters}/0@3")[0] == 404  # another connector's

        replay = f"{own}/dead-letters/replay"
        page = here.ask(f"{replay}?at=0@1")[1]
        assert f"1 record will be sent to <code>{group}</code>" in page
        assert "second" in page
        form = {"at": "0@1", "ends": '{"0": 4}', "fingerprint": re.search(r'"fingerprint" value="(\w+)"', page)[1]}
        assert here.ask(replay, form, **{"Sec-Fetch-Site": "cross-site"})[0] == 403
        assert here.ask(replay, {**form, "at": "0@0"})[0] == 409
        status, page = here.ask(replay, form)
        assert (status, "1 dead letter of lines-out sent again." in page) == (200, True)
        assert consume_values(broker.bootstrap, group, 1) == [b"second"]
        audit = tmp_path / "audit.log"
        eventually(lambda: "dead-letters/replays" in audit.read_text(), 10, "the audit log has the replay")
        line = json.loads(audit.read_text().splitlines()[-1])
        assert (line["connector"], line["after"]) == ("lines-out", {"targets": {group: 1}})
        assert here.ask(replay, form)[0] == 409
        assert "There is nothing to replay" in here.ask(f"{replay}?at=0@1")[1]


def _states(client):
    return [task.state for task in client.connector_status("orders").tasks]


# Each kind of page that asks the worker itself
PAGES = ("/connectors/lines", "/connectors/lines/config", "/connectors/lines/offsets", "/workers", "/plugins")


@pytest.mark.spark
def test_every_page_about_a_frozen_worker_ends_in_time_and_says_so(tmp_path, broker, home, topic):
    (tmp_path / "in.txt").write_text("one\n")
    lines = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": topic}
    with Standalone(tmp_path, broker.bootstrap, {"lines": lines}, {"kconnect.slots": "1"}) as worker:
        worker.start()
        with opened_ui(home, "--url", worker.url) as known, ExitStack() as stack:
            worker.signal(signal.SIGSTOP)
            stack.callback(worker.signal, signal.SIGCONT)
            with ThreadPoolExecutor(len(PAGES) + 2) as browsers:
                change = browsers.submit(timed, known, "/ui/connectors/lines/do/pause", {"seen": "RUNNING"})
                shared = browsers.submit(
                    eventually, lambda: is_reported(known.ask("/ui")[1]), LIMIT_S, "the rows are said to be from before"
                )
                seen = list(browsers.map(lambda path: timed(known, f"/ui{path}"), PAGES))
                shared.result()
            for path, (took_s, status, page) in zip((*PAGES, "pause"), (*seen, change.result()), strict=True):
                assert took_s < ample_s(LIMIT_S + 5), path
                assert status == 504, (path, page)
                assert "did not answer GET /" in page, (path, page)
            stack.close()
            eventually(lambda: not is_reported(known.ask("/ui")[1]), 20, "the page says that the worker is back")


def test_pages_about_topics_whose_broker_does_not_answer_end_in_time_and_say_so(tmp_path, home):
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # it takes connections, as the kernel does for a frozen one
        at = f"127.0.0.1:{frozen.getsockname()[1]}"
        topics = [f"--{which}-topic=t-{which}" for which in ("config", "status", "offset")]
        with connect_ui(home, "--direct", "--timeout=2s", "--bootstrap-servers", at, *topics) as address:
            url, token = re.fullmatch(r"(http://[^/]+)(/ui\?token=.+)", address).groups()
            browser = Browser(url)
            for path in (token, "/ui/connectors/lines", "/ui/workers"):
                took_s, status, page = timed(browser, path)
                assert took_s < ample_s(6), path
                assert status in (503, 504), (path, page)
                assert at in page, page


def is_reported(page):
    """Whether it says that what it shows is from before."""
    return "did not answer" in page or "still being asked" in page


def timed(browser, path, form=None):
    """How long it took, status and page."""
    began = time.monotonic()
    status, page = browser.ask(path, form)
    return time.monotonic() - began, status, page

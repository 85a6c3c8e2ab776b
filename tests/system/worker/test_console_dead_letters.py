"""Dead letters in the console where it runs: edited and replayed by `connect ui` and by a worker's own pages."""

from __future__ import annotations

import json
import re
from html import unescape

import pytest
from confluent_kafka import Producer

from kconnect.client import ConnectClient
from kit.console_browser import Browser, agreed, opened_ui
from kit.distributed_worker import workers
from kit.topics import consume_values, create_topic
from kit.waiting import eventually
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker


@pytest.fixture
def letters(broker, topic):
    """Three lines that were no JSON, in the dead letter topic of a sink."""
    create_topic(broker.bootstrap, f"{topic}-dlq")
    headers = [
        ("__connect.errors.connector.name", b"lines-out"),
        ("__connect.errors.stage", b"VALUE_CONVERTER"),
        ("__connect.errors.topic", topic.encode()),
        ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
    ]
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(3):
        producer.produce(f"{topic}-dlq", f"oops {number}", headers=headers)
    assert producer.flush(10) == 0
    return topic


def sink_of(topic, file):
    return {
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": str(file),
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dlq",
        "errors.deadletterqueue.context.headers.enable": "true",
    }


REPLAY = "/ui/connectors/lines-out/dead-letters/replay"


def test_letters_are_edited_by_a_patch_and_put_into_the_sink_by_connect_ui_on_the_topics(tmp_path, broker, letters):
    out = tmp_path / "out.txt"
    with WrittenCluster(broker.bootstrap, tmp_path) as cluster:
        cluster.add_connector("lines-out", sink_of(letters, out), [], topics=[letters])
        arguments = ("--direct", "--worker", str(cluster.worker_file))
        with opened_ui(tmp_path / "home", *arguments) as here:
            assert "3 dead letters" in here.ask("/ui/connectors/lines-out/dead-letters")[1]
            page = here.ask("/ui/connectors/lines-out/dead-letters/letters")[1]
            assert re.findall(r'dead-letters/letters/(\d@\d+)"', page) == ["0@2", "0@1", "0@0"]
            assert "older ones" not in page
            assert "oops 1" in here.ask("/ui/connectors/lines-out/dead-letters/letters/0@1")[1]

            status, page = here.ask(f"{REPLAY}/preview", {"patch": '[{"op": "replace", "path": "/value"}]'})
            assert (status, "operation 1 (replace) has no value. For example:" in unescape(page)) == (400, True)
            assert '<button class="primary">' not in page
            patch = '[{"op": "replace", "path": "/value",\r\n "value": {"id": 7}}]'
            page = here.ask(f"{REPLAY}/preview", {"patch": patch, "at": "0@0", "through": "1"})[1]
            assert re.search(r'value</th><td class="old">oops 0</td><td class="new">{\n  &#34;id&#34;: 7\n}</td>', page)
            assert "1 record will be put into the sink" in page
            assert here.ask(REPLAY, {**agreed(page), "patch": "[]"})[0] == 409
            status, reported = here.ask(REPLAY, agreed(page))
            assert (status, "1 dead letter of lines-out put into the sink." in reported) == (200, True), reported
            assert out.read_text() == "{id=7}\n"

            page = here.ask(f"{REPLAY}/preview", {"through": "1"})[1]
            assert "1 dead letter already replayed" in page
            status, reported = here.ask(REPLAY, agreed(page))
            assert (status, "2 dead letters failed. The first:" in reported) == (200, True), reported
            assert out.read_text() == "{id=7}\n"

            edited = {"at": "0@1", "record": json.dumps({**record_of(here, "0@1"), "value": {"id": 8}}), "patch": ""}
            page = here.ask(f"{REPLAY}/preview", {**edited, "was": ""})[1]
            assert f"1 record will be sent to <code>{letters}</code>" in page
            assert here.ask(REPLAY, agreed(page))[0] == 200
            assert consume_values(broker.bootstrap, letters, 1) == [b'{"id":8}']


def record_of(here, at):
    page = here.ask(f"{REPLAY}?at={at}")[1]
    return json.loads(unescape(re.search(r'<textarea id="record"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)[1]))


def test_connect_ui_with_a_worker_and_its_file_shows_and_puts_letters_and_the_workers_own_console_puts_none(
    tmp_path, broker, letters
):
    out, audit = tmp_path / "out.txt", tmp_path / "audit.log"
    with (
        workers(broker.bootstrap, f"g-{letters}", 1, kconnect_audit_log_file=str(audit)) as (worker,),
        ConnectClient(worker.rest_url, retry_conflicts_s=30) as client,
    ):
        client.create_connector("lines-out", sink_of(letters, out))
        own = Browser(worker.rest_url)
        page = own.ask(f"{REPLAY}?at=0@0")[1]
        assert "a worker runs no sink&#39;s code beside its tasks" in page
        assert own.ask(f"{REPLAY}/preview", {"at": "0@0", "through": "1"})[0] == 400
        patch = '[{"op": "replace", "path": "/value", "value": {"id": 1}}]'
        page = own.ask(f"{REPLAY}/preview", {"at": "0@0", "patch": patch})[1]
        assert own.ask(REPLAY, agreed(page))[0] == 200
        assert consume_values(broker.bootstrap, letters, 1) == [b'{"id":1}']
        eventually(lambda: "dead-letters/replays" in audit.read_text(), 10, "the audit log has the replay")
        assert json.loads(audit.read_text().splitlines()[-1])["after"] == {"targets": {letters: 1}, "edited": True}

        file = tmp_path / "worker.properties"
        file.write_text(f"bootstrap.servers={broker.bootstrap}\n")
        arguments = ("--url", worker.rest_url, "--worker", str(file))
        with opened_ui(tmp_path / "home", *arguments) as here:
            page = here.ask("/ui/connectors/lines-out/dead-letters")[1]
            assert "3 dead letters" in page
            assert "1 of them replayed" in page
            page = here.ask(f"{REPLAY}/preview", {"at": "0@1", "through": "1", "patch": patch})[1]
            assert here.ask(REPLAY, agreed(page))[0] == 200
            assert out.read_text() == "{id=1}\n"

"""Objects on a real worker, while its slot and the S3 server are killed (-9): each row arrives once."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kit.distributed_worker import Distributed
from kit.s3 import S3Server, s3_server
from kit.topics import committed_values, create_topic, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.java, pytest.mark.timeout(240)]

OBJECTS, ROWS = 30, 2_000
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    """A server of the test's own, as it is killed."""
    with s3_server(tmp_path / "s3") as made:
        yield made


@pytest.fixture(scope="module")
def worker(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Distributed]:
    """One worker with exactly-once support and one slot."""
    folder = tmp_path_factory.mktemp("objects")
    settings = {"exactly.once.source.support": "enabled", "offset.flush.interval.ms": "300", "kconnect.slots": "1"}
    with Distributed(folder / "worker", broker.bootstrap, f"stores-{uuid.uuid4().hex[:6]}", settings) as made:
        yield made.start()
        made.stop()


def written(server: S3Server) -> Counter[int]:
    """How often each row is in the sink's objects."""
    found: Counter[int] = Counter()
    for key in server.keys("rows-out"):
        if not key.endswith(".jsonl"):
            continue  # S3Proxy lists what is being written, too
        found.update(json.loads(line)["n"] for line in server.get("rows-out", key).splitlines())
    return found


def test_each_row_is_in_the_topic_and_in_the_objects_once(
    broker: DevBroker, server: S3Server, worker: Distributed, request: pytest.FixtureRequest
) -> None:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    server.make_bucket("rows-in")
    server.make_bucket("rows-out")
    numbers = iter(range(OBJECTS * ROWS))

    def put(objects: range) -> None:
        for number in objects:
            lines = [json.dumps({"n": next(numbers), "pad": "x" * 60}) for _ in range(ROWS)]
            if number == 3:
                lines.insert(ROWS // 2, "this is no JSON")
            server.put("rows-in", f"rows/{number:03}.jsonl", "\n".join(lines).encode())

    put(range(OBJECTS // 3))
    source = {
        "connector.class": "ObjectSource",
        "object.url": "s3://rows-in/rows",
        "topic": topic,
        "object.after": "move",
    }
    source |= {"object.move.url": "s3://rows-in/done", "poll.interval.ms": "200", **JSON, **server.settings}
    letters = f"{topic}-letters"
    source |= {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": letters}
    source |= {"errors.deadletterqueue.topic.replication.factor": "1"}
    sink = {"connector.class": "ObjectSink", "object.url": "s3://rows-out", "topics": topic, **JSON, **server.settings}
    sink |= {"flush.rows": "3000", "flush.ms": "500", "consumer.override.isolation.level": "read_committed"}
    with worker.client() as client:
        client.create_connector("objects-in", source)
        client.create_connector("objects-out", sink)
    eventually(lambda: len(server.keys("rows-out")) >= 3, 60, f"the sink writes; {worker.log_text()[-3000:]}")
    for slot in worker.slots():
        slot.kill()
    before = len(server.keys("rows-out"))
    put(range(OBJECTS // 3, OBJECTS))  # not earlier: else all might be written before
    eventually(lambda: len(server.keys("rows-out")) > before, 60, f"it goes on; {worker.log_text()[-3000:]}")
    server.kill()
    eventually(lambda: "is being retried" in worker.log_text() or "Cannot " in worker.log_text(), 30, "they notice")
    server.start()
    wanted = Counter(range(OBJECTS * ROWS))
    eventually(lambda: sum(written(server).values()) >= len(wanted), 90, worker.log_text()[-3000:], pause_s=0.5)
    assert written(server) == wanted
    assert Counter(json.loads(value)["n"] for value in committed_values(broker.bootstrap, topic)) == wanted
    [letter] = committed_values(broker.bootstrap, letters)
    assert json.loads(letter)["payload"] == "this is no JSON"

    def all_moved() -> bool:
        left = server.keys("rows-in", "rows/")
        # As above: and what was written when it was killed stays
        done = [key for key in server.keys("rows-in", "done/") if key.endswith(".jsonl")]
        assert not left, f"not moved: {left}; {worker.log_text()[-3000:]}"
        assert len(done) == OBJECTS, f"moved: {done}; {worker.log_text()[-3000:]}"
        return True

    eventually(all_moved, 30, "all are moved")
    assert "test-secret-of-s3" not in worker.log_text()
    with worker.client() as client:
        client.delete_connector("objects-in")
        client.delete_connector("objects-out")

"""Records what workers answer to `connect top`, and the screens that it draws from that.

`python tests/golden/top/record.py` records two of our workers (ours.json) and two of Java's (java.json), each through
the same play on a real broker; `python tests/golden/top/record.py screens` only draws the screens of the recordings
again. Read the difference before you commit it.
"""

from __future__ import annotations

import json
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Protocol

from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).parents[2]))
from kconnect.java.devbroker import DevBroker
from kit.distributed_worker import Distributed
from kit.java_connect import JavaConnect
from kit.ports import free_port
from kit.rest_json import request_json
from kit.top_fronts import Fronts, Scene, load_scenes, worker_name
from kit.top_replay import played_through, screens_text
from kit.topics import create_topic
from kit.waiting import eventually

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[2]
NAMES = [worker_name(0), worker_name(1)]
_QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "scheduled.rebalance.max.delay.ms": "0"}


class Worker(Protocol):
    url: str

    def start(self) -> Any: ...
    def kill(self) -> Any: ...
    def stop(self) -> Any: ...


class Play:
    """What happens to the cluster, scene by scene."""

    def __init__(self, bootstrap: str, folder: Path, workers: list[Worker]) -> None:
        self._folder = folder
        self._workers = workers
        self._url = workers[0].url
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self.acts: dict[str, Callable[[], None]] = {
            "running": self._run,
            "failing": self._fail,
            "paused": self._pause,
            "away": self._kill,
            "taken over": self._take_over,
        }

    def _run(self) -> None:
        for name in ("numbers", "nightly"):
            (self._folder / f"{name}.txt").write_text("".join(f"{number}\n" for number in range(200)))
            self._put(name, {"connector.class": "FileStreamSource", "file": f"{name}.txt", "topic": name})
        self._put("copy", {"connector.class": "FileStreamSink", "file": "copy-out.txt", "topics": "numbers"})
        eventually(lambda: self._are({"numbers": "RUNNING", "nightly": "RUNNING", "copy": "RUNNING"}), 60)
        eventually(lambda: (self._folder / "copy-out.txt").read_text().count("\n") == 200, 30, "all are copied")

    def _fail(self) -> None:
        self._producer.produce("letters", b"{oops")
        assert self._producer.flush(20) == 0
        config = {
            "connector.class": "FileStreamSink",
            "file": "broken-out.txt",
            "topics": "letters",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "errors.restart.max": "1",
            "errors.restart.backoff.ms": "300",
        }
        self._put("broken", config)
        eventually(lambda: self._are({"broken": "FAILED"}), 60)

    def _pause(self) -> None:
        request_json(f"{self._url}/connectors/nightly/pause", "PUT")
        eventually(lambda: self._are({"nightly": "PAUSED"}), 30)

    def _kill(self) -> None:
        self._workers[1].kill()

    def _take_over(self) -> None:
        def taken_over() -> bool:
            assert {worker for _, worker in self._states().values()} == {self._url.removeprefix("http://")}
            return self._are({"numbers": "RUNNING", "copy": "RUNNING", "nightly": "PAUSED", "broken": "FAILED"})

        eventually(taken_over, 60, "all is on the first worker")

    def _put(self, name: str, config: dict[str, str]) -> None:
        placed = {key: str(self._folder / value) if key == "file" else value for key, value in config.items()}

        def put() -> bool:
            status, body = request_json(f"{self._url}/connectors/{name}/config", "PUT", {"tasks.max": "1", **placed})
            assert status in (200, 201), body
            return True

        eventually(put, 60, f"{name} is created")

    def _are(self, wanted: dict[str, str]) -> bool:
        """Whether the tasks of these are in these states, and what failed is not restarted any more."""
        found = {name: state for name, (state, _) in self._states().items()}
        assert {name: found.get(name) for name in wanted} == wanted, found
        return True

    def _states(self) -> dict[str, tuple[str, str]]:
        _, body = request_json(f"{self._url}/connectors?expand=status&condition=true", "GET")
        found = {}
        for name, each in body.items():
            status = each["status"]
            assert status["tasks"], status
            (task,) = status["tasks"]
            assert task.get("restarts", {}).get("state") != "waiting", task
            assert status["connector"]["state"] != "UNASSIGNED", status
            found[name] = (task["state"], task["worker_id"])
        return found


def record(made_by: str, workers: list[Worker], bootstrap: str, folder: Path) -> None:
    play, scenes = Play(bootstrap, folder, workers), dict[str, Scene]()

    def tidy(path: str, text: str) -> str:
        for place, shown in ((str(folder), "/data"), (str(_ROOT), "/opt/kconnect"), (sys.base_prefix, "/usr")):
            text = text.replace(place, shown)
        return text.replace(socket.gethostname(), "host1").replace(socket.getfqdn(), "host1")

    def scene_of(name: str) -> Scene:
        play.acts[name]()
        is_alone = name in ("away", "taken over")
        scenes[name] = {NAMES[0]: {}, NAMES[1]: None if is_alone else {}}
        return scenes[name]

    with Fronts(NAMES, {name: worker.url for name, worker in zip(NAMES, workers, strict=True)}, tidy) as fronts:
        played_through(fronts, scene_of)
    text = json.dumps({"made_by": made_by, "scenes": scenes}, indent=1, ensure_ascii=False)
    (_HERE / f"{made_by}.json").write_text(text + "\n")


def draw(made_by: str) -> None:
    scenes = load_scenes(_HERE / f"{made_by}.json")
    with Fronts(NAMES) as fronts:
        screens = played_through(fronts, scenes.__getitem__)
        assert not fronts.unknown, fronts.unknown
    (_HERE / f"{made_by}.screens.txt").write_text(screens_text(screens))


def main() -> None:
    if sys.argv[1:] != ["screens"]:
        with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
            folder = Path(place)
            broker = stack.enter_context(DevBroker(free_port(), folder / "broker"))
            for made_by in ("ours", "java"):
                files = folder / made_by
                files.mkdir()
                topics = {"numbers": 1, "nightly": 1, "letters": 1}
                for topic, partitions in topics.items():
                    if made_by == "ours":
                        create_topic(broker.bootstrap, topic, partitions=partitions)
                workers = [_worker(made_by, files / name, broker.bootstrap) for name in ("a", "b")]
                for worker in workers:
                    worker.start()
                try:
                    record(made_by, workers, broker.bootstrap, files)
                finally:
                    for worker in workers:
                        with suppress(ProcessLookupError):  # one was killed
                            worker.stop()
    for made_by in ("ours", "java"):
        draw(made_by)


def _worker(made_by: str, folder: Path, bootstrap: str) -> Worker:
    if made_by == "java":
        shared = {f"{name}.storage.topic": f"java-{name}" for name in ("config", "offset", "status")}
        return JavaConnect(
            folder,
            bootstrap,
            mode="distributed",
            worker={**shared, "group.id": "java", "offset.flush.interval.ms": "500", **_QUICK},
        )
    return Distributed(folder, bootstrap, "ours", {**_QUICK, "kconnect.slots": "1"})


if __name__ == "__main__":
    main()

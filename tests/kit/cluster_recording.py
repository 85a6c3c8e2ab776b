"""What one Java worker of a cluster (Kafka 4.3.0) was asked and answered, and what its tasks did meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from kconnect.model import ConnectorOffset, TaskId, TopicPartition
from kconnect.runtime.storage import commit_source_offsets
from kit.places import GOLDEN
from kit.rest_replay import World

RECORDED = json.loads((GOLDEN / "rest/transcript.json").read_text())
FILE = "/data/connect-x/w/rest/in.txt"


def of_one_worker() -> Iterator[dict[str, Any]]:
    """The recording without its last part, two workers."""
    for entry in RECORDED["entries"]:
        if entry.get("comment", "").startswith("second worker"):
            return
        if "comment" not in entry:
            yield entry


def _source_has_read(worker: World) -> None:
    worker.launcher.use_topic(TaskId("src", 0), "orc-t-src")
    commit_source_offsets(worker.offsets, "src", [ConnectorOffset({"filename": FILE}, {"position": 70})])


def _sink_has_read(offset: int) -> Callable[[World], None]:
    def act(worker: World) -> None:
        worker.launcher.use_topic(TaskId("rsnk", 0), "orc-t-src")
        worker.groups.offsets["connect-rsnk"] = {TopicPartition("orc-t-src", 0): offset}

    return act


def _fails(name: str, tasks: int) -> Callable[[World], None]:
    def act(worker: World) -> None:
        for task in range(tasks):
            worker.launcher.fail_task(TaskId(name, task), "trace")

    return act


# What tasks did in the recording before the request of that name.
BEFORE: dict[str, Callable[[World], None]] = {
    "unknown_predicate_status": _fails("a", 1),
    "get_src_topics": _source_has_read,
    "get_snk_topics": _sink_has_read(10),
    "bad_status": _fails("rbad", 2),
    "bad_restart_include_tasks": _fails("rbad", 2),
    "bad_restart_only_failed": _fails("rbad", 2),
    "bad_restart_upper": _fails("rbad", 2),
    "offs_get_running_after_alter": _source_has_read,
    "snk_offs_get_stopped": _sink_has_read(28),
    "snk_offs_get_resumed": _sink_has_read(28),
    "topics_src_after_more": _source_has_read,
}

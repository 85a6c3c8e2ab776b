"""Tasks that fail in a cluster on a real broker: they are restarted, given up, or left alone.

When, how often and by whom: unit/runtime/herder/test_auto_restarts.py; there, too, that the next leader counts on.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest

from kconnect.client import ConnectClient
from kconnect.java.devbroker import DevBroker
from kconnect.model import AutoRestart, Restarts, RunState, TargetState
from kconnect.runtime.plugins import PluginRegistry
from kconnect.testing import ThreadLauncher
from kit.distributed_worker import workers
from kit.pace import ample_s
from kit.places import KIT
from kit.topics import create_topic
from kit.waiting import eventually
from kit.webhook_target import webhook_target

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

_PLUGINS = str(KIT / "plugins")
_SOON = {
    "errors.restart.max": "3",
    "errors.restart.backoff.ms": "300",
    "errors.restart.backoff.max.ms": "600",
}


def _config(file: Path, topic: str, **more: str) -> dict[str, str]:
    return {
        "connector.class": "repairable_connectors.RepairableSource",
        "failures.file": str(file),
        "topic": topic,
        **_SOON,
        **more,
    }


def test_what_fails_is_restarted_given_up_or_left_alone(
    broker: DevBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    group = "auto-restarts"
    create_topic(broker.bootstrap, group)
    launcher = partial(ThreadLauncher, PluginRegistry.load(_PLUGINS))
    files = {name: tmp_path / name for name in ("twice", "always", "barred", "start")}
    files["twice"].write_text("0 gone\n0 gone\n")
    files["always"].write_text("0 gone*\n")
    files["barred"].write_text("0 rights*\n")
    files["start"].write_text("")
    with (
        webhook_target() as target,
        workers(
            broker.bootstrap,
            group,
            2,
            launcher,
            plugin_path=_PLUGINS,
            kconnect_webhook_url=target.url,
            kconnect_webhook_secret="correct horse",
            kconnect_webhook_events="failed,recovered,given-up,lag",
            kconnect_webhook_lag_above="3",
            kconnect_sink_lag_interval_ms="300",
        ) as pair,
        ConnectClient(pair[0].rest_url, retry_conflicts_s=30) as client,
    ):
        for name, file in files.items():
            client.create_connector(name, _config(file, group))
        sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out"), "topics": group}
        client.create_connector("idle", sink, initial_state=TargetState.STOPPED)

        def state(name: str) -> RunState:
            return client.connector_status(name).tasks[0].state

        def reported(text: str) -> bool:
            return any(text in record.getMessage() for record in caplog.records)

        eventually(
            lambda: not files["twice"].read_text() and state("twice") is RunState.RUNNING, 30, "it has recovered"
        )
        eventually(lambda: reported("Task twice-0 runs again, after 2 automatic restarts"), 20, "that is reported")
        eventually(lambda: reported("Task always-0 is FAILED on"), 20, "")
        eventually(lambda: reported(", given up after 3 restarts"), 30, "it is given up")
        eventually(lambda: reported("Task barred-0 is FAILED on"), 20, "the one that is left alone is reported, too")
        eventually(lambda: reported("not restarted because it is not authorized"), 20, "and why")
        assert not reported("1 task of connector barred")

        for url in (worker.rest_url for worker in pair):  # both read the same of it
            with ConnectClient(url) as other:

                def seen(other: ConnectClient = other) -> dict[str, Restarts | None]:
                    found = {name: other.connector_status(name).tasks[0].restarts for name in files}
                    assert replace(found["always"], due_ms=None) == Restarts(AutoRestart.GIVEN_UP, 3, 3)
                    assert found["always"].due_ms is not None
                    assert found["twice"] == Restarts(AutoRestart.RESTARTED, 2, 3)
                    assert found["barred"] == Restarts(AutoRestart.NOT_RESTARTED, 0, 3, "it is not authorized")
                    return found

                found = eventually(seen, 10, "it is no longer taken for one that is just being restarted")
            assert found["start"] is None
        leader = next(worker for worker in pair if worker.herder.is_leader)
        wait_s = ample_s(10)

        def is_counted() -> bool:
            metrics = urlopen(f"{leader.rest_url}/metrics", timeout=wait_s).read().decode()
            assert 'kafka_connect_part_restart_metrics_is_given_up{connector="always",task="0"} 1' in metrics
            assert "kafka_connect_restart_metrics_given_up 1" in metrics
            return True

        eventually(is_counted, 10, "the leader's metrics have it")
        raw = json.loads(urlopen(f"{leader.rest_url}/connectors/always/status", timeout=wait_s).read())
        assert "restarts" not in raw["tasks"][0], "Java's body stays Java's"

        def posted() -> Counter[tuple[str, str | None]]:
            events = Counter(target.events())
            found = [events[each] for each in (("failed", "barred"), ("given-up", "always"), ("recovered", "twice"))]
            assert (found, events["failed", "twice"]) == ([1, 1, 1], 2), events
            return events

        events = eventually(posted, 20, "the leader posts it")
        eventually(lambda: ("lag", "idle") in target.events(), 20, "the records of the others lie there")
        assert target.events().count(("lag", "idle")) == 1, "once a cluster"
        shown = json.loads(urlopen(f"{leader.rest_url}/admin/webhooks", timeout=wait_s).read())
        assert shown[0]["problem"] is None
        assert shown[0]["delivered"] >= len(events)
        assert "t0ken" not in json.dumps(shown) + caplog.text
        assert "correct horse" not in caplog.text

        target.hang.set()  # from now on it takes requests and says nothing
        client.restart_connector("always", include_tasks=True, only_failed=True)
        eventually(lambda: caplog.text.count(", given up after 3 restarts") == 2, 30, "the herder does not wait for it")

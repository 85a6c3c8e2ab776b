"""Tasks that do not get on in a cluster of two workers: any of them tells, and the doctor asks both."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from kconnect.client import ClientAccess, ConnectClient
from kconnect.java.devbroker import DevBroker
from kconnect.model import Condition, RunState
from kconnect.runtime.plugins import PluginRegistry
from kconnect.testing import ThreadLauncher
from kit.cli import cli_run
from kit.distributed_worker import cluster_settings, workers
from kit.places import KIT
from kit.standalone import write_properties
from kit.topics import create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]

_PLUGINS = str(KIT / "plugins")
_GROUP = "degraded-pair"
_REST = "org.apache.kafka.connect.rest.basic.auth.extension."


def test_any_worker_and_the_doctor_tell_how_the_tasks_of_all_workers_fare(broker: DevBroker, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, _GROUP)
    mood = tmp_path / "mood"
    config = {
        "connector.class": "moody_connectors.MoodySource",
        "mood.file": str(mood),
        "topic": _GROUP,
        "errors.retry.delay.max.ms": "300",
    }
    launcher = partial(ThreadLauncher, PluginRegistry.load(_PLUGINS))
    with workers(broker.bootstrap, _GROUP, 2, launcher, plugin_path=_PLUGINS) as pair:
        urls = [worker.rest_url for worker in pair]

        def conditions(url: str) -> dict[str, str]:
            """Worker of each task -> its condition."""
            with ConnectClient(url) as client:
                statuses = client.connector_statuses()
            tasks = [task for status in statuses.values() for task in status.tasks]
            assert [task.state for task in tasks] == [RunState.RUNNING] * 2, statuses
            return {task.worker_id: "" if task.condition is None else str(task.condition.condition) for task in tasks}

        with ConnectClient(urls[1], retry_conflicts_s=30) as client:
            for name in ("moody-a", "moody-b"):
                client.create_connector(name, config)
        ids = {url.partition("//")[2] for url in urls}
        for url in urls:
            eventually(
                lambda url=url: conditions(url) == dict.fromkeys(ids, "healthy"), 40, "each runs one of the tasks"
            )

        mood.write_text("away")

        for url in urls:
            eventually(lambda url=url: conditions(url) == dict.fromkeys(ids, "retrying"), 20, "both are reported")
        shared = {"bootstrap.servers": broker.bootstrap, **cluster_settings(_GROUP)}
        file = write_properties(tmp_path / "cluster.properties", shared)
        reported = cli_run("topics", "doctor", "--worker", str(file), "-o", "json", home=tmp_path, expect=7).json
        degraded = [finding for finding in reported["findings"] if finding["code"] == f"task-{Condition.RETRYING}"]
        assert sorted(finding["connector"] for finding in degraded) == ["moody-a", "moody-b"]
        assert all(
            "MoodySourceTask.poll() raised RetriableError: the shop is closed" in json.dumps(each) for each in degraded
        )

        mood.write_text("")

        for url in urls:
            eventually(lambda url=url: conditions(url) == dict.fromkeys(ids, "healthy"), 20, "it is over")
        cli_run("topics", "doctor", "--worker", str(file), home=tmp_path, expect=0)


def test_the_doctor_shows_a_worker_behind_basic_auth_who_asks(broker: DevBroker, tmp_path: Path) -> None:
    group = "degraded-guarded"
    create_topic(broker.bootstrap, group)
    (tmp_path / "users.properties").write_text("ann=s3cret\n")
    login = f'{_REST}PropertyFileLoginModule required file="{tmp_path / "users.properties"}";'
    (tmp_path / "jaas.conf").write_text(f"KafkaConnect {{ {login} }};")
    mood = tmp_path / "mood"
    mood.write_text("away")
    launcher = partial(ThreadLauncher, PluginRegistry.load(_PLUGINS))
    guarded = {
        "rest_extension_classes": f"{_REST}BasicAuthSecurityRestExtension",
        "kconnect_jaas_file": str(tmp_path / "jaas.conf"),
    }
    with workers(broker.bootstrap, group, 1, launcher, plugin_path=_PLUGINS, **guarded) as [worker]:
        url, access = worker.rest_url, ClientAccess(user="ann", password="s3cret")
        config = {"connector.class": "moody_connectors.MoodySource", "mood.file": str(mood), "topic": group}
        with ConnectClient(url, access=access, retry_conflicts_s=30) as client:
            client.create_connector("moody", config)
            eventually(lambda: [str(c.condition) for c in client.conditions().values()] == ["retrying"], 30)
        shared = {"bootstrap.servers": broker.bootstrap, **cluster_settings(group)}
        file = write_properties(tmp_path / "cluster.properties", shared)
        (tmp_path / "pw").write_text("s3cret\n")
        add = ("contexts", "add", "g", url, "--user", "ann", "--password-file", "pw", "--worker", str(file))
        cli_run(*add, home=tmp_path, expect=0)

        reported = cli_run("topics", "doctor", "-o", "json", home=tmp_path, expect=7).json
        assert [each["connector"] for each in reported["findings"] if each["code"] == "task-retrying"] == ["moody"]
        assert [each for each in reported["not_checked"] if "condition of what runs" in each["what"]] == []

        stranger = {"KCONNECT_WORKER": str(file), "KCONNECT_URL": url}
        reported = cli_run("topics", "doctor", "-o", "json", home=tmp_path, env=stranger, expect=0).json
        refused = [
            each["why"]
            for each in reported["not_checked"]
            if each["what"].startswith(f"the condition of what runs on {url}")
        ]
        assert refused == [f"{url} refuses a caller without a user (401)"]

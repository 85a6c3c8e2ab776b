"""Connectors whose configs refer to secrets: what they get, what is shown, and what happens when a secret changes."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

import pytest

from kconnect.api import ConfigData
from kconnect.errors import ConfigError, ConnectError
from kconnect.logs import redaction
from kconnect.runtime.config.variables import FileConfigProvider, Variables
from kconnect.runtime.herder.connectors import host
from kconnect.runtime.herder.connectors.reloads import WatchedFiles
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.plugins import PluginRegistry
from kit.certificates import Authority
from kit.herders import Bench, herder_bench
from kit.waiting import eventually


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    file = tmp_path / "secrets.properties"
    file.write_text("file=first-secret\ntasks=2\nclass=source\n")
    return file


@pytest.fixture
def bench(secrets: Path) -> Iterator[Bench]:
    props = {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    with herder_bench(variables=Variables.of_worker(props)) as made:
        yield made


@pytest.fixture
def watching(secrets: Path) -> Iterator[Bench]:
    """Looks at its files every 20 ms."""
    props = {
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.ttl.ms": "20",
    }
    with herder_bench(variables=Variables.of_worker(props)) as made:
        yield made


def reference(secrets: Path, key: str = "file") -> str:
    return f"${{file:{secrets}:{key}}}"


def test_a_connector_gets_the_value_and_everybody_else_sees_the_reference(bench: Bench, secrets: Path) -> None:
    bench.create(file=reference(secrets))

    assert bench.journal.last._props["file"] == "first-secret"
    shown = bench.herder.connector_info("fsrc").config["file"], bench.herder.connector_config("fsrc")["file"]
    assert shown == (reference(secrets), reference(secrets))
    assert [task.config["file"] for task in bench.herder.task_infos("fsrc")] == [reference(secrets)]


def test_tasks_are_sent_references_never_values(bench: Bench, secrets: Path) -> None:
    bench.create(file=reference(secrets))

    (spec,) = bench.launcher.tasks.values()
    assert "first-secret" not in json.dumps(spec.to_json())
    assert spec.task_config["file"] == spec.connector_config["file"] == reference(secrets)


def test_class_and_number_of_tasks_may_be_references_too(bench: Bench, secrets: Path) -> None:
    bench.create(kind=reference(secrets, "class"), tasks=reference(secrets, "tasks"), tasks_max="2")

    assert bench.states() == ("RUNNING", ["RUNNING", "RUNNING"])


def test_a_secret_that_is_gone_fails_the_connector_with_one_sentence(bench: Bench, secrets: Path) -> None:
    bench.create(file=reference(secrets))
    secrets.unlink()

    with pytest.raises(ConnectError):
        bench.herder.restart_connector("fsrc")

    status = bench.herder.connector_status("fsrc").connector
    assert status.state == "FAILED"
    assert (
        f"{reference(secrets)} in file of connector fsrc cannot be resolved by the config provider file: "
        f"the file {secrets} cannot be read: No such file or directory."
    ) in (status.trace or "")


def test_a_trace_hides_what_was_found(bench: Bench, secrets: Path) -> None:
    secrets.write_text("file=no start today\n")

    with pytest.raises(ConnectError):
        bench.create(file=reference(secrets), raise_in="start")

    trace = bench.herder.connector_status("fsrc").connector.trace or ""
    assert "RuntimeError: [hidden]" in trace
    assert "no start today" not in trace


def test_a_trace_hides_what_the_plugins_type_as_password(bench: Bench) -> None:
    with pytest.raises(ConnectError):
        bench.create(pin="no start today", raise_in="start")

    trace = bench.herder.connector_status("fsrc").connector.trace or ""
    assert "RuntimeError: [hidden]" in trace
    assert "no start today" not in trace
    bench.herder.delete_connector("fsrc")
    assert redaction.redact("no start today") == "no start today", "nothing is hidden of who is gone"


def test_a_changed_secret_restarts_connector_and_tasks(watching: Bench, secrets: Path) -> None:
    watching.create(file=reference(secrets))
    before = [spec.run for spec in watching.launcher.tasks.values()]

    secrets.write_text("file=second-secret\n")

    eventually(lambda: watching.journal.last._props["file"] == "second-secret", 5, "the connector has the new secret")
    eventually(
        lambda: [spec.run for spec in list(watching.launcher.tasks.values())] > before, 5, "its task has it as well"
    )
    eventually(lambda: watching.states() == ("RUNNING", ["RUNNING"]), 5, "it runs again")


class Counting(FileConfigProvider):
    """Counts how often it is asked."""

    asked = 0

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        self.asked += 1
        return super().get(path, keys)


def test_an_unchanged_secret_restarts_nothing(secrets: Path) -> None:
    counting = Counting()
    counting.configure({"ttl.ms": "20"})
    with herder_bench(variables=Variables({"file": counting})) as bench:
        bench.create(file=reference(secrets))
        calls = list(bench.journal.calls)

        secrets.write_text(secrets.read_text() + "other=changed\n")
        asked = counting.asked
        eventually(lambda: counting.asked >= asked + 4, 5, "the file is looked at")

        assert bench.journal.calls == calls


def test_config_action_reload_none_leaves_the_connector_alone(watching: Bench, secrets: Path) -> None:
    watching.create(file=reference(secrets), config_action_reload="none")
    watching.create("other", file=reference(secrets))

    secrets.write_text("file=second-secret\n")
    eventually(lambda: watching.journal.calls.count("start") == 3, 5, "the other connector restarts")
    secrets.write_text("file=third-secret\n")
    eventually(lambda: watching.journal.calls.count("start") == 4, 5, "and again")

    assert watching.journal.calls.count("stop") == 2
    assert watching.journal.last._props["name"] == "other"


def test_a_secret_that_vanishes_leaves_the_connector_running(
    watching: Bench, secrets: Path, caplog: pytest.LogCaptureFixture
) -> None:
    watching.create(file=reference(secrets))

    secrets.unlink()

    eventually(
        lambda: any("cannot be restarted with what its config refers to" in text for text in caplog.messages),
        5,
        "the loss is reported",
    )
    assert watching.states() == ("RUNNING", ["RUNNING"])


# -- files of Kafka clients ---------------------------------------------------------------------------------------


def overriding(file: Path) -> dict[str, str]:
    return {
        "producer_override_security_protocol": "SSL",
        "producer_override_ssl_truststore_type": "PEM",
        "producer_override_ssl_truststore_location": str(file),
    }


@pytest.fixture
def trust(tmp_path: Path) -> Path:
    return Authority("old").file(tmp_path / "trust.pem")


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Looks at files of clients every 20 ms."""
    monkeypatch.setattr(host, "WatchedFiles", partial(WatchedFiles, every_s=0.02))
    with herder_bench() as made:
        yield made


def test_a_changed_file_of_a_client_restarts_the_connectors_that_use_it(
    looking: Bench, trust: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    looking.create(**overriding(trust))
    looking.create("other", **overriding(Authority("another").file(tmp_path / "another.pem")))
    (run,) = [spec.run for spec in looking.launcher.tasks.values() if spec.id.connector == "fsrc"]

    trust.write_bytes(trust.read_bytes())
    Authority("new").file(trust)

    said = f"Connector fsrc: restarting it and its tasks: its tasks' Kafka clients read {trust}, which changed"
    eventually(lambda: said in caplog.messages, 5, "the restart is reported")
    eventually(lambda: looking.states() == ("RUNNING", ["RUNNING"]), 5, "it runs")
    runs = {spec.id.connector: spec.run for spec in looking.launcher.tasks.values()}
    assert runs["fsrc"] > run
    assert looking.journal.calls.count("start") == 3, "the other one goes on"
    assert [text for text in caplog.messages if "Kafka clients read" in text] == [said]


def test_a_file_of_a_client_that_is_half_written_restarts_nothing(
    looking: Bench, trust: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    looking.create(**overriding(trust))
    whole = Authority("new").pem

    trust.write_bytes(whole[:100])
    eventually(lambda: any("is not readable PEM" in text for text in caplog.messages), 5, "it is reported")
    assert looking.journal.calls.count("start") == 1
    trust.write_bytes(whole)
    eventually(lambda: looking.journal.calls.count("start") == 2, 5, "it restarts once the file is whole")


# -- validation ---------------------------------------------------------------------------------------------------


def validator(**worker: str) -> ConnectorValidator:
    props = {
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        **{key.replace("_", "."): value for key, value in worker.items()},
    }
    return ConnectorValidator(PluginRegistry.load(), props, Variables.of_worker(props))


def file_source(**more: str) -> dict[str, str]:
    spelled = {key.replace("_", "."): value for key, value in more.items()}
    return {"name": "fsrc", "connector.class": "FileStreamSource", "topic": "t", **spelled}


def test_validation_checks_the_value_and_shows_the_reference(secrets: Path) -> None:
    infos = validator().validate(file_source(tasks_max=reference(secrets, "tasks")))
    assert infos.error_count == 0

    infos = validator().validate(file_source(tasks_max=reference(secrets), file=reference(secrets)))

    shown = json.dumps(infos.to_json())
    assert "first-secret" not in shown
    by_name = {info.value.name: info.value for info in infos.configs if info.value}
    assert by_name["tasks.max"].value == reference(secrets)
    assert by_name["tasks.max"].error_messages[0] == (
        f"Invalid value {reference(secrets)} for configuration tasks.max: Not a number of type INT"
    )


def test_validation_of_a_secret_that_is_not_there_tells_what_to_do(secrets: Path) -> None:
    with pytest.raises(ConfigError, match=r"in file of connector fsrc cannot be resolved") as reported:
        validator().raise_if_invalid(file_source(file=reference(secrets, "none")))

    assert reported.value.hint == "Add it there, or correct file."


@pytest.mark.parametrize(("key", "is_allowed"), [("acks", False), ("linger.ms", True)])
def test_policy_allowlist_lets_through_what_it_lists(key: str, is_allowed: bool) -> None:
    allowing = validator(
        connector_client_config_override_policy="Allowlist",
        connector_client_config_override_allowlist="linger.ms, batch.size",
    )

    infos = allowing.validate({**file_source(), f"producer.override.{key}": "1"})

    message = f"The 'Allowlist' policy does not allow '{key}' to be overridden in the connector configuration."
    assert infos.errors == ([] if is_allowed else [message])

"""Who is blamed for a failure: the step that failed, by its class and its settings, and the cause before any stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from kconnect.errors import ConnectError
from kconnect.java.devbroker import DevBroker
from kconnect.logs.traces import root_cause
from kconnect.model import RunState
from kit.java_plugin_folder import java_plugin_folder
from kit.java_worker import JSON, JavaWorker, java_worker
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark]

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_OFF = {"errors.restart.max": "0"}
_BAD = {"transforms": "m", "transforms.m.type": "kit.TestPlugins$Misbehaves", "transforms.m.does": "throw"}
_AT_START: dict[str, tuple[Mapping[str, str], str]] = {
    "exception": ({"transforms.m.times": " 5 "}, 'NumberFormatException: For input string: " 5 "'),
    "error": ({"transforms.m.does": "error at start"}, "AssertionError: not so"),
    "checked": ({"transforms.m.does": "checked at start"}, "IOException: undeclared"),
}
_ODD = {"transforms": "i", "transforms.i.type": "kit.TestPlugins$Identity", "transforms.i.predicate": "ends",
        "predicates": "ends", "predicates.ends.type": "kit.TestPlugins$Ends", "predicates.ends.end": "x"}  # fmt: skip
# A step of Python makes the chain a mixed one; no record comes to it
_PYTHON = {"transforms.z.type": "SqlTransform", "transforms.z.query": "SELECT a FROM records"}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: DevBroker) -> Iterator[JavaWorker]:
    plugins = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    with java_worker(tmp_path_factory.mktemp("blame"), broker.bootstrap, plugins) as running:
        yield running


def failed(worker: JavaWorker, name: str, **config: str) -> str:
    """The trace of its task."""
    worker.create(name, **_OFF, **config)
    trace = worker.await_task(name, RunState.FAILED)
    worker.delete(name)
    return trace


def sink(broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path, text: str) -> Mapping[str, str]:
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    produce_lines(broker.bootstrap, topic, [text])
    return {
        "connector.class": "kit.JavaFile",
        "topics": topic,
        "file": str(tmp_path / "out.txt"),
        "value.converter": _STRING,
        "consumer.override.auto.offset.reset": "earliest",
    }


@pytest.mark.parametrize("case", _AT_START)
def test_a_step_that_cannot_start_is_blamed_and_not_the_task(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path, case: str
) -> None:
    more, thrown = _AT_START[case]
    said = f"TestPlugins$Misbehaves.configure() of transforms.m raised JavaPluginError: {thrown}."
    source = {"connector.class": "kit.TestPlugins$Numbers", "topic": topic_for(request, "-numbers")}
    for config in (source, sink(broker, request, tmp_path, "good")):
        trace = failed(worker, "bad-start", **{**config, **_BAD, **more})
        assert trace.startswith(f"Task bad-start-0 failed: {said}"), trace[:500]
        assert root_cause(trace).startswith(said)
        assert ".start() raised" not in trace
        assert "at kit.TestPlugins$Misbehaves.configure(TestPlugins.java:" in trace


@pytest.mark.parametrize(
    ("config", "text", "blamed"),
    [
        (_BAD, "bad", "TRANSFORMATION of TestPlugins$Misbehaves (transforms.m)"),
        (_ODD, "odd", "TRANSFORMATION of TestPlugins$Identity (transforms.i, in its predicate TestPlugins$Ends, "
         "predicates.ends)"),
        ({"value.converter": JSON}, "{oops", "VALUE_CONVERTER of JsonConverter"),
    ],
    ids=["transformation", "predicate", "converter"],
)  # fmt: skip
def test_a_step_that_fails_on_a_record_is_blamed_by_class_and_alias(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path,
    config: Mapping[str, str], text: str, blamed: str,
) -> None:  # fmt: skip
    base = sink(broker, request, tmp_path, text)
    steps = config.get("transforms")
    for python in ({}, {**_PYTHON, "transforms": f"{steps},z" if steps else "z"}):
        trace = failed(worker, f"on-a-record-{len(python)}", **{**base, **config, **python})
        where = f"Record of topic {base['topics']!r}, partition 0, offset 0"
        assert f"{where} failed in {blamed}" in trace.partition("\n")[0], trace[:600]
        assert f"{where} in {blamed}" in root_cause(trace)


def test_the_trace_of_a_failed_connector_begins_with_its_cause(worker: JavaWorker, tmp_path: Path) -> None:
    name, when = "o-dbz-bin", tmp_path / "now"  # its password is a part of its name
    when.touch()
    bad = {"connector.class": "kit.Faulty$Source", "does": "fail", "in": "begin", "when": str(when), "topic": "t",
           "database.password": "dbz"}  # fmt: skip
    with suppress(ConnectError):  # which says so, too
        worker.create(name, **_OFF, **bad)

    def trace() -> str:
        with worker.client() as client:
            status = client.connector_status(name)
        assert status.connector.state == RunState.FAILED
        return status.connector.trace or ""

    reported = eventually(trace, 30, "the connector is FAILED")
    assert reported.startswith("Connector o-dbz-bin failed: It does not do fail.\nTraceback"), reported[:300]
    assert root_cause(reported) == "It does not do fail."
    assert "at kit.Faulty.in(Faulty.java:" in reported
    # Its line of the log has Java's own line
    source = (Path(__file__).parents[3] / "kit" / "java_sources" / "kit" / "Faulty.java").read_text().splitlines()
    (line,) = [number for number, text in enumerate(source, 1) if 'info("now {} fails"' in text]
    worker.await_logged(f"INFO [o-dbz-bin|worker] now begin fails (kit.Faulty:{line})")
    worker.delete(name)


def test_the_log_says_what_a_restart_of_a_sink_puts_again(
    worker: JavaWorker, broker: DevBroker, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    when = tmp_path / "now"
    when.touch()
    topic = topic_for(request)
    create_topic(broker.bootstrap, topic)
    produce_lines(broker.bootstrap, topic, ["one"])
    bad = {"connector.class": "kit.Faulty$Sink", "does": "fail", "in": "put", "when": str(when), "topics": topic,
           "journal": str(tmp_path / "journal"), "consumer.override.auto.offset.reset": "earliest"}  # fmt: skip
    worker.create("twice", **bad)
    worker.await_logged(
        ", which puts again what came since its last commit (with errors.restart.max=0 it stays FAILED): Task twice-0 "
    )
    worker.delete("twice")

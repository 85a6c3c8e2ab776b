"""Start and stop of a standalone worker beside a real broker: what goes wrong has Java's exit code and says where."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

from kconnect.errors import ConnectError
from kconnect.java.compat.serialized_map import dump_map, load_map
from kconnect.model import ConnectorOffset
from kconnect.runtime.config import load_connector_file
from kconnect.worker import EXIT_CONNECTORS, EXIT_WORKER, StandaloneWorker, StartupError
from kit.memory_launcher import MemoryLauncher
from kit.pace import ample_s, now
from kit.waiting import eventually

STRING = "org.apache.kafka.connect.storage.StringConverter"


def props(tmp_path, bootstrap, **more):
    return {
        "bootstrap.servers": bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "listeners": "http://127.0.0.1:0",
        "kconnect.bootstrap.timeout.ms": "1500",
    } | {key.replace("_", "."): value for key, value in more.items()}


def worker_of(settings, files=(), launcher=None):
    return StandaloneWorker(settings, files, launcher=lambda _: launcher or MemoryLauncher())


def source_file(tmp_path, name="src", **more):
    path = tmp_path / f"{name}.properties"
    settings = {"name": name, "connector.class": "FileStreamSource", "file": str(tmp_path / "in"), "topic": "t"} | more
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items() if value), encoding="utf-8")
    return load_connector_file(path)


def refused(worker):
    with pytest.raises(StartupError) as raised:
        worker.start()
    return raised.value


def served_at(worker):
    try:
        return worker.rest_url
    except ConnectError:
        return None


def answer_of(url):
    """Status and body."""
    try:
        with urllib.request.urlopen(url, timeout=ample_s(10)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as err:
        with err:
            return err.code, json.load(err)


@contextmanager
def nobody_listens():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))  # bound, never listening: connections are refused, and nobody else gets the port
        yield f"127.0.0.1:{sock.getsockname()[1]}"


def test_a_broker_that_is_not_there_is_reported_with_its_address_and_exit_code_2(tmp_path):
    with nobody_listens() as address:
        began = now()
        error = refused(worker_of(props(tmp_path, address)))
    assert error.exit_code == EXIT_WORKER
    assert f"No Kafka broker answers at bootstrap.servers={address} within 1.5 s" in str(error)
    assert "Start the broker" in (error.hint or "")
    assert now() - began < 5


def test_health_says_that_the_broker_is_awaited_others_wait_and_a_stop_refuses_them(tmp_path):
    with nobody_listens() as address:
        worker = worker_of(props(tmp_path, address, kconnect_bootstrap_timeout_ms="20000"))

        seen, refusals = [], []

        def ask(url):
            refusals.append(answer_of(f"{url}/connectors"))

        def look_and_stop():
            try:
                url = eventually(lambda: served_at(worker), within_s=10, why="REST is up")
                asking = threading.Thread(target=ask, args=(url,))
                asking.start()
                awaiting = f"{url}/health"
                eventually(lambda: answer_of(awaiting)[1].get("reasons"), within_s=10, why="it says what it waits for")
                seen.append(answer_of(awaiting))
                asking.join(0.3)
                assert asking.is_alive()
            finally:
                worker.request_stop()
            asking.join(ample_s(5))

        looking = threading.Thread(target=look_and_stop)
        looking.start()
        error = refused(worker)
        looking.join(ample_s(5))
    (status, health), (refused_with, refusal) = seen[0], refusals[0]
    assert (status, health["status"]) == (503, "starting")
    assert health["message"].startswith(f"Worker is still starting up. Waiting for Kafka at {address} (")
    assert [reason["reason"] for reason in health["reasons"]] == [f"Waiting for Kafka at {address}"]
    assert (refused_with, refusal["message"]) == (409, "Worker is shutting down")
    assert "stopped while it waited for the broker" in str(error)


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"bootstrap.servers": None}, 'Missing required configuration "bootstrap.servers"'),
        ({"offset.storage.file.filename": None}, 'Missing required configuration "offset.storage.file.filename"'),
        ({"value.converter": "no.Such"}, "Invalid value no.Such for configuration value.converter"),
        ({"offset.flush.interval.ms": "soon"}, "Invalid value soon for configuration offset.flush.interval.ms"),
        ({"listeners": "127.0.0.1"}, "listeners"),
    ],
)
def test_wrong_worker_settings_have_exit_code_2(tmp_path, change, reported):
    settings = {key: value for key, value in (props(tmp_path, "127.0.0.1:1") | change).items() if value is not None}
    error = refused(worker_of(settings))
    assert error.exit_code == EXIT_WORKER
    assert reported in str(error)


def test_a_worker_that_could_not_start_does_not_say_that_it_stopped(tmp_path, caplog):
    """The error is what is to be read, and it comes last: nothing that never ran has stopped before it."""
    caplog.set_level("INFO")
    with nobody_listens() as address:
        refused(worker_of(props(tmp_path, address, kconnect_bootstrap_timeout_ms="100")))
    refused(worker_of({"bootstrap.servers": "x"}))
    assert any("REST server listening" in line for line in caplog.messages)  # it was so far, and reported so
    assert [line for line in caplog.messages if "stopped" in line] == []


def test_a_taken_port_has_exit_code_2(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = refused(worker_of(props(tmp_path, "127.0.0.1:1", listeners=f"http://127.0.0.1:{port}")))
    assert error.exit_code == EXIT_WORKER
    assert str(port) in str(error)


@pytest.mark.broker
def test_a_damaged_offsets_file_has_exit_code_3_and_stays_as_it_is(tmp_path, broker):
    (tmp_path / "offsets").write_bytes(b"not an offsets file")
    error = refused(worker_of(props(tmp_path, broker.bootstrap), [source_file(tmp_path)]))
    assert error.exit_code == EXIT_CONNECTORS
    assert str(tmp_path / "offsets") in str(error)
    assert (tmp_path / "offsets").read_bytes() == b"not an offsets file"


@pytest.mark.broker
@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"topic": None}, 'Missing required configuration "topic"'),
        ({"connector.class": "no.Such"}, "Unknown connector class: no.Such"),
        ({"tasks.max": "many"}, "Invalid value many for configuration tasks.max: Not a number of type INT"),
    ],
)
def test_a_bad_connector_file_stops_the_worker_with_exit_code_3(tmp_path, broker, change, reported):
    bad = source_file(tmp_path, "bad", **change)
    worker = worker_of(props(tmp_path, broker.bootstrap), [source_file(tmp_path, "good"), bad])
    error = refused(worker)
    assert error.exit_code == EXIT_CONNECTORS
    assert str(error).startswith(f"Failed to create connector for {bad.path}: ")
    assert reported in str(error)


@pytest.mark.broker
def test_two_files_of_one_name_stop_the_worker(tmp_path, broker):
    one = source_file(tmp_path)
    error = refused(worker_of(props(tmp_path, broker.bootstrap), [one, one]))
    assert error.exit_code == EXIT_CONNECTORS
    assert "Connector src already exists" in str(error)


@pytest.mark.broker
def test_a_worker_runs_its_files_serves_rest_and_stops(tmp_path, broker, caplog):
    caplog.set_level("INFO")
    with worker_of(props(tmp_path, broker.bootstrap), [source_file(tmp_path)]) as worker:
        assert worker.wait_until_running(ample_s(5))
        with urllib.request.urlopen(worker.rest_url + "/connectors/src/status", timeout=ample_s(5)) as answer:
            body = json.load(answer)
        assert body["tasks"][0]["worker_id"] == worker.rest_url.removeprefix("http://")
        with urllib.request.urlopen(worker.rest_url + "/health", timeout=ample_s(5)) as answer:
            assert answer.status == 200
        assert not worker.wait(0.01)
    worker.stop()
    assert worker.wait(1)
    stopped = [line for line in caplog.messages if "stopped" in line]
    assert [line.partition(" stopped")[0] for line in stopped] == ["REST server", "Herder", "Worker"]


@pytest.mark.broker
def test_offsets_of_others_live_through_a_worker(tmp_path, broker):
    before = {b'["elsewhere",{"filename":"x"}]': b'{"position":3}'}
    (tmp_path / "offsets").write_bytes(dump_map(before))
    launcher = MemoryLauncher()
    with worker_of(props(tmp_path, broker.bootstrap), [source_file(tmp_path)], launcher):
        launcher.events.commit_offsets("src", [ConnectorOffset({"filename": "in"}, {"position": 7})])
    assert load_map((tmp_path / "offsets").read_bytes()) == before | {b'["src",{"filename":"in"}]': b'{"position":7}'}

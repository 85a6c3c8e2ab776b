"""The dev broker: real Kafka, ready soon, keeps its data, tells what is wrong."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from kconnect.errors import ConflictError, EnvironmentProblemError
from kconnect.java.devbroker import DevBroker
from kconnect.java.devbroker.dev_broker import ask_broker
from kconnect.java.devbroker.dev_server import ServerStatus
from kit.pace import ample_s, ended, now
from kit.ports import free_port, is_listening
from kit.topics import consume_values, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]


def running(broker: DevBroker) -> ServerStatus:
    """Its status, which is STARTING when it takes more than two seconds for its answer."""

    def shown() -> ServerStatus:
        found = broker.status()
        assert found.state == "RUNNING", found
        return found

    return eventually(shown, 30, "the broker answers")


def cluster_of(broker: DevBroker) -> str | None:
    running(broker)
    answer = ask_broker("127.0.0.1", broker.port, timeout_s=30)
    assert answer is not None
    assert answer.cluster_id == broker.folder.cluster_id()
    return answer.cluster_id


def test_it_takes_records_and_gives_them_back(broker: DevBroker, topic: str) -> None:
    assert produce_lines(broker.bootstrap, topic, ["a", "b", None]) == 3

    assert consume_values(broker.bootstrap, topic, 3) == [b"a", b"b", None]


def test_data_and_cluster_survive_a_restart_and_kill_nine_and_one_that_stands_still_is_killed_at_the_stops_deadline(
    own_broker: DevBroker,
) -> None:
    produce_lines(own_broker.bootstrap, "kept", ["one"])
    cluster = cluster_of(own_broker)
    own_broker.restart()
    produce_lines(own_broker.bootstrap, "kept", ["two"])

    own_broker.kill()
    assert own_broker.status().state == "STOPPED"
    began = now()
    own_broker.start()
    assert now() - began < 6.0, "a warm start"

    assert consume_values(own_broker.bootstrap, "kept", 2) == [b"one", b"two"]
    assert cluster_of(own_broker) == cluster

    assert own_broker.pid is not None
    os.kill(own_broker.pid, signal.SIGSTOP)  # it cannot answer SIGTERM now
    assert own_broker.stop(timeout_s=0.5)
    assert own_broker.status().state == "STOPPED"
    assert not is_listening(own_broker.port)


def test_a_detached_broker_is_found_and_stopped_by_another_owner_and_leaves_no_process_and_no_port(
    own_broker: DevBroker,
) -> None:
    other, pid = DevBroker(data_dir=own_broker.folder.path), own_broker.pid
    assert pid is not None

    status = running(other)
    assert (status.address, status.pid) == (own_broker.bootstrap, pid)

    assert other.stop()
    assert own_broker.wait(ample_s(5)) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not is_listening(own_broker.port)
    assert other.status().state == "STOPPED"
    assert not other.stop(), "a second stop has nothing to stop"


def test_a_second_start_on_the_same_folder_is_refused(broker: DevBroker) -> None:
    with pytest.raises(ConflictError, match=rf"already runs on the data folder .* \(pid {broker.pid}, "):
        DevBroker(free_port(), broker.folder.path).start()

    assert running(broker)


def test_a_taken_port_is_named_with_what_listens_there(broker: DevBroker, tmp_path: Path) -> None:
    def is_reported() -> bool:
        with pytest.raises(EnvironmentProblemError, match=rf"Port {broker.port} .* a Kafka broker answers there"):
            DevBroker(broker.port, tmp_path / "a").start()
        return True

    eventually(is_reported, 30, "the broker has answered within the two seconds it has")

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = rf"Port {port} .* what listens there did not answer as a Kafka broker within 2 s"
        with pytest.raises(EnvironmentProblemError, match=message):
            DevBroker(port, tmp_path / "b").start()


def test_a_broker_that_dies_at_start_shows_its_last_words(tmp_path: Path) -> None:
    broken = DevBroker(free_port(), tmp_path / "data", settings={"log.segment.bytes": "many"})

    with pytest.raises(EnvironmentProblemError, match=r"(?s)log\.segment\.bytes"):
        broken.start()

    assert broken.status().state == "STOPPED"


def test_a_broker_whose_jvm_does_not_start_shows_why(tmp_path: Path) -> None:
    DevBroker(free_port(), tmp_path / "data").folder.prepare()
    broken = DevBroker(free_port(), tmp_path / "data", jvm_options=["-XX:NoSuchOption"])

    with pytest.raises(EnvironmentProblemError, match="NoSuchOption"):
        broken.start()


def test_a_pid_of_a_stranger_is_never_signalled(broker: DevBroker) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        text = broker.folder.lock.read_text()
        broker.folder.lock.write_text(text.replace(str(broker.pid), str(stranger.pid)))

        assert not DevBroker(data_dir=broker.folder.path).stop()

        assert stranger.poll() is None
        broker.folder.lock.write_text(text)
    finally:
        stranger.kill()
        ended(stranger, 10)


def test_the_broker_outlives_a_ctrl_c_meant_for_its_owner(broker: DevBroker) -> None:
    assert broker.pid is not None

    assert os.getsid(broker.pid) != os.getsid(0)
    eventually(lambda: broker.status().state == "RUNNING", 5, "the broker answers")

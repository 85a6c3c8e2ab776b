"""The dev broker: real Kafka, ready soon, keeps its data, tells what is wrong."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from kconnect.devbroker import BrokerStatus, DevBroker
from kconnect.errors import ConflictError, EnvironmentProblemError
from kit.pace import ample_s, ended, now
from kit.ports import free_port, is_listening
from kit.topics import consume_values, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.timeout(180)]


def running(broker: DevBroker) -> BrokerStatus:
    """Its status, which is STARTING when it takes more than two seconds for its answer."""

    def shown() -> BrokerStatus:
        found = broker.status()
        assert found.state == "RUNNING", found
        return found

    return eventually(shown, 30, "the broker answers")


def test_it_takes_records_and_gives_them_back(broker: DevBroker, topic: str) -> None:
    assert produce_lines(broker.bootstrap, topic, ["a", "b", None]) == 3

    assert consume_values(broker.bootstrap, topic, 3) == [b"a", b"b", None]


def test_a_warm_start_is_ready_within_six_seconds(own_broker: DevBroker) -> None:
    own_broker.stop()
    began = now()

    own_broker.start()

    assert now() - began < 6.0


def test_data_and_cluster_survive_a_restart(own_broker: DevBroker) -> None:
    produce_lines(own_broker.bootstrap, "kept", ["one"])
    cluster = running(own_broker).cluster_id

    own_broker.restart()

    produce_lines(own_broker.bootstrap, "kept", ["two"])
    assert consume_values(own_broker.bootstrap, "kept", 2) == [b"one", b"two"]
    assert running(own_broker).cluster_id == cluster


def test_data_survives_kill_nine(own_broker: DevBroker) -> None:
    produce_lines(own_broker.bootstrap, "kept", ["one"])

    own_broker.kill()
    assert own_broker.status().state == "STOPPED"
    own_broker.start()

    assert consume_values(own_broker.bootstrap, "kept", 1) == [b"one"]


def test_a_stop_leaves_no_process_and_no_port(own_broker: DevBroker) -> None:
    pid = own_broker.pid
    assert pid is not None

    assert own_broker.stop()

    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert not is_listening(own_broker.port)
    assert not own_broker.stop(), "a second stop has nothing to stop"


def test_a_detached_broker_is_found_and_stopped_by_another_owner(own_broker: DevBroker) -> None:
    other = DevBroker(data_dir=own_broker.folder.path)

    status = running(other)
    assert (status.bootstrap, status.pid) == (own_broker.bootstrap, own_broker.pid)

    assert other.stop()
    assert own_broker.wait(ample_s(5)) == 143
    assert other.status().state == "STOPPED"


def test_a_second_start_on_the_same_folder_is_refused(own_broker: DevBroker) -> None:
    with pytest.raises(ConflictError, match=rf"already runs on the data folder .* \(pid {own_broker.pid}, "):
        DevBroker(free_port(), own_broker.folder.path).start()

    assert running(own_broker)


def test_a_taken_port_is_named_with_what_listens_there(broker: DevBroker, tmp_path: Path) -> None:
    def is_told() -> bool:
        with pytest.raises(EnvironmentProblemError, match=rf"Port {broker.port} .* a Kafka broker answers there"):
            DevBroker(broker.port, tmp_path / "a").start()
        return True

    eventually(is_told, 30, "the broker has answered within the two seconds it has")

    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        told = rf"Port {port} .* what listens there did not answer as a Kafka broker within 2 s"
        with pytest.raises(EnvironmentProblemError, match=told):
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


def test_a_stop_beyond_its_deadline_kills(own_broker: DevBroker) -> None:
    assert own_broker.pid is not None
    os.kill(own_broker.pid, signal.SIGSTOP)  # it cannot answer SIGTERM now

    assert own_broker.stop(timeout_s=0.5)

    assert own_broker.status().state == "STOPPED"


def test_a_pid_of_a_stranger_is_never_signalled(own_broker: DevBroker) -> None:
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        text = own_broker.folder.lock.read_text()
        own_broker.folder.lock.write_text(text.replace(str(own_broker.pid), str(stranger.pid)))

        assert not DevBroker(data_dir=own_broker.folder.path).stop()

        assert stranger.poll() is None
        own_broker.folder.lock.write_text(text)
    finally:
        stranger.kill()
        ended(stranger, 10)


def test_the_broker_outlives_a_ctrl_c_meant_for_its_owner(own_broker: DevBroker) -> None:
    assert own_broker.pid is not None

    assert os.getsid(own_broker.pid) != os.getsid(0)
    eventually(lambda: own_broker.status().state == "RUNNING", 5, "the broker answers")

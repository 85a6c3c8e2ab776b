"""The REST server on real sockets: bind, serve, stop."""

from __future__ import annotations

import socket
import threading
import urllib.request

import pytest

from kconnect.client import ConnectClient
from kconnect.errors import ConnectError, EnvironmentProblemError, NotFoundError, TimedOutError, UnreachableError
from kconnect.runtime.rest import RestServer, bind_listeners
from kconnect.runtime.rest.app import AppSettings
from kit.memory_herder import MemoryHerder, file_source
from kit.pace import ample_s, now
from kit.ports import free_port
from kit.waiting import eventually


@pytest.fixture
def herder():
    herder = MemoryHerder()
    yield herder
    herder.gate.set()


def test_port_0_takes_a_free_one_and_every_listener_answers(herder):
    with RestServer(herder, ["http://127.0.0.1:0", "HTTP://localhost:0", "http://:0"]) as server:
        assert len({listener.port for listener in server.bound} - {0}) == 3
        for url in server.urls:
            with ConnectClient(url) as client:
                assert client.server_info()["version"] == "4.3.0"


def test_an_empty_host_serves_ipv4_and_ipv6_alike(herder):
    with RestServer(herder, ["http://:0"]) as server:
        port = server.bound[0].port
        for host in ("127.0.0.1", "[::1]") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            with urllib.request.urlopen(f"http://{host}:{port}/health", timeout=ample_s(5)) as answer:
                assert answer.status == 200


def test_a_taken_port_is_one_sentence_with_host_port_and_setting(herder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = RestServer(herder, [f"http://127.0.0.1:{port}"])
        with pytest.raises(EnvironmentProblemError) as caught:
            server.start()
    assert str(caught.value) == (
        f"Unable to initialize REST server: cannot listen on 127.0.0.1:{port} "
        f"(setting listeners=http://127.0.0.1:{port}): it is taken by another process."
    )
    assert "setting `listeners`" in (caught.value.hint or "")
    server.stop()


def test_when_one_listener_fails_none_stays_bound(herder):
    port = free_port()
    with pytest.raises(EnvironmentProblemError, match=r"192\.0\.2\.1 is not an address of this machine"):
        RestServer(herder, [f"http://127.0.0.1:{port}", "http://192.0.2.1:0"]).start()
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_listeners_can_be_bound_before_there_is_a_herder(herder):
    listeners = bind_listeners(["http://127.0.0.1:0"])
    assert listeners.urls == [f"http://127.0.0.1:{listeners.bound[0].port}"]
    with RestServer(herder, listeners) as server, ConnectClient(server.urls[0]) as client:
        assert client.connectors() == []


def test_stop_ends_all_threads_closes_the_port_and_may_be_called_again(herder):
    before = {thread.ident for thread in threading.enumerate()}
    server = RestServer(herder, ["http://127.0.0.1:0"])
    server.start()
    url = server.urls[0]
    with ConnectClient(url) as client:
        client.connectors()
        started = now()
        server.stop()
        assert now() - started < 5, "nobody is being answered"
        assert {thread.ident for thread in threading.enumerate()} <= before
        server.stop()
        with pytest.raises(UnreachableError):
            client.connectors()


def test_stop_answers_a_request_that_never_ends_and_leaves_its_thread_behind(herder, caplog):
    herder.held.add("connectors")
    server = RestServer(herder, ["http://127.0.0.1:0"])
    server.start()
    answers = []

    def ask():
        with ConnectClient(server.urls[0]) as client:
            try:
                client.connectors()
            except ConnectError as err:
                answers.append(err)

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: herder.calls, 10, "the request is with the herder", pause_s=0.01)
    started = now()
    server.stop(1.0)
    assert now() - started < 8, "a second is what stop was given"
    assert "was abandoned" in caplog.text
    herder.gate.set()
    asking.join(ample_s(5))
    assert [str(answer) for answer in answers] == ["The worker is stopping; it may still carry this out."]
    assert "Traceback" not in caplog.text


def test_a_late_herder_is_a_time_out_for_the_client_and_others_are_served(herder):
    herder.put_connector("a", file_source(name="a"), replace=False)
    herder.held.add("connector_status")
    with (
        RestServer(herder, ["http://127.0.0.1:0"], AppSettings(request_timeout_s=ample_s(0.3))) as server,
        ConnectClient(server.urls[0]) as client,
    ):
        with pytest.raises(TimedOutError, match="Request timed out"):
            client.connector_status("a")
        assert client.connectors() == ["a"]
        herder.gate.set()


def test_names_of_any_characters_travel_through_client_and_server(herder):
    with RestServer(herder, ["http://127.0.0.1:0"]) as server, ConnectClient(server.urls[0]) as client:
        for name in ("a/b", "50%", "a%2Fb", "a\\b", "..", ".", "ü→😀 ?#;", "a+b"):
            assert client.create_connector(name, file_source()).name == name
            assert client.connector_status(name).name == name
            client.stop_connector(name)
            assert client.connector_offsets(name) == []
            client.delete_connector(name)
            with pytest.raises(NotFoundError):
                client.connector(name)

"""Requests to a registry that is well, ill, slow or away."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kconnect.api import ConfigDef, ConfigError, DataError, RetriableError
from kconnect.builtin.schema_registry.registry.registry_client import RegistryClient
from kconnect.builtin.schema_registry.registry.registry_http import RegistryHttp, RegistryRefusal
from kconnect.builtin.schema_registry.registry.registry_settings import (
    RegistrySettings,
    define_registry,
    registry_settings,
)
from kit.ports import free_port


def settings(**given: str) -> RegistrySettings:
    values = {key.replace("_", "."): value for key, value in given.items()}
    return registry_settings(define_registry(ConfigDef()).parse(values), values)


@contextmanager
def server(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[Any]]]:
    """A server that always answers the same; its URL, and the headers it was sent."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen.append((self.path, dict(self.headers)))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}/api", seen
    finally:
        httpd.shutdown()
        thread.join(10)
        httpd.server_close()


def ask(url: str, **more: str) -> Any:
    return RegistryHttp(settings(schema_registry_url=url, **more)).ask(
        "GET", "/schemas/ids/7", None, "the schema with id 7", _as_it_is
    )


def _as_it_is(answer: Any) -> Any:
    return answer


def test_an_answer_is_json_and_the_path_of_the_url_stays() -> None:
    with server(200, b'{"schema": "x"}') as (url, seen):
        assert ask(url + "/") == {"schema": "x"}
        assert seen[0][0] == "/api/schemas/ids/7"


@pytest.mark.parametrize(
    ("status", "body", "says"),
    [
        (500, b"boom", "it answered 500: boom"),
        (503, b"", "it answered 503"),
        (429, b"{}", "it answered 429"),
        (200, b"<html>Log in</html>", "something that is not JSON: <html>Log in</html>"),
        (404, b"<html>proxy</html>", "something that is not JSON"),
        (302, b"", "leads elsewhere"),
        (200, b"", "something that is not JSON"),
        (200, b"[" * 100_000, "something that is not JSON"),
    ],
)
def test_a_failing_registry_is_retriable_and_says_url_and_what_was_asked_for(
    status: int, body: bytes, says: str
) -> None:
    with server(status, body) as (url, _):
        with pytest.raises(RetriableError, match=says) as caught:
            ask(url)
        assert f"The schema registry at {url} was asked for the schema with id 7" in str(caught.value)
        assert "schema.registry.url" in (caught.value.hint or "")


@pytest.mark.parametrize("body", [b'{"status": "UP"}', b"[]", b'{"schema": 7}', b'{"schema": "x", "references": [{}]}'])
def test_json_that_is_no_answer_is_retriable_and_the_next_url_is_asked(body: bytes) -> None:
    with server(200, body) as (gateway, _), server(200, b'{"schema": "\\"int\\""}') as (url, seen):
        client = RegistryClient(RegistryHttp(settings(schema_registry_url=gateway)))
        with pytest.raises(RetriableError, match="it answered 200 with an answer without ") as caught:
            client.schema(7)
        assert f"The schema registry at {gateway} was asked for the schema with id 7" in str(caught.value)
        both = RegistryClient(RegistryHttp(settings(schema_registry_url=f"{gateway},{url}")))
        assert both.schema(7).text == '"int"'
        assert len(seen) == 1


def test_a_schema_that_is_refused_names_the_address_also_where_no_rule_is_known() -> None:
    with server(409, b'{"error_code": 409, "message": "reader type: STRING"}') as (url, _):
        client = RegistryClient(RegistryHttp(settings(schema_registry_url=url)))
        with pytest.raises(DataError) as refused:
            client.id_of("t-value", '"string"', register=True, normalize=False)
    assert str(refused.value).startswith(
        "The schema is not compatible with those of subject t-value, whose compatibility rule is unknown. The schema "
        f"registry at {url} was asked for a place for a schema under subject t-value (POST {url}/subjects/t-value/"
    )
    assert str(refused.value).endswith("and refused: 409 reader type: STRING")


def test_a_refusal_has_the_registrys_words() -> None:
    with server(404, b'{"error_code": 40403, "message": "Schema not found"}') as (url, _):
        with pytest.raises(RegistryRefusal, match="404 Schema not found") as caught:
            ask(url)
        assert (caught.value.status, caught.value.code) == (404, 40403)


def test_wrong_credentials_hint_at_the_settings() -> None:
    with server(401, b"no") as (url, _):
        with pytest.raises(RegistryRefusal, match="refused: 401") as caught:
            ask(url)
        assert "basic.auth.user.info" in (caught.value.hint or "")


def test_nothing_listens() -> None:
    with pytest.raises(RetriableError, match=r"nobody answers \(connection refused\)"):
        ask(f"http://127.0.0.1:{free_port()}")


def test_a_silent_registry_is_given_up_at_the_deadline() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    with (
        silent,
        pytest.raises(RetriableError, match=r"it did not (end its )?answer within 0\.2 s \(http\.read\.timeout\.ms\)"),
    ):
        ask(f"http://127.0.0.1:{silent.getsockname()[1]}", http_read_timeout_ms="200")


def test_a_registry_that_hangs_up_is_retriable() -> None:
    def hang_up(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=hang_up, args=(listener,))
        thread.start()
        with pytest.raises(RetriableError, match="closed connection without response"):
            ask(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join(10)


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\nX-Slow: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_an_answer_that_trickles_is_given_up_at_the_deadline_of_the_whole(head: bytes) -> None:
    is_over = threading.Event()

    def trickle(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer, suppress(OSError):  # the client hangs up
            peer.recv(65536)
            peer.sendall(head)
            while not is_over.wait(0.02):
                peer.sendall(b"1")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        try:
            with pytest.raises(
                RetriableError, match=r"it did not (end its )?answer within 0\.2 s \(http\.read\.timeout\.ms\)"
            ):
                ask(f"http://127.0.0.1:{listener.getsockname()[1]}", http_read_timeout_ms="200")
        finally:
            is_over.set()
            thread.join(10)


def test_an_answer_that_breaks_off_is_retriable() -> None:
    def cut(listener: socket.socket) -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=cut, args=(listener,))
        thread.start()
        with pytest.raises(RetriableError):
            ask(f"http://127.0.0.1:{listener.getsockname()[1]}")
        thread.join(10)


def test_the_next_url_is_asked_and_stays_the_first() -> None:
    with server(200, b"{}") as (url, seen):
        http = RegistryHttp(settings(schema_registry_url=f"http://127.0.0.1:{free_port()}, {url}"))
        assert [http.ask("GET", "/x", None, "x", _as_it_is) for _ in range(2)] == [{}, {}]
        assert len(seen) == 2


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ({"basic_auth_credentials_source": "USER_INFO", "basic_auth_user_info": "u:p"}, "Basic u:p"),
        ({"basic_auth_credentials_source": "USER_INFO", "schema_registry_basic_auth_user_info": "u:p"}, "Basic u:p"),
        ({"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": "tok"}, "Bearer tok"),
    ],
)
def test_credentials_are_sent(given: dict[str, str], header: str) -> None:
    kind, _, text = header.partition(" ")
    shown = base64.b64encode(text.encode()).decode() if kind == "Basic" else text
    with server(200, b"{}") as (url, seen):
        ask(url, **given)
    assert seen[0][1]["Authorization"] == f"{kind} {shown}"


def test_a_user_in_the_url_is_sent_and_shown_nowhere() -> None:
    with server(500, b"") as (url, seen), pytest.raises(RetriableError) as caught:
        ask(url.replace("//", "//us%40er:secret@"))
    assert seen[0][1]["Authorization"] == "Basic " + base64.b64encode(b"us@er:secret").decode()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"schema_registry_url": "localhost:8081"}, "schema.registry.url"),
        ({"schema_registry_url": ""}, "schema.registry.url"),
        ({"basic_auth_credentials_source": "USER_INFO"}, "basic.auth.user.info"),
        ({"basic_auth_credentials_source": "SASL_INHERIT"}, "basic.auth.credentials.source"),
        ({"bearer_auth_credentials_source": "OAUTHBEARER"}, "bearer.auth.credentials.source"),
        ({"bearer_auth_credentials_source": "STATIC_TOKEN"}, "bearer.auth.token"),
    ],
)
def test_settings_that_cannot_work_are_named(given: dict[str, str], names: str) -> None:
    with pytest.raises(ConfigError, match=names.replace(".", r"\.")):
        settings(**{"schema_registry_url": "http://h:1", **given})

"""The HTTP exchange on real sockets: connections kept, redirects, proxies, TLS, limits, and a wait that is aborted."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kconnect.api.http_client import HttpExchange, HttpFailure, LateError, Request, Response, Terms, TooLargeError
from kconnect.client.http_failures import BadAddressError, BrokenOffError, NotConnectedError
from kconnect.client.http_wire import Silence
from kconnect.client.trust import trusting
from kit.bad_servers import ILLNESSES, answering, bad_server, listening, tls_of
from kit.certificates import Authority
from kit.pace import ample_s, now
from kit.waiting import eventually


class Keeping:
    """A server that keeps connections, answers with the path, and redirects /to/PATH to where `moved` says."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.connections: set[object] = set()
        self.moved = ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                outer.connections.add(self.client_address)
                body = self.path.encode()
                self.send_response(302 if self.path.startswith("/to/") else 200)
                if self.path.startswith("/to/"):
                    self.send_header("Location", outer.moved + self.path[3:])
                self.send_header("Content-Length", str(len(body)))
                self.send_header("X-Two", "a")
                self.send_header("X-Two", "b")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.address = f"127.0.0.1:{self._http.server_port}"
        self.url = f"http://{self.address}"

    def close(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


@pytest.fixture
def server() -> Iterator[Keeping]:
    made = Keeping()
    yield made
    made.close()


def get(url: str, *, base: str = "", headers: dict[str, str] | None = None, **terms: object) -> Response:
    exchange = HttpExchange(Terms(**{"timeout_s": ample_s(5), **terms}), base)
    try:
        return exchange.send(Request("GET", url, None, headers or {}))
    finally:
        exchange.close()


def test_a_connection_is_kept_and_replaced_when_the_server_has_closed_it(server: Keeping) -> None:
    exchange = HttpExchange(Terms(timeout_s=ample_s(5)), server.url)
    answers = [exchange.send(Request("GET", f"/{number}")) for number in range(3)]
    assert [answer.body for answer in answers] == [b"/0", b"/1", b"/2"]
    assert answers[0].headers["x-two"] == "a, b"
    assert len(server.connections) == 1
    exchange.close()
    assert exchange.send(Request("GET", "/3")).body == b"/3"
    assert len(server.connections) == 2
    exchange.close()
    with listening(answering(b"once")) as (address, seen):
        closed = HttpExchange(Terms(timeout_s=ample_s(5)), f"http://{address}")
        for _ in range(2):
            assert closed.send(Request("GET", "/")).body == b"once"
            eventually(lambda: all(kept.is_stale() for kept in closed._kept.values()), 5, "the server has hung up")
        assert len(seen) == 2
        closed.close()


def test_redirects_are_answers_unless_they_are_followed_and_only_the_asked_server_sees_headers(server: Keeping) -> None:
    other = Keeping()
    try:
        assert get(f"{server.url}/to/a").status == 302
        server.moved = ""
        secret = {"X-Key": "s3cret", "Authorization": "Bearer s3cret", "Accept": "text/plain"}
        assert get(f"{server.url}/to/a", redirects=1, headers=secret).body == b"/a"
        assert server.requests[-1][1]["x-key"] == "s3cret"
        server.moved = other.url
        assert get(f"{server.url}/to/a", redirects=1, headers=secret).body == b"/a"
        assert other.requests[0][1]["accept"] == "text/plain"
        assert "s3cret" not in str(other.requests)
        server.moved = "/to"
        with pytest.raises(HttpFailure, match="leads elsewhere more than 3 times"):
            get(f"{server.url}/to/a", redirects=3)
        server.moved = "file:///etc"
        with pytest.raises(BadAddressError):
            get(f"{server.url}/to/passwd", redirects=3)
    finally:
        other.close()


def test_redirects_share_one_deadline(server: Keeping) -> None:
    with bad_server(ILLNESSES["drips its body"]) as address:
        server.moved = f"http://{address}"
        began = now()
        with pytest.raises(LateError, match=rf"http://{address}/a did not end its answer within 0\.4 s"):
            get(f"{server.url}/to/a", redirects=3, timeout_s=0.4)
        assert now() - began < 3


def test_an_answer_may_not_be_larger_than_it_is_allowed_or_is_cut(server: Keeping) -> None:
    url = f"{server.url}/0123456789"
    with pytest.raises(TooLargeError, match="answers with more than 5 bytes"):
        get(url, most_bytes=5)
    assert get(url, most_bytes=11).body == b"/0123456789"
    with bad_server(ILLNESSES["has an endless body"]) as address:
        assert get(f"http://{address}/", most_bytes=4096, cuts=True).status == 200
        with pytest.raises(TooLargeError):
            get(f"http://{address}/", most_bytes=4096)


def test_pieces_go_where_the_caller_wants_them_and_an_error_there_ends_the_exchange(server: Keeping) -> None:
    pieces: list[bytes] = []
    exchange = HttpExchange(Terms(timeout_s=ample_s(5)), server.url)
    assert exchange.send(Request("GET", "/abc"), into=pieces.append).body == b""
    assert b"".join(pieces) == b"/abc"
    assert exchange.send(Request("GET", "/to/abc"), into=pieces.append).body == b"/to/abc", "it is no success"

    def full(piece: bytes) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        exchange.send(Request("GET", "/abc"), into=full)
    assert exchange.send(Request("GET", "/again")).body == b"/again"
    exchange.close()


@pytest.mark.parametrize("what", ["silent", "drips its body"])
def test_another_thread_ends_a_wait_and_all_later_ones(what: str) -> None:
    with listening(ILLNESSES[what]) as (address, seen):
        exchange = HttpExchange(Terms(timeout_s=60), f"http://{address}")
        reported: list[HttpFailure] = []

        def ask() -> None:
            with pytest.raises(HttpFailure) as caught:
                exchange.send(Request("GET", "/"))
            reported.append(caught.value)

        asking = threading.Thread(target=ask)
        asking.start()
        eventually(lambda: bool(seen), 5, "the request has come")
        exchange.abort()
        asking.join(ample_s(5))
        assert isinstance(reported[0], BrokenOffError)
        with pytest.raises(NotConnectedError, match="was not sent: its client was aborted"):
            exchange.send(Request("GET", "/"))


@pytest.mark.parametrize("is_tls", [False, True], ids=["http", "https"])
def test_while_a_server_is_silent_its_caller_may_look_what_is_the_matter(is_tls: bool, tmp_path: Path) -> None:
    authority = Authority()
    trusted = trusting(str(authority.file(tmp_path / "ca.pem")))
    tls = tls_of(authority.sign("127.0.0.1"), tmp_path) if is_tls else None
    over, looks = threading.Event(), 0

    def in_a_while(peer: socket.socket, ended: threading.Event) -> None:
        over.wait(ample_s(5))
        answering(b"at last")(peer, ended)

    def look() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise LookupError
        if looks == 6:
            over.set()

    with bad_server(in_a_while, tls) as address:
        terms = Terms(timeout_s=ample_s(60), tls=lambda: trusted)
        with closing(HttpExchange(terms, f"http{'s' * is_tls}://{address}")) as exchange:
            with pytest.raises(LookupError):
                exchange.send(Request("GET", "/"), silence=Silence(0.02, look))
            assert exchange.send(Request("GET", "/"), silence=Silence(0.02, look)).body == b"at last"


def test_tls_is_checked_against_what_the_caller_trusts(tmp_path: Path) -> None:
    authority = Authority()
    trusted = trusting(str(authority.file(tmp_path / "ca.pem")))
    with bad_server(answering(b"safe"), tls_of(authority.sign("127.0.0.1"), tmp_path)) as address:
        assert get("/", base=f"https://{address}", tls=lambda: trusted).body == b"safe"
    with bad_server(answering(b"old"), tls_of(authority.sign("127.0.0.1", valid_days=-1), tmp_path)) as address:
        with pytest.raises(HttpFailure, match="certificate has expired") as caught:
            get("/", base=f"https://{address}", tls=lambda: trusted)
        assert "another certificate" in (caught.value.hint or "")
    with (
        bad_server(ILLNESSES["drips its body"], tls_of(authority.sign("127.0.0.1"), tmp_path)) as address,
        pytest.raises(LateError, match="did not end its answer to GET / within"),
    ):
        get("/", base=f"https://{address}", tls=lambda: trusted, timeout_s=0.4)


def test_proxies_are_asked_only_where_the_caller_wants_them(server: Keeping, monkeypatch: pytest.MonkeyPatch) -> None:
    with listening(answering(b"by proxy")) as (address, seen):
        monkeypatch.setenv("http_proxy", f"http://us%20er:pass@{address}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        assert get(f"{server.url}/a").body == b"/a"
        assert get(f"{server.url}/a", uses_proxies=True).body == b"by proxy"
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert get(f"{server.url}/a", uses_proxies=True).body == b"/a"
        monkeypatch.delenv("no_proxy")
        monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1")
        with pytest.raises(NotConnectedError, match="the proxy speaks socks5"):
            get(f"{server.url}/a", uses_proxies=True)
    (asked,) = seen
    assert asked.startswith(f"GET {server.url}/a HTTP/1.1\r\nHost: {server.address}\r\n".encode())
    assert b"Proxy-Authorization: Basic dXMgZXI6cGFzcw==" in asked


def test_https_goes_through_a_tunnel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority()
    trusted = trusting(str(authority.file(tmp_path / "ca.pem")))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with bad_server(answering(b"safe"), tls_of(authority.sign("127.0.0.1"), tmp_path)) as address:

        def tunnel(peer: socket.socket, over: threading.Event) -> None:
            host, _, port = address.partition(":")
            with socket.create_connection((host, int(port))) as onward:
                peer.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=pipe, args=(onward, peer))
                back.start()
                pipe(peer, onward)
                back.join(10)

        with listening(tunnel) as (proxy, seen):
            monkeypatch.setenv("https_proxy", proxy)
            assert get("/", base=f"https://{address}", tls=lambda: trusted, uses_proxies=True).body == b"safe"
        assert seen[0].startswith(f"CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n".encode())
        with bad_server(answering(b"", status=b"407 Proxy Authentication Required")) as proxy:
            monkeypatch.setenv("https_proxy", proxy)
            refused = r"the proxy: 127\.0\.0\.1 answers 407 Proxy Authentication Required"
            with pytest.raises(NotConnectedError, match=refused):
                get("/", base=f"https://{address}", tls=lambda: trusted, uses_proxies=True)
        with bad_server(ILLNESSES["drips its head"]) as proxy:
            monkeypatch.setenv("https_proxy", proxy)
            with pytest.raises(NotConnectedError, match=r"no connection within 0\.3 s"):
                get("/", base=f"https://{address}", tls=lambda: trusted, uses_proxies=True, timeout_s=0.3)


def pipe(one: socket.socket, other: socket.socket) -> None:
    while piece := one.recv(65536):
        other.sendall(piece)
    other.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("url", ["ftp://h/", "http://", "http://h:port/", "http://h:0/", "http://a..b/", "/path"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(BadAddressError, match="cannot be asked"):
        get(url)


def test_signs_that_http_forbids_are_refused_and_not_repeated(server: Keeping) -> None:
    for request in (Request("GET", "/a b"), Request("GET", "/", None, {"X": "s3cret\nX-More: 1"})):
        with pytest.raises(BadAddressError) as caught:
            HttpExchange(Terms(timeout_s=5), server.url).send(request)
        assert "s3cret" not in str(caught.value)
    assert server.requests == []


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [({}, None), ({"retry-after": "7"}, 7.0), ({"retry-after": "soon"}, None), ({"retry-after": "-1"}, None)],
)
def test_when_to_ask_again(headers: dict[str, str], wait_s: float | None) -> None:
    assert Response(503, headers=headers).retry_after_s == wait_s
    past = Response(503, headers={"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"})
    assert past.retry_after_s == 0
    assert [status for status in (200, 304, 404, 408, 425, 429, 500, 520) if Response(status).may_pass] == [
        408, 425, 429, 500, 520,
    ]  # fmt: skip

"""HttpJsonSource against a real HTTP server on this machine, through the harness."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kconnect.errors import ConfigError, ConnectError, DataError
from kconnect.testing import ManualClock, SourceHarness
from kit.bad_servers import answering, bad_server, tls_of
from kit.certificates import Authority
from kit.json_server import Server
from kit.pace import ample_s

SOURCE = "HttpJsonSource"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def harness(server: Server, clock: ManualClock | None = None, **more: str) -> SourceHarness:
    config = {"url": server.url, "topic": "items", **{key.replace("_", "."): value for key, value in more.items()}}
    return SourceHarness(SOURCE, config, clock=clock or ManualClock())


def values(source: SourceHarness, count: int) -> list[Any]:
    return [record.value for record in source.poll(count)]


def test_each_item_becomes_a_record_with_its_key_and_the_interval_is_waited(server: Server) -> None:
    server.answer = lambda *_: (200, {}, {"data": {"items": [{"id": 7, "name": "a"}, {"id": 8, "name": "b"}]}})
    clock = ManualClock()
    with harness(server, clock, items_pointer="/data/items", key_field="id", poll_interval_ms="5000") as source:
        records = source.poll(2)
        assert [(record.key, record.value["name"]) for record in records] == [(7, "a"), (8, "b")]
        assert clock.waits == []
        source.poll(2)
        assert clock.waits == [5.0]
        assert source.written("items")[0].json == {"id": 7, "name": "a"}


def test_only_items_beyond_the_cursor_come_and_a_restart_goes_on_there(server: Server) -> None:
    items = [{"id": 2}, {"id": 10}, {"id": 9}]
    server.answer = lambda *_: (200, {}, items)
    with harness(server, cursor_field="id", cursor_param="since", cursor_initial="1") as source:
        assert values(source, 3) == items
        assert server.requests[0][1] == {"since": "1"}
        items.append({"id": 11})
        assert values(source, 1) == [{"id": 11}]
        source.restart()
        assert source.offset(url=server.url) == {"cursor": 11}
        items.insert(0, {"id": 12})
        assert values(source, 1) == [{"id": 12}]
        assert server.requests[-1][1] == {"since": "11"}


def test_a_crash_inside_a_page_reads_the_page_again(server: Server) -> None:
    server.answer = lambda *_: (200, {}, [{"id": 3}, {"id": 1}, {"id": 2}])
    source = harness(server, cursor_field="id").start()
    source.fail("produce", ConnectError("broker away"), after=1)
    with pytest.raises(ConnectError, match="broker away"):
        source.poll(3)
    source.commit()
    source.crash()
    with source:
        assert values(source, 3) == [{"id": 3}, {"id": 1}, {"id": 2}]


@pytest.mark.parametrize("kind", ["link", "url", "token"])
def test_pages_are_followed_and_a_restart_goes_on_at_its_page(server: Server, kind: str) -> None:
    def answer(path: str, query: dict[str, str], headers: Mapping[str, str]) -> tuple[int, dict[str, str], Any]:
        page = int(query.get("page", "0"))
        items = [{"id": 100 - page * 2}, {"id": 99 - page * 2}]
        is_last = page == 2
        link = {} if is_last or kind != "link" else {"Link": f'<{path}?page={page + 1}>; rel="next", </x>; rel="first"'}
        told = None if is_last else (f"?page={page + 1}" if kind == "url" else page + 1)
        return 200, link, {"items": items, "meta": {"next": told}}

    server.answer = answer
    paging = {"pagination": "link" if kind == "link" else "next", "pagination_next_pointer": "/meta/next"}
    if kind == "token":
        paging["pagination_next_param"] = "page"
    with harness(server, cursor_field="id", items_pointer="/items", **paging) as source:
        assert values(source, 2) == [{"id": 100}, {"id": 99}]
        source.restart()
        assert values(source, 4) == [{"id": 98}, {"id": 97}, {"id": 96}, {"id": 95}]
        source.commit()
        assert source.offset(url=server.url) == {"cursor": 100}
        assert [request[1].get("page") for request in server.requests] == [None, "1", "2"]


def test_an_answer_that_has_not_changed_is_not_asked_for_twice(server: Server) -> None:
    tag = ['"one"']

    def answer(path: str, query: dict[str, str], headers: Mapping[str, str]) -> tuple[int, dict[str, str], Any]:
        if headers.get("If-None-Match") == tag[0] and headers.get("If-Modified-Since") == "yesterday":
            return 304, {}, b""
        return 200, {"ETag": tag[0], "Last-Modified": "yesterday"}, [{"tag": tag[0]}]

    server.answer = answer
    clock = ManualClock()
    with harness(server, clock, poll_interval_ms="1000") as source:
        assert values(source, 1) == [{"tag": '"one"'}]
        assert source.poll_once() == []
        source.restart()
        assert source.poll_once() == []
        tag[0] = '"two"'
        assert values(source, 1) == [{"tag": '"two"'}]
        assert len(server.requests) == 4
        assert clock.waits == [1.0, 1.0]


def test_a_busy_server_gets_the_time_it_asks_for_and_a_growing_one_else(server: Server) -> None:
    answers: list[tuple[int, dict[str, str], Any]] = [
        (503, {}, b""),
        (500, {}, b""),
        (429, {"Retry-After": "17"}, b""),
        (200, {}, [1]),
    ]
    server.answer = lambda *_: answers.pop(0)
    clock = ManualClock()
    with harness(server, clock, retry_backoff_ms="1000", retry_backoff_max_ms="1500") as source:
        assert values(source, 1) == [1]
    first, second, asked = [wait for wait in clock.waits if wait]
    assert 0.8 <= first <= 1.2
    assert 1.2 <= second <= 1.5
    assert asked == 17.0


def test_retries_end_where_the_settings_say_and_refusals_fail_at_once(server: Server) -> None:
    server.answer = lambda *_: (502, {}, b"")
    given_up = r"3 times in a row \(retries\.max=2\)"
    with pytest.raises(ConnectError, match=given_up), harness(server, retries_max="2") as source:
        source.poll(3)
    server.answer = lambda *_: (403, {}, {"error": "no such key"})
    with pytest.raises(ConnectError, match=r"403 Forbidden: .*no such key"), harness(server) as source:
        source.poll(1)
    server.answer = lambda *_: (200, {}, b"<html>")
    with pytest.raises(DataError, match="JSON"), harness(server) as source:
        source.poll(1)
    server.answer = lambda *_: (200, {}, {"data": []})
    with pytest.raises(DataError, match=r"items\.pointer=/items"), harness(server, items_pointer="/items") as source:
        source.poll(1)
    server.answer = lambda *_: (200, {}, [{"no": 1}])
    with pytest.raises(DataError, match=r"cursor\.field=id"), harness(server, cursor_field="id") as source:
        source.poll(1)
    server.answer = lambda *_: (200, {}, ["x" * 100])
    with pytest.raises(ConnectError, match="more than 50 bytes"), harness(server, response_max_bytes="50") as source:
        source.poll(1)


def test_a_server_that_hangs_or_breaks_off_is_asked_again(server: Server) -> None:
    hang = threading.Event()
    request_s = ample_s(0.2)  # the other answers have to come in it
    answers = [
        lambda: hang.wait(request_s * 10) and (200, {}, []),
        lambda: (200, {"Content-Length": "50"}, b"[1"),
        lambda: (200, {}, [1]),
    ]

    # The last one again and again: it may come too late, too
    server.answer = lambda *_: (answers.pop(0) if len(answers) > 1 else answers[0])() or (200, {}, [])
    with harness(server, request_timeout_ms=str(round(request_s * 1000))) as source:
        assert source.poll_once() == []
        hang.set()
        assert values(source, 1) == [1]


def test_credentials_are_sent_and_stay_with_their_server(server: Server) -> None:
    other = Server()
    try:
        other.answer = lambda *_: (200, {}, [1])
        server.answer = lambda path, *_: (302, {"Location": other.url}, b"") if path == "/items" else (200, {}, [])
        settings = {"auth_type": "bearer", "auth_token": "s3cret", "header.X-Api": "k3y"}
        with harness(server, **settings) as source:
            assert values(source, 1) == [1]
        assert server.requests[0][2]["Authorization"] == "Bearer s3cret"
        assert server.requests[0][2]["X-Api"] == "k3y"
        assert not {"Authorization", "X-Api"} & set(other.requests[0][2])
        server.answer = lambda *_: (200, {"Link": f"<{other.url}>; rel=next"}, [1])
        with pytest.raises(ConnectError, match="another server"), harness(server, pagination="link") as source:
            source.poll(1)
    finally:
        other.close()


def test_an_authority_of_ones_own_is_trusted_beside_the_systems(tmp_path: Path) -> None:
    authority = Authority()
    ca_file = str(authority.file(tmp_path / "ca.pem"))
    with bad_server(answering(b"[1]"), tls_of(authority.sign("127.0.0.1"), tmp_path)) as address:
        config = {"url": f"https://{address}/items", "topic": "items", "tls.ca.file": ca_file}
        with SourceHarness(SOURCE, config, clock=ManualClock()) as source:
            assert values(source, 1) == [1]
        del config["tls.ca.file"]
        with (
            pytest.raises(ConnectError, match="not trusted") as caught,
            SourceHarness(SOURCE, config, clock=ManualClock()) as source,
        ):
            source.poll(1)
        assert "tls.ca.file" in (caught.value.hint or "")


def test_settings_that_can_not_work_are_refused(server: Server) -> None:
    for wrong, told in (
        ({"url": "file:///etc/passwd"}, "http"),
        ({"url": "http://me:secret@example.org/"}, "auth.user"),
        ({"auth_type": "bearer"}, "auth.token"),
        ({"auth_type": "basic", "auth_user": "me"}, "auth.password"),
        ({"pagination": "guess"}, "pagination"),
        ({"header.X": "a\nb"}, "header"),
        ({"tls_ca_file": "/no/ca.pem"}, r"tls\.ca\.file"),
    ):
        with pytest.raises(ConfigError, match=told) as caught:
            harness(server, **wrong).start()
        assert "secret" not in str(caught.value)

"""HttpJsonSource against a real HTTP server on this machine, through the harness."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from kconnect.builtin.connectors.http_source import HttpJsonSourceConnector
from kconnect.errors import ConfigError, ConnectError, DataError
from kconnect.testing import ManualClock, SourceHarness
from kit.bad_servers import answering, bad_server, listening, tls_of
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


def cursor_of(source: SourceHarness, server: Server) -> Any:
    offset = source.offset(url=server.url)
    assert offset is not None
    assert "page" not in offset
    return offset["cursor"]


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
        assert cursor_of(source, server) == 11
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
        message = None if is_last else (f"?page={page + 1}" if kind == "url" else page + 1)
        return 200, link, {"items": items, "meta": {"next": message}}

    server.answer = answer
    paging = {"pagination": "link" if kind == "link" else "next", "pagination_next_pointer": "/meta/next"}
    if kind == "token":
        paging["pagination_next_param"] = "page"
    with harness(server, cursor_field="id", items_pointer="/items", **paging) as source:
        assert values(source, 2) == [{"id": 100}, {"id": 99}]
        source.restart()
        assert values(source, 4) == [{"id": 98}, {"id": 97}, {"id": 96}, {"id": 95}]
        source.commit()
        assert cursor_of(source, server) == 100
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


@pytest.mark.parametrize(
    ("target", "reported"),
    [("/items", "leads elsewhere more than 10 times"), ("ftp://x.example/items", "cannot be asked")],
)
def test_a_redirect_that_is_not_followed_fails_at_once(server: Server, target: str, reported: str) -> None:
    server.answer = lambda *_: (302, {"Location": target}, b"")
    clock = ManualClock()
    with harness(server, clock) as source, pytest.raises(ConnectError, match=reported):
        source.poll(1)
    assert clock.waits == []


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


@pytest.mark.parametrize(
    "times",
    [
        ["2026-11-27T00:00:00Z", "2026-11-27T00:00:00.5Z"],
        ["2026-11-27T02:30:00+02:00", "2026-11-27T02:10:00+01:00"],
        ["2026-11-27T00:00:00Z", "2026-11-27T00:00:00Z"],
        ["9", "10"],
    ],
)
def test_items_come_once_by_cursors_of_any_kind(server: Server, times: list[str]) -> None:
    items = [{"id": 1, "t": times[0]}]
    server.answer = lambda *_: (200, {}, items)
    with harness(server, cursor_field="t", cursor_param="since") as source:
        assert values(source, 1) == items
        source.restart()
        items.append({"id": 2, "t": times[1]})
        assert values(source, 1) == [{"id": 2, "t": times[1]}]
        assert server.requests[-1][1] == {"since": times[0]}
        source.restart()
        assert source.poll_once() == []


def test_a_cursor_is_asked_for_so_much_before_as_the_settings_say(server: Server) -> None:
    items = [{"t": "2026-11-27T00:01:00Z", "n": 1}]
    server.answer = lambda *_: (200, {}, items)
    with harness(server, cursor_field="t", cursor_param="since", cursor_lookback="60") as source:
        assert values(source, 1) == items
        items.append({"t": "2026-11-27T00:00:30Z", "n": 2})
        assert values(source, 1) == items[1:]
        assert server.requests[-1][1] == {"since": "2026-11-27T00:00:00Z"}
    items[:] = [{"t": 1, "id": 1, "views": 1}]
    with harness(server, cursor_field="t", cursor_identity="key", key_field="id") as source:
        assert values(source, 1) == items
        items[0]["views"] = 2
        assert source.poll_once() == []


@pytest.mark.parametrize(("kind", "total"), [("page", ""), ("offset", ""), ("page", "/total"), ("offset", "/total")])
def test_pages_are_counted_until_one_is_empty(server: Server, kind: str, total: str) -> None:
    every = [{"id": number} for number in range(5)]

    def answer(path: str, query: dict[str, str], headers: Mapping[str, str]) -> tuple[int, dict[str, str], Any]:
        start = int(query["offset"]) if kind == "offset" else (int(query["page"]) - 1) * 2
        if kind == "page" and start > len(every):
            return 404, {}, {"detail": "Invalid page"}
        return 200, {}, {"items": every[start : start + min(2, int(query["limit"]))], "total": len(every)}

    server.answer = answer
    paging = {"pagination": kind, "pagination_size": "100", "pagination_total_pointer": total}
    with harness(server, items_pointer="/items", cursor_field="id", **paging) as source:
        assert values(source, 3) == every[:4]
        source.restart()
        assert values(source, 1) == every[4:]
        for _ in range(4):
            assert source.poll_once() == []
        every.append({"id": 5})
        assert values(source, 1) == every[5:]
    server.answer = lambda *_: (200, {}, {"items": [1]})
    with (
        pytest.raises(ConnectError, match="with the items of the page before"),
        harness(server, items_pointer="/items", pagination=kind) as source,
    ):
        source.poll(3)


def test_a_body_is_posted_with_cursor_and_token(server: Server) -> None:
    def answer(path: str, query: dict[str, str], headers: Mapping[str, str]) -> tuple[int, dict[str, str], Any]:
        asked = json.loads(server.bodies[-1])
        token = {None: 'n"1', 'n"1': None}[asked["after"]]
        number = 1 if asked["after"] is None else 2
        return 200, {}, {"items": [{"v": f"2026-11-27T00:00:0{number}Z"}], "next": token}

    server.answer = answer
    body = '{"since": ${cursor}, "q": "updated:${cursor}", "after": ${token}, "first": ${limit}}'
    settings = {"request_method": "POST", "request_body": body, "pagination": "next", "pagination_size": "50"}
    with harness(server, items_pointer="/items", cursor_field="v", **settings) as source:
        assert len(values(source, 1)) == 1
        source.restart()
        assert len(values(source, 1)) == 1
        source.poll_once()
    one = {"since": None, "q": "updated:", "after": None, "first": 50}
    assert [json.loads(text) for text in server.bodies[:3]] == [
        one,
        {**one, "after": 'n"1'},
        {**one, "since": "2026-11-27T00:00:02Z", "q": "updated:2026-11-27T00:00:02Z"},
    ]
    assert server.requests[0][2]["Content-Type"] == "application/json"
    assert server.requests[0][1] == {}


def test_the_end_of_a_round_is_committed_and_a_page_that_has_gone_begins_the_round_again(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    def answer(path: str, query: dict[str, str], headers: Mapping[str, str]) -> tuple[int, dict[str, str], Any]:
        if query.get("after") not in (None, tokens[-1]):
            return 400, {}, b"expired"
        return 200, {}, {"items": [] if "after" in query else [{"id": 1}], "next": None if "after" in query else "one"}

    tokens = ["one"]
    server.answer = answer
    paging = {"pagination": "next", "pagination_next_param": "after", "items_pointer": "/items", "cursor_field": "id"}
    with harness(server, **paging) as source:
        assert values(source, 1) == [{"id": 1}]
        source.commit()
        assert "page" in (source.offset(url=server.url) or {})
        tokens.append("two")
        source.crash()
        source.start()
        assert source.poll_once() == []
        assert "400 Bad Request: expired, as a page to go on at" in caplog.text
        tokens.append("one")
        assert source.poll_once() == source.poll_once() == [], "the item came, and is known"
        source.commit()
        assert cursor_of(source, server) == 1
        source.crash()
        source.start()
        assert source.poll_once() == []


def test_a_token_of_oauth2_is_fetched_kept_and_renewed(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    valid = ["one"]

    def answer(path: str, query: dict[str, str], headers: Mapping[str, str]) -> tuple[int, dict[str, str], Any]:
        if path == "/token":
            return 200, {}, {"access_token": valid[0], "token_type": "bearer", "expires_in": 3600}
        if headers.get("Authorization") != f"Bearer {valid[0]}":
            return 401, {}, b""
        return 200, {}, [valid[0]]

    server.answer = answer
    token_url = server.url.replace("/items", "/token")
    oauth = {"auth_type": "oauth2", "auth_token_url": token_url, "auth_client_id": "me", "auth_client_secret": "s3cr+t"}
    with harness(server, **oauth, auth_scope="a b", **{"auth.token.param.audience": "x"}) as source:
        assert values(source, 1) == ["one"]
        assert values(source, 1) == ["one"]
        assert len(server.bodies) == 1
        valid[0] = "two"
        assert values(source, 1) == ["two"]
    assert server.bodies == ["grant_type=client_credentials&scope=a+b&audience=x"] * 2
    [basic] = {request[2]["Authorization"] for request in server.requests if request[0] == "/token"}
    assert base64.b64decode(basic.removeprefix("Basic ")) == b"me:s3cr%2Bt"
    with harness(server, **oauth, auth_client_in="body") as source:
        assert values(source, 1) == ["two"]
    assert server.bodies[-1] == "grant_type=client_credentials&client_id=me&client_secret=s3cr%2Bt"
    server.answer = lambda *_: (401, {}, {"error": "invalid_client"})
    with (
        pytest.raises(ConnectError, match="/token gives no token: 401 Unauthorized, invalid_client"),
        harness(server, **oauth) as source,
    ):
        source.poll(1)
    server.answer = lambda path, *_: (200, {}, {"access_token": "x"}) if path == "/token" else (401, {}, b"")
    with pytest.raises(ConnectError, match="/items answers 401"), harness(server, **oauth) as source:
        source.poll(1)
    assert "s3cr" not in caplog.text


def test_a_next_page_by_http_behind_a_proxy_of_tls_is_asked_for_by_https(tmp_path: Path) -> None:
    authority = Authority()
    pages = [b'{"items": [1], "next": "http://127.0.0.1/items?page=2"}', b'{"items": [2]}']
    tls = tls_of(authority.sign("127.0.0.1"), tmp_path)
    with listening(lambda peer, over: answering(pages.pop(0))(peer, over), tls) as (address, seen):
        config = {"url": f"https://{address}/items", "topic": "items", "pagination": "next", "items.pointer": "/items"}
        config |= {"auth.type": "bearer", "auth.token": "t", "tls.ca.file": str(authority.file(tmp_path / "ca.pem"))}
        with SourceHarness(SOURCE, config, clock=ManualClock()) as source:
            assert values(source, 2) == [1, 2]
    assert b"GET /items?page=2 " in seen[1]


def test_a_date_in_retry_after_is_waited_for(server: Server) -> None:
    at = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    answers: list[tuple[int, dict[str, str], Any]] = [(429, {"Retry-After": at}, b""), (200, {}, [1])]
    server.answer = lambda *_: answers.pop(0)
    clock = ManualClock()
    with harness(server, clock) as source:
        assert values(source, 1) == [1]
    [wait] = [wait for wait in clock.waits if wait]
    assert 60 < wait <= 90


@pytest.mark.parametrize(
    ("offset", "reported"),
    [
        ({"cursr": 1}, "has no field 'cursr'; it has cursor, known"),
        ({"cursor": [1]}, "The 'cursor' in an offset of HttpJsonSource is a text or a number"),
        ({"cursor": True}, "is a text or a number"),
        ({"page": 3}, "The 'page' in an offset of HttpJsonSource is a text"),
        ({"known": "x"}, "came before"),
        ({"page": "{"}, "It is not a page"),
    ],
)
def test_offsets_are_checked_before_they_are_kept(server: Server, offset: dict[str, Any], reported: str) -> None:
    connector = HttpJsonSourceConnector()
    with pytest.raises(DataError, match=reported):
        connector.alter_offsets({}, [({"url": server.url}, offset)])
    with pytest.raises(DataError, match="'url'"):
        connector.alter_offsets({}, [({"uri": server.url}, {"cursor": 1})])
    good = {"cursor": 1, "page": f"{server.url}?page=2", "etag": "x"}
    assert connector.alter_offsets({}, [({"url": server.url}, good), ({"url": server.url}, None)])


def test_settings_that_can_not_work_are_refused(server: Server) -> None:
    for wrong, reported in (
        ({"url": "file:///etc/passwd"}, "http"),
        ({"url": "http://me:secret@example.org/"}, "auth.user"),
        ({"auth_type": "bearer"}, "auth.token"),
        ({"auth_type": "basic", "auth_user": "me"}, "auth.password"),
        ({"auth_type": "oauth2"}, "auth.token.url"),
        ({"auth_type": "oauth2", "auth_token_url": "ftp://x"}, "auth.token.url"),
        ({"request_body": "{}"}, "request.method=POST"),
        ({"pagination": "guess"}, "pagination"),
        ({"header.X": "a\nb"}, "header"),
        ({"tls_ca_file": "/no/ca.pem"}, r"tls\.ca\.file"),
    ):
        with pytest.raises(ConfigError, match=reported) as caught:
            harness(server, **wrong).start()
        assert "secret" not in str(caught.value)


def test_an_item_without_a_cursor_is_given_up_once_and_the_others_come(server: Server) -> None:
    items: list[dict[str, Any]] = [{"id": 1, "at": 1}, {"id": 2, "at": None}, {"id": 3}, {"id": 4, "at": 4}]
    server.answer = lambda *_: (200, {}, items)
    with harness(server, cursor_field="at", errors_tolerance="all") as source:
        assert [item["id"] for item in values(source, 2)] == [1, 4]
        items.append({"id": 5, "at": 5})
        assert [item["id"] for item in values(source, 1)] == [5]
        assert [errant.record.value["id"] for errant in source.errant] == [2, 3]
    with harness(server, cursor_field="at") as source, pytest.raises(DataError, match=r"no usable cursor .*at: None"):
        values(source, 1)


def test_an_answer_without_content_has_no_items_and_the_next_one_is_asked_for(server: Server) -> None:
    server.answer = lambda *_: (
        (204, {"Content-Length": "0"}, b"") if len(server.requests) < 3 else (200, {}, [{"id": 1}])
    )
    with harness(server, items_pointer="", poll_interval_ms="1") as source:
        assert values(source, 1) == [{"id": 1}]

"""The console is made for its first page, once; a failure to make it is tried again with the next."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute

from kconnect.runtime.rest.late_console import LateConsole
from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder


class Pages(BaseRoute):
    """A console of one page."""

    is_closed = False

    @property
    def route(self):
        return self

    async def handle(self, scope, receive, send):
        await PlainTextResponse(f"page {scope['path']}")(scope, receive, send)

    def close(self):
        self.is_closed = True


async def _nobody(scope, receive, send):
    raise AssertionError("the pages here ask nothing")


@pytest.fixture
def made():
    return []


def _caller(make):
    late = LateConsole(make, _nobody)
    return late, closing(RestCaller(MemoryHerder(), more_routes=[late]))


def test_it_is_made_for_the_first_page_and_by_no_other_request(made):
    def make(app):
        made.append(Pages())
        return made[-1]

    late, caller = _caller(make)
    with caller as rest:
        assert [rest.ask("GET", path).status for path in ("/connectors", "/uix", "/nothing", "/connectors/ui")] == [
            200,
            404,
            404,
            404,
        ]
        assert made == []
        assert rest.ask("GET", "/ui").body == b"page /ui"
        assert rest.ask("GET", "/ui/connectors").body == b"page /ui/connectors"
    assert len(made) == 1
    assert not made[0].is_closed
    late.close()
    assert made[0].is_closed


def test_a_console_that_nobody_asked_for_is_closed_without_being_made(made):
    late, caller = _caller(lambda app: made.append(Pages()))
    with caller:
        late.close()
    assert made == []


def test_pages_that_are_asked_for_meanwhile_wait_for_the_one_that_is_being_made(made):
    begun, may_end = threading.Event(), threading.Event()

    def make(app):
        made.append(Pages())
        begun.set()
        assert may_end.wait(30)
        return made[-1]

    _, caller = _caller(make)
    with caller as rest, ThreadPoolExecutor(3) as threads:
        first = threads.submit(rest.ask, "GET", "/ui/1")
        assert begun.wait(30)
        others = [threads.submit(rest.ask, "GET", f"/ui/{number}") for number in (2, 3)]
        may_end.set()
        assert [asked.result(30).body for asked in (first, *others)] == [b"page /ui/1", b"page /ui/2", b"page /ui/3"]
    assert len(made) == 1


def test_a_failure_is_that_requests_and_the_next_one_tries_again(made):
    def make(app):
        made.append(Pages())
        if len(made) == 1:
            raise OSError("no room on the disk")
        return made[-1]

    _, caller = _caller(make)
    with caller as rest:
        failed = rest.ask("GET", "/ui")
        assert failed.status == 500
        assert failed.body == b"The console cannot be loaded: no room on the disk. The worker's log has the cause."
        assert rest.ask("GET", "/ui").status == 200

"""Puts the screen together and takes it apart: watches first, so that answers come while Textual is being imported."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kconnect_cli.top.events import Event, Fetch, LookNow, Make, Prepare
from kconnect_cli.top.facts import ClusterFacts
from kconnect_cli.top.inbox import Inbox
from kconnect_cli.top.requests import Requests
from kconnect_cli.top.state import TopState
from kconnect_cli.top.watches import ANSWER_S, DirectWatches, Keeps, RestWatches, Watches

if TYPE_CHECKING:
    from kconnect.direct.client import DirectClient
    from kconnect_cli.session import CliSession

# What a key asks for: a worker that collects many offsets takes longer than one that tells states
_REQUEST_S = 15.0
_STOP_S = 1.0


def run_screen(
    session: CliSession, keeps: Keeps, interval_s: float, second: Callable[[], DirectClient] | None = None
) -> int:
    """Shows the screen until it is left; gives the exit code. `second`: another client of the topics, with --direct.

    Errors: those of a login that cannot be read. Whoever does not answer is told on the screen.
    """
    inbox = Inbox()
    watches, requests, state = _parts(session, keeps, interval_s, inbox.put, second)

    def carry_out(request: Fetch | Prepare | Make | LookNow) -> None:
        if isinstance(request, LookNow):
            watches.look_now()
        else:
            requests.carry_out(request)

    watches.start()
    try:
        # What libraries log would be written over the screen, which tells what fails in its own way
        logging.getLogger().addHandler(logging.NullHandler())
        # Modules are no garbage: looking for it meanwhile takes a tenth of the import's time
        gc.disable()
        from kconnect_cli.top.app import TopApp

        gc.enable()
        code = TopApp(state, inbox, carry_out).run(mouse=False)
        return 0 if code is None else code
    finally:
        watches.stop(_STOP_S)


def _parts(
    session: CliSession,
    keeps: Keeps,
    interval_s: float,
    post: Callable[[Event], None],
    second: Callable[[], DirectClient] | None,
) -> tuple[Watches, Requests, TopState]:
    if session.direct is not None and second is not None:
        facts = ClusterFacts(place=session.direct.place, is_direct=True)
        requests = Requests(post, direct=second())
        return DirectWatches(session.direct, keeps, post, interval_s), requests, TopState(facts=facts)
    client, urls = session.client, session.target.urls  # asks for a password, while there is a plain terminal
    watches = RestWatches(lambda urls: session.client_of(urls, timeout_s=ANSWER_S), urls, keeps, post, interval_s)
    requests = Requests(post, connect=lambda: session.client_of(watches.urls, timeout_s=_REQUEST_S))
    return watches, requests, TopState(facts=ClusterFacts(place=client.url), now_s=time.monotonic())

"""`connect top` in Textual's pilot, in front of workers that are recorded or played back."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from textual.pilot import Pilot

from kconnect.client import ConnectClient
from kconnect_cli.top.app import Canvas, TopApp
from kconnect_cli.top.events import Event, Fetch, Fetched, LookNow, Make, Prepare
from kconnect_cli.top.facts import ClusterFacts, Look, StatusLook, WorkerLook
from kconnect_cli.top.inbox import Inbox
from kconnect_cli.top.lines import text_of
from kconnect_cli.top.run import Requests
from kconnect_cli.top.screen_state import TopState
from kconnect_cli.top.view import draw
from kconnect_cli.top.watches import RestWatches
from kit.pace import ample_s
from kit.top_fronts import Fronts, Scene

SIZE = (110, 22)
# Each watch looks once, so that rates are those that the workers tell
_ONCE_S = 3600.0


class TopReplay:
    """The screen, and what it asks. Use within `asyncio.run`. `url`: the worker that is named."""

    def __init__(self, fronts: Fronts, url: str) -> None:
        self._fronts = fronts
        self._url = url
        self._inbox = Inbox()
        self._lock = threading.Lock()  # guards the two below
        self._looks: list[Look] = []
        self._fetched = 0
        self._asked = 0
        self._requests = Requests(self._answered, connect=self._client, workers=lambda: [url])
        state = TopState(facts=ClusterFacts(place=url), now_s=time.monotonic())
        self.app = TopApp(state, self._inbox, self._carry_out)
        self.pilot: Pilot[int]

    async def see(self, scene: Scene) -> list[str]:
        """Look at this scene once, with all workers; the screen then."""
        self._fronts.show(scene)
        with self._lock:
            self._looks = []
        watches = RestWatches(
            lambda urls: ConnectClient(urls, timeout_s=ample_s(10)),
            [self._url],
            lambda _name: True,
            self._seen,
            _ONCE_S,
        )
        watches.start()
        try:
            await self._until(lambda: self._is_complete(watches.workers))
        finally:
            watches.stop(ample_s(5))
        return await self.lines()

    async def press(self, *keys: str) -> list[str]:
        """The screen after these keys, and after what they have asked for."""
        await self.pilot.press(*keys)
        await self._until(lambda: self._fetched == self._asked)
        return await self.lines()

    async def lines(self) -> list[str]:
        """As a recording would name the workers."""
        canvas = self.app.query_one(Canvas)

        def shown() -> str:
            return "\n".join(canvas.render_line(y).text.rstrip() for y in range(canvas.size.height))

        await self._until(lambda: self._inbox.is_empty and shown() == text_of(draw(self.app.state).lines))
        return self._fronts.recorded(shown()).split("\n")

    def _client(self) -> ConnectClient:
        return ConnectClient(self._url, timeout_s=ample_s(10))

    def _carry_out(self, request: Fetch | Prepare | Make | LookNow) -> None:
        if not isinstance(request, LookNow):
            self._asked += 1
            self._requests.carry_out(request)

    def _answered(self, event: Event) -> None:
        self._inbox.put(event)
        with self._lock:
            self._fetched += isinstance(event, Fetched)

    def _seen(self, look: Look) -> None:
        self._inbox.put(look)
        with self._lock:
            self._looks.append(look)

    def _is_complete(self, workers: Sequence[str]) -> bool:
        with self._lock:
            looks = list(self._looks)
        reported = {look.facts.url for look in looks if isinstance(look, WorkerLook)}
        return any(isinstance(look, StatusLook) for look in looks) and reported >= set(workers)

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + ample_s(20)
        while not holds():
            assert time.monotonic() < deadline_s, f"top waits: {self._looks}"
            await asyncio.sleep(0.01)


SCENES = ("running", "failing", "paused", "away", "taken over")


async def walk(replay: TopReplay, scene_of: Callable[[str], Scene]) -> dict[str, list[str]]:
    """Every screen of the play, by title: all scenes, and what keys show in each."""
    seen: dict[str, list[str]] = {}
    for name in SCENES:
        seen[name] = await replay.see(scene_of(name))
        if name == "running":
            for title in ("tasks", "slots", "workers"):
                seen[f"{name}: {title}"] = await replay.press("tab")
            await replay.press("1")
        elif name == "failing":
            seen[f"{name}: broken"] = await replay.press("home", "enter")
            for key, title in (("2", "trace"), ("3", "config"), ("4", "offsets")):
                seen[f"{name}: broken: {title}"] = await replay.press(key)
            await replay.press("escape")
        elif name in ("away", "taken over"):
            seen[f"{name}: tasks"] = await replay.press("2")
            seen[f"{name}: workers"] = await replay.press("4")
            await replay.press("1")
    return seen


def played_through(fronts: Fronts, scene_of: Callable[[str], Scene]) -> dict[str, list[str]]:
    """`walk` on a screen of its own."""

    async def play() -> dict[str, list[str]]:
        replay = TopReplay(fronts, fronts.url(next(iter(fronts.ports))))
        async with replay.app.run_test(size=SIZE) as pilot:
            replay.pilot = pilot
            return await walk(replay, scene_of)

    return asyncio.run(play())


def screens_text(screens: Mapping[str, list[str]]) -> str:
    """All screens in one text, each below its title. How long ago something was is left out: it is another one now."""
    parts = [f"=== {title}\n" + "\n".join(lines).rstrip() + "\n" for title, lines in screens.items()]
    return re.sub(r"\b\d+(?:\.\d+)? (?:s|min)\b", "N s", "\n".join(parts))

"""The live screen as Textual draws it, driven by its pilot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from textual.pilot import Pilot

from kconnect_cli.top.app import Canvas, TopApp
from kconnect_cli.top.events import Action, Event, Fetch, Fetched, LookNow, Make, Part, Prepare, Prepared, Verb
from kconnect_cli.top.facts import ClusterFacts
from kconnect_cli.top.inbox import Inbox
from kconnect_cli.top.screen_state import TopState
from kit.top_world import connector, look, worker

Scene = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """The app between its two ends: what it asks for, and what it is reported."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.asked: list[Fetch | Prepare | Make | LookNow] = []
        self.app = TopApp(TopState(facts=ClusterFacts(place="http://w1:8083")), self.inbox, self.asked.append)
        self.pilot: Pilot[int]

    async def reported(self, *events: Event) -> None:
        for event in events:
            self.inbox.put(event)
        await self.pilot.pause()

    @property
    def lines(self) -> list[str]:
        canvas = self.app.query_one(Canvas)
        return [canvas.render_line(y).text.rstrip() for y in range(canvas.size.height)]


def played(scene: Scene, size: tuple[int, int] = (100, 24)) -> Stage:
    stage = Stage()

    async def play() -> None:
        async with stage.app.run_test(size=size) as pilot:
            stage.pilot = pilot
            await scene(stage)

    asyncio.run(play())
    return stage


def test_a_recorded_cluster_is_drawn_line_by_line():
    async def scene(stage: Stage) -> None:
        await stage.reported(
            look(
                connector("numbers", "RUNNING", "RUNNING"),
                connector("broken", "FAILED", trace="Task broken-0 failed: x. Root cause: OSError: gone\n"),
                cluster_id="QL3jnbw",
                asked="http://w1:8083",
            ),
            worker(),
        )
        assert "cluster QL3jnbw" in stage.lines[0]
        assert stage.lines[1:7] == [
            "1 worker   2 connectors: 1 FAILED 1 RUNNING   3 tasks: 1 FAILED 2 RUNNING",
            " 1 Connectors  2 Tasks  3 Slots  4 Workers                                        2, by worst first",
            "NAME     TYPE    STATE    TASKS  RECORDS/S  LAG  ERRORS  WHY",
            "broken   source  FAILED   0/1            -    -       -  task 0: OSError: gone",
            "numbers  source  RUNNING  2/2            -    -       -",
            "",
        ]
        assert stage.lines[-1].startswith("? help  q quit  Enter open  / filter")

    played(scene)


def test_keys_reach_the_screen_as_they_are_typed_also_those_that_textual_has_a_use_for():
    async def scene(stage: Stage) -> None:
        await stage.reported(look(connector("a", "RUNNING"), connector("b", "RUNNING")))
        await stage.pilot.press("tab")
        assert "CONDITION" in stage.lines[3]
        await stage.pilot.press("shift+tab", "down", "enter")
        assert stage.lines[2].startswith(" b RUNNING")
        await stage.pilot.press("escape", "slash", "a", "enter")
        assert [line.split()[0] for line in stage.lines[4:-1] if line] == ["a"]
        await stage.pilot.press("greater_than_sign")
        assert "NAME ▲" in stage.lines[3]

    played(scene)


def test_requests_go_out_and_their_answers_come_in():
    action = Action(Verb.PAUSE, "a")

    async def scene(stage: Stage) -> None:
        await stage.reported(look(connector("a", "RUNNING")))
        await stage.pilot.press("p")
        await stage.reported(Prepared(action, ("key: old -> new",)))
        assert any("key: old -> new" in line for line in stage.lines)
        await stage.pilot.press("y", "enter", "3")
        await stage.reported(Fetched("a", Part.CONFIG, ("topic = t",)))
        assert "topic = t" in stage.lines

    assert played(scene).asked == [Prepare(action), Make(action), Fetch("a", Part.CONFIG)]


def test_a_new_size_is_drawn_at_once():
    async def scene(stage: Stage) -> None:
        await stage.reported(look(*(connector(f"c{number:02}", "RUNNING") for number in range(40))))
        assert len(stage.lines) == 24
        await stage.pilot.resize_terminal(60, 15)
        for _ in range(500):  # a busy machine may draw it later
            if len(stage.lines) == 15:
                break
            await stage.pilot.pause(0.01)
        assert len(stage.lines) == 15
        assert "1-10 of 40" in stage.lines[2]
        assert stage.lines[-1].startswith("? help  q quit")

    played(scene)


def test_q_ends_it_with_0_and_ctrl_c_with_130():
    async def quitted(stage: Stage) -> None:
        await stage.pilot.press("q")

    async def interrupted(stage: Stage) -> None:
        await stage.pilot.press("ctrl+c")

    assert played(quitted).app.return_value == 0
    assert played(interrupted).app.return_value == 130

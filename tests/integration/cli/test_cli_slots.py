"""`connect slots` at one worker shows those of all."""

from __future__ import annotations

from pathlib import Path

from kit.cli import cli_run
from kit.console_world import console_world


def test_slots_of_all_workers_are_shown_and_one_that_does_not_answer_is_named(home: Path) -> None:
    with console_world({"orders": 1.0, "clicks": 1.0}, workers=2) as world:
        world.live_an_hour()
        asked, other = world.workers
        ids = [worker.herder.worker_id for worker in world.workers]
        found = cli_run("--url", asked.url, "slots", "-o", "json", home=home, expect=0)
        assert [(slot["worker"], slot["slot"], slot["host"]) for slot in found.json] == [
            (id_, slot, f"node-{number}.internal") for number, id_ in enumerate(ids, 1) for slot in (0, 1)
        ]
        assert found.stderr == ""
        table = cli_run("--url", asked.url, "slots", home=home, expect=0).stdout
        assert table.split()[0] == "WORKER"
        other.server.stop(1.0)
        left = cli_run("--url", asked.url, "slots", "-o", "json", home=home, expect=0)
        assert {slot["worker"] for slot in left.json} == {ids[0]}
        assert left.stderr == (f"The slots of {ids[1]} are not known: it does not answer, or is one of Java's.\n")

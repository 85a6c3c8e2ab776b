"""`connect top` in front of recorded workers, ours and Java's: the whole app, from HTTP to the lines on the screen.

The recordings are real ones, from `tests/golden/top/record.py`: connectors run, one fails, one is paused, a worker is
killed, the other one takes over.
"""

from __future__ import annotations

import pytest

from kit.places import GOLDEN
from kit.top_fronts import Fronts, load_scenes, worker_name
from kit.top_replay import played_through, screens_text

_FILES = GOLDEN / "top"


@pytest.mark.parametrize("workers", ["ours", "java"])
def test_a_recorded_cluster_is_drawn_as_it_was(workers: str) -> None:
    scenes = load_scenes(_FILES / f"{workers}.json")
    with Fronts([worker_name(0), worker_name(1)]) as fronts:
        screens = played_through(fronts, scenes.__getitem__)
        assert not fronts.unknown, "top asks for what is not recorded: run tests/golden/top/record.py"
    assert screens_text(screens) == (_FILES / f"{workers}.screens.txt").read_text()


@pytest.mark.parametrize(
    ("workers", "screen", "lines"),
    [
        ("ours", "failing", ["broken   sink    FAILED   0/1 ", "task 0: JSONDecodeError: Expecting property name enc"]),
        ("ours", "away", ["2 workers (1 unreachable)", "Worker 127.0.0.1:10002 does not answer (last answer N s ago)"]),
        ("ours", "running: slots", ["127.0.0.1:10001     0  up     host1"]),
        ("java", "running", ["no rates: Java's workers do not tell them", "copy     sink    RUNNING  1/1 "]),
        ("java", "failing: broken: trace", ["org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded"]),
        ("java", "running: workers", ["127.0.0.1:10001  up     Java  4.3.0"]),
        ("java", "taken over: tasks", ["nightly     0  PAUSED"]),
    ],
)
def test_the_recorded_screens_show_what_happened(workers: str, screen: str, lines: list[str]) -> None:
    """A recording that was made wrongly would be drawn as it was, too."""
    text = (_FILES / f"{workers}.screens.txt").read_text()
    shown = text.partition(f"=== {screen}\n")[2].partition("\n===")[0]
    for line in lines:
        assert line in shown

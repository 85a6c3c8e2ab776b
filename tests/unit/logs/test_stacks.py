"""Where a task hangs is reported by the line of the plugin's author, whoever calls it and whatever it calls."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from kconnect.api import SinkRecord
from kconnect.builtin.connectors.python.python_sink import PythonSinkTask
from kconnect.logs.stacks import place_of_call, place_of_thread
from kit.waiting import eventually

AUTHORS = """\
import threading
entered, gate = threading.Event(), threading.Event()


def store(record):
    deeper(record)


def deeper(record):
    entered.set()
    gate.wait(60)  # where it hangs
"""


@pytest.fixture
def authors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "authors_of_sinks.py").write_text(AUTHORS)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "authors_of_sinks.py"
    sys.modules.pop("authors_of_sinks", None)


def test_a_python_sink_that_hangs_names_the_line_of_the_users_function(authors: Path) -> None:
    task = PythonSinkTask()
    task.start({"function": "authors_of_sinks:store", "topics": "t"})
    record = SinkRecord("t", 0, None, None, None, {"a": 1}, 0)
    thread = threading.Thread(target=task.put, args=([record],), name="task")
    thread.start()
    module = sys.modules["authors_of_sinks"]
    try:
        eventually(module.entered.is_set, 10, "the function is called")
        place = place_of_thread(thread.ident)
    finally:
        module.gate.set()
        thread.join(10)
    assert place is not None
    assert place.line == f"{authors}:11 in deeper: gate.wait(60)  # where it hangs"
    assert "python_sink.py" in place.stack, "the whole way is in the stack"


def test_a_thread_that_waits_for_java_is_where_java_is_now() -> None:
    """Java is asked first, and gives what it found when it is asked again."""
    asked: list[int] = []

    def java_stack() -> list[str]:
        asked.append(1)
        return ["java.base/java.lang.Thread.sleep(Native Method)", "odd.Odd.act(Odd.java:62)"] if len(asked) > 1 else []

    here = threading.get_ident()
    place = place_of_call(here, java_stack)
    assert place is not None
    assert place.line == "odd.Odd.act(Odd.java:62)"
    for nothing in ([], None):
        other = place_of_call(here, lambda nothing=nothing: nothing)
        assert other is not None
        assert ".java" not in other.line
    assert place_of_call(0, java_stack) is None

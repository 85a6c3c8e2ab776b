"""`connect try` with the mistakes of connector authors: each is reported by class, method, file and line.

In this process where nothing hangs; test_the_whole_trace_comes_with_verbose and what hangs run as a user runs it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kit.cli import CliResult, Command, cli_run
from kit.pace import now
from kit.places import KIT

FOLDER = KIT / "mistakes"
CODE = (FOLDER / "mistaken.py").read_text().splitlines()


def at(text: str) -> str:
    """`mistaken.py:LINE: code` of the only line with this text."""
    (line,) = [number for number, code in enumerate(CODE, 1) if text in code]
    return f"mistaken.py:{line}: {CODE[line - 1].strip()}"


def words_of(folder: Path, kind: str, mistake: str, more: str = "") -> list[str]:
    """`try` and a file of this connector."""
    file = folder / "tried.properties"
    topics = "topics=t\n" if kind == "MistakenSink" else ""
    file.write_text(
        f"name=tried\nconnector.class=mistaken.{kind}\nmistake={mistake}\n{topics}{more}"
        "value.converter=StringConverter\nkey.converter=StringConverter\n"
    )
    given = ("--input", "-") if kind == "MistakenSink" else ()
    return ["try", str(file), "--plugin-path", str(FOLDER), *given]


@pytest.fixture
def trial(connect: Command, tmp_path: Path) -> Command:
    """Try a connector with a mistake in this process."""

    def call(kind: str, mistake: str, *words: str, expect: int, more: str = "", stdin: str = "a\n") -> CliResult:
        return connect(*words_of(tmp_path, kind, mistake, more), *words, stdin=stdin, expect=expect)

    return call


def trial_apart(home: Path, folder: Path, kind: str, mistake: str, *words: str, expect: int) -> CliResult:
    """The same in a process of its own: what hangs in a plugin goes with it."""
    done = cli_run(*words_of(folder, kind, mistake), *words, home=home, stdin="a\n", expect=expect)
    assert "This is a bug in connect" not in done.stderr
    return done


@pytest.mark.parametrize(
    ("kind", "mistake", "reported", "place"),
    [
        ("MistakenSource", "poll", "MistakenSourceTask.poll() raised KeyError: 'squar'", 'row["squar"]'),
        ("MistakenSource", "start", "MistakenSourceTask.start() raised ValueError: invalid literal", 'int("many")'),
        ("MistakenSource", "exit", "MistakenSourceTask.poll() raised SystemExit: no licence", "raise SystemExit"),
        (
            "MistakenSource",
            "connector start",
            "MistakenSource.start() raised FileNotFoundError: [Errno 2] No such file or directory: '/no/such/ca.pem'",
            "raise OSError",
        ),
        ("MistakenSource", "task_configs", "MistakenSource.task_configs() raised KeyError: 'parts'", '"parts"'),
        ("MistakenSource", "validate", "MistakenSource.validate() raised AttributeError: ", "self.settings[props"),
        ("MistakenSink", "start", "MistakenSinkTask.start() raised ValueError: invalid literal", 'int("many")'),
        ("MistakenSink", "flush", "MistakenSinkTask.flush() raised ValueError: cannot flush", '("cannot flush")'),
        ("MistakenSink", "stop", "MistakenSinkTask.stop() raised RuntimeError: already closed", '("already closed")'),
    ],
)
def test_an_error_of_the_authors_is_reported_with_method_file_and_line(
    trial: Command, kind: str, mistake: str, reported: str, place: str
) -> None:
    done = trial(kind, mistake, expect=1)
    (sentence, hint) = [line for line in done.stderr.splitlines() if line]
    assert sentence.startswith(reported)
    assert sentence.endswith(at(place))
    assert hint.startswith("Hint: ")
    assert "Traceback" not in done.stderr


def test_the_whole_trace_comes_with_verbose(home: Path, tmp_path: Path) -> None:
    done = trial_apart(home, tmp_path, "MistakenSource", "poll", "--verbose", expect=1)
    assert "Traceback (most recent call last)" in done.stderr
    assert "KeyError: 'squar'" in done.stderr
    assert ', in poll\n    return [self.record(row["squar"])]' in done.stderr


def test_errors_of_an_authors_transformation_have_file_and_line(trial: Command) -> None:
    mine = "transforms=mine\ntransforms.mine.type=mistaken.MistakenTransform\n"
    done = trial("MistakenSource", "none", expect=1, more=mine)
    message = (
        "Record 1: transform mine failed (mistaken.MistakenTransform): TypeError: 'int' object is not subscriptable"
    )
    assert done.stderr.startswith(message)
    assert at('record.value["text"]') in done.stderr
    assert "errors.tolerance=all" in done.stderr
    more = f"{mine}transforms.mine.mistake=configure\n"
    done = trial("MistakenSource", "none", expect=1, more=more)
    assert done.stderr.startswith("MistakenTransform.configure() raised KeyError: 'feild', at ")
    assert at('configs["feild"]') in done.stderr


def test_a_put_that_fails_is_not_sent_to_errors_tolerance(trial: Command) -> None:
    done = trial("MistakenSink", "put", expect=1)
    assert "Record 1: put failed (mistaken.MistakenSinkTask): ValueError: no column for it, at " in done.stderr
    assert at('"no column for it"') in done.stderr
    assert "errors.tolerance" not in done.stderr
    assert "Raise RetriableError to have put called again with the same records" in done.stderr
    assert "errant_record_reporter" in done.stderr


def test_a_source_that_is_only_retried_fails_with_the_cause(trial: Command) -> None:
    done = trial("MistakenSource", "retriable", "--timeout", "2", expect=1)
    reported, times, rest = done.stderr.partition(" times. ")
    assert reported.startswith("No records: poll() raised RetriableError ")
    assert times
    assert int(reported.rpartition(" ")[2]) >= 2
    assert rest.startswith("MistakenSourceTask.poll() raised RetriableError: the API answers 503, at ")


def test_retries_after_which_it_went_on_are_reported(trial: Command) -> None:
    done = trial("MistakenSource", "retriable once", "--limit", "1", expect=0)
    assert "RetriableError was raised 1 time. The last: MistakenSourceTask.poll() raised" in done.stderr
    done = trial("MistakenSink", "retriable put once", expect=0)
    assert done.stdout.startswith("record 1: put")
    assert "RetriableError was raised 1 time. The last: MistakenSinkTask.put() raised" in done.stderr


def test_a_put_that_is_only_retried_fails_after_the_time(trial: Command) -> None:
    done = trial("MistakenSink", "retriable put", "--timeout", "3s", expect=1)
    assert re.search(
        r"put failed [2-4] times \(mistaken\.MistakenSinkTask\): RetriableError: the database is aw", done.stderr
    )
    assert "A worker keeps calling put until it succeeds" in done.stderr


@pytest.mark.parametrize(
    ("kind", "mistake", "call", "place"),
    [
        ("MistakenSource", "hang in start", "MistakenSourceTask.start()", None),
        ("MistakenSource", "hang in poll", "MistakenSourceTask.poll()", None),
        ("MistakenSink", "hang in put", "MistakenSinkTask.put()", "time.sleep(3600)"),
    ],
)
def test_a_call_that_hangs_ends_at_the_timeout_and_is_named(
    home: Path, tmp_path: Path, kind: str, mistake: str, call: str, place: str | None
) -> None:
    began = now()
    done = trial_apart(home, tmp_path, kind, mistake, "--timeout", "2", expect=6)
    assert now() - began < 30
    assert done.stderr.startswith(f"{call} has not returned after ")
    assert "mistaken.py:" in done.stderr
    assert (at(place) if place else "threading.Event().wait()") in done.stderr
    assert "plugin_calls" not in done.stderr


def test_the_trace_of_a_call_that_hangs_comes_with_verbose(home: Path, tmp_path: Path) -> None:
    done = trial_apart(home, tmp_path, "MistakenSink", "hang in put", "--timeout", "0.5", "--verbose", expect=6)
    assert "The call was here:" in done.stderr


def test_a_poll_that_waits_as_it_should_is_no_hang(home: Path, tmp_path: Path) -> None:
    done = trial_apart(home, tmp_path, "MistakenSource", "wait in poll", "--timeout", "0.5", expect=0)
    assert "0 records" in done.stderr


def test_a_poll_that_hangs_after_it_gave_records_is_reported_beside_them(home: Path, tmp_path: Path) -> None:
    done = trial_apart(home, tmp_path, "MistakenSource", "hang in second poll", "--timeout", "2", expect=0)
    assert done.stdout.startswith("record 1: written")
    assert "MistakenSourceTask.poll() has not returned after " in done.stderr
    assert "1 record" in done.stderr


@pytest.mark.parametrize(
    ("mistake", "why"),
    [
        ("nested offset", "field next contains MAP (source partition {'source': 'mistaken'}, source offset {'next': {"),
        ("object offset", "field since contains <class 'type'>"),
        ("nested partition", "field tables contains ARRAY"),
    ],
)
def test_an_offset_that_cannot_be_stored_is_not_written(trial: Command, mistake: str, why: str) -> None:
    done = trial("MistakenSource", mistake, expect=1)
    assert done.stdout.startswith("record 1: failed")
    assert "written" not in done.stdout
    assert (
        "Record 1: offset failed (mistaken.MistakenSourceTask): DataError: its offset cannot be stored" in done.stderr
    )
    assert why in done.stderr
    assert "Source partitions and offsets are flat" in done.stderr


def test_bytes_that_a_converter_cannot_read_are_reported_with_their_place(connect: Command, tmp_path: Path) -> None:
    file = tmp_path / "tried.properties"
    file.write_text(
        "name=tried\nconnector.class=mistaken.MistakenSink\nmistake=none\ntopics=orders\n"
        "value.converter=JsonConverter\nvalue.converter.schemas.enable=false\n"
    )
    words = ("try", str(file), "--plugin-path", str(FOLDER), "--input", "-")
    done = connect(*words, stdin='{"id": 1}\n{oops\n', expect=1)
    assert done.stderr.splitlines()[0] == (
        "Record 2: value.converter failed (kconnect.builtin.converters.json_converter.JsonConverter): JSONDecodeError: "
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1). "
        'The value in topic orders, partition 0: "{oops"'
    )


def test_errors_of_shipped_plugins_have_their_own_hint_and_no_lines_of_our_code(
    connect: Command, tmp_path: Path
) -> None:
    file = tmp_path / "tried.properties"
    file.write_text(
        "name=tried\nconnector.class=FileStreamSink\ntopics=t\nfile=/dev/full\nvalue.converter=StringConverter\n"
    )
    done = connect("try", str(file), "--input", "-", stdin="a\n", expect=1)
    sentence = done.stderr.splitlines()[0]
    assert sentence.endswith("Cannot write to /dev/full: No space left on device")
    assert "RetriableError" not in done.stderr
    assert "core/kconnect" not in done.stderr

"""SingerSource with a real tap (on Meltano's SDK), and with taps that misbehave, all as processes."""

from __future__ import annotations

import json
import logging
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from kconnect.errors import ConnectError, DataError
from kconnect.runtime.pipeline.inflight import partition_key
from kconnect.runtime.pipeline.offset_updates import updated_offsets
from kconnect.testing import SourceHarness
from kit.pace import ample_s, ended
from kit.places import KIT
from kit.processes import below, command, living
from kit.waiting import eventually

TAP = f"{shlex.quote(sys.executable)} {shlex.quote(str(KIT / 'taps/numbers_tap.py'))}"
SCHEMA = json.dumps({"type": "SCHEMA", "stream": "s", "schema": {"properties": {"a": {"type": "integer"}}}})
RECORD = json.dumps({"type": "RECORD", "stream": "s", "record": {"a": 1}})


def source_of(command: str = TAP, **more: str) -> SourceHarness:
    settings = {key.replace("__", "."): value for key, value in more.items()}
    return SourceHarness("SingerSource", {"singer.command": command, "topic.prefix": "db.", **settings})


def tap_that(code: str) -> str:
    """A tap of a few lines of Python."""
    return f"{shlex.quote(sys.executable)} -uc {shlex.quote('import json, os, sys, time;' + code)}"


def left_files() -> list[str]:
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("kconnect-singer-")]


def test_a_real_tap_gives_its_records_and_goes_on_from_its_state(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    config = json.dumps({"upto": 3, "password": "sesame-open"})
    with source_of(singer__config=config, poll__interval__ms="1") as source:
        records = source.poll(4, within_s=ample_s(30))
        assert [(record.topic, record.value.get("n"), record.key.get("n")) for record in records] == [
            ("db.numbers", n, n) for n in range(4)
        ]
        eventually(lambda: source.poll_once() or source.task._tap is None, 20, "it ends")
        source.commit()
        [offset] = source.offsets
        state = json.loads(str(offset.offset["state"]))  # type: ignore[index]
        assert state["bookmarks"]["numbers"]["replication_key_value"] == 3
        source._run.config["singer.config"] = json.dumps({"upto": 5, "password": "sesame-open"})
        source.restart()
        assert [record.value.get("n") for record in source.poll(2, within_s=ample_s(30))] == [4, 5]
    assert "reading from 3 with [hidden]" in caplog.text
    assert "sesame" not in caplog.text
    assert left_files() == []


def test_a_state_that_comes_while_its_records_are_on_their_way_is_committed_later(tmp_path: Path) -> None:
    """What the worker does with the answer then: it has no effect, and commit() is called all the same."""
    first, last = (json.dumps({"type": "STATE", "value": {"at": at}}) for at in (0, 9))
    gate = tmp_path / "gate"
    code = f"""
print('''{SCHEMA}\\n{first}\\n{RECORD}''')
while not os.path.exists({str(gate)!r}): time.sleep(0.01)
print('{last}')
time.sleep(60)
"""
    with source_of(tap_that(code)) as source:
        assert [record.source_offset for record in source.poll(1, within_s=ample_s(20))] == [{"state": '{"at":0}'}]
        gate.touch()
        eventually(lambda: source.poll_once() or source.task._state == '{"at":9}', 20, "the tap's last state is read")
        busy = {partition_key({"tap": os.path.basename(sys.executable)})}
        for _ in range(2):
            assert updated_offsets("tap", source.task.update_offsets, [], busy) == []
            source.task.commit()
        assert [offset.offset for offset in source.commit()] == [{"state": '{"at":9}'}]


def test_a_tap_of_old_gets_its_catalog_as_properties_and_nothing_of_its_records_is_lost(tmp_path: Path) -> None:
    code = """
at = sys.argv.index('--properties')
catalog = json.load(open(sys.argv[at + 1]))
assert '--catalog' not in sys.argv
for line in (
    {'type': 'SCHEMA', 'stream': 's', 'schema': {'type': 'object'}, 'key_properties': ['id']},
    {'type': 'RECORD', 'stream': 's', 'record': {'id': 1, 'a': catalog['streams']}},
):
    print(json.dumps(line))
"""
    with source_of(tap_that(code), singer__catalog='{"streams": []}', singer__catalog__option="--properties") as source:
        [record] = source.poll(1, within_s=ample_s(20))
    assert (record.key.get("id"), record.value.get("id"), record.value.get("a")) == (1, 1, "[]")


def test_streams_are_selected_by_name() -> None:
    with source_of(singer__config='{"upto": 1}', singer__streams="numbers") as source:
        assert len(source.poll(2, within_s=ample_s(30))) == 2
    with (
        source_of(singer__config='{"upto": 1}', singer__streams="letters") as source,
        pytest.raises(ConnectError, match=r"has no stream letters; it has: numbers"),
    ):
        source.poll(1)


@pytest.mark.parametrize(
    ("code", "reported"),
    [
        (
            "sys.stderr.write('no such table\\n'); sys.exit(3)",
            r"ended with code 3\. The last that it said:\nno such table",
        ),
        ("os.kill(os.getpid(), 9)", r"was killed by signal 9\. It said nothing"),
        ("print('Hello')", "Line 1 of .* is not a message of Singer, it is not JSON: Hello"),
        ("time.sleep(60)", r"has written nothing for 0\.3 s and was ended"),
    ],
)
def test_a_tap_that_misbehaves_fails_the_task_with_a_sentence(code: str, reported: str) -> None:
    silence = "300" if "sleep" in code else "60000"
    with source_of(tap_that(code), singer__silence__max__ms=silence) as source:
        with pytest.raises((ConnectError, DataError), match=reported):
            source.poll(1, within_s=ample_s(20))
        assert source.task._tap is None or "Hello" in code
    assert left_files() == []


def test_a_program_that_is_not_there_is_said() -> None:
    with source_of("tap-that-nobody-wrote") as source, pytest.raises(ConnectError, match="cannot be run: No such file"):
        source.poll(1, within_s=ample_s(20))


def test_settings_are_for_the_owner_alone_while_the_tap_runs() -> None:
    mode = "oct(os.stat({}).st_mode & 0o777)"
    code = f"print({mode.format('sys.argv[2]')}, {mode.format('os.path.dirname(sys.argv[2])')})"
    with source_of(tap_that(code), singer__config='{"password": "x"}') as source, pytest.raises(DataError) as reported:
        source.poll(1, within_s=ample_s(20))
    assert "0o600 0o700" in str(reported.value)


def test_a_bad_record_is_given_up_and_a_stop_ends_the_tap_and_what_it_started() -> None:
    bad = json.dumps({"type": "RECORD", "stream": "s", "record": {"a": "x"}})
    lines = "\\n".join((SCHEMA, bad, RECORD))
    code = f"print('''{lines}'''); import subprocess; subprocess.Popen(['sleep', '61']); time.sleep(60)"
    others = set(psutil.Process().children(recursive=True))  # the broker of the session
    with source_of(tap_that(code), errors__tolerance="all") as source:
        assert [record.value.get("a") for record in source.poll(1, within_s=ample_s(20))] == [1]
        assert source.errant[0].record.value == {"a": "x"}
        family = eventually(lambda: _below(os.getpid(), "61"), 10, "it has started sleep")
    ended_with_it = set(family) - others
    assert ended_with_it
    eventually(lambda: not living(ended_with_it), 10, "a killed process takes a moment to end")


def test_a_tap_does_not_outlive_a_process_that_is_killed(tmp_path: Path) -> None:
    """As a slot with kill -9: nobody can end the tap but the kernel."""
    code = tap_that(f"print('''{SCHEMA}\\n{RECORD}'''); time.sleep(62)")
    config = {"singer.command": code, "singer.config": '{"password": "x"}'}
    script = f"""
import sys
from kconnect.testing import SourceHarness
with SourceHarness("SingerSource", {config!r}) as source:
    source.poll(1, within_s={ample_s(20)})
    print("polled", flush=True)
    sys.stdin.read()
"""
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == b"polled\n"
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) == 2, "the guard and the tap"
        assert any(path.name.startswith("kconnect-singer-") for path in tmp_path.iterdir())
    finally:
        process.send_signal(signal.SIGKILL)
        ended(process, 10)
        process.stdout.close()
        process.stdin.close()
    eventually(lambda: not living(family), 10, "they end with it")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("kconnect-singer-")] == []


def _below(pid: int, argument: str) -> list[psutil.Process]:
    """All processes below one, if one of them was given this argument."""
    family = below(pid)
    return family if any(argument in command(one) for one in family) else []

"""Changes of offsets that are kept, taken back and moved in one go: `connect offsets history|undo|move` over REST."""

from __future__ import annotations

import io
import json
import stat
import sys
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest

from kconnect.client.offset_history import OffsetEntry, OffsetHistory, moved_offsets
from kconnect.errors import ConflictError, ConnectError
from kconnect.model import ConnectorOffset, ConnectorState, RunState, TargetState
from kconnect.runtime.rest import RestServer
from kconnect_cli.app import run
from kit.memory_herder import MemoryHerder, file_source

PARTITION = {"filename": "/in"}


class StubbornHerder(MemoryHerder):
    """Stores other offsets than it is given, or refuses them, when reported to."""

    shift = 0
    refusal: ConnectError | None = None

    def alter_connector_offsets(self, name, offsets, **more):
        if self.refusal is not None:
            raise self.refusal
        shift, self.shift = self.shift, 0
        moved = [
            ConnectorOffset(item.partition, {"position": item.offset["position"] + shift} if item.offset else None)
            for item in offsets
        ]
        return super().alter_connector_offsets(name, moved, **more)


@pytest.fixture
def herder():
    return StubbornHerder()


@pytest.fixture
def connect(herder, monkeypatch, capsys, tmp_path):
    """Run `connect ARGS` on one connector, lines-in, at position 14; gives code, stdout, stderr."""
    herder.put_connector("lines-in", file_source(name="lines-in"), replace=False)
    herder.set_target_state("lines-in", TargetState.STOPPED)
    herder.alter_connector_offsets("lines-in", [ConnectorOffset(PARTITION, {"position": 14})])
    herder.set_target_state("lines-in", TargetState.STARTED)
    with RestServer(herder, ["http://127.0.0.1:0"]) as server:
        monkeypatch.setenv("KCONNECT_URL", server.urls[0])
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setenv("COLUMNS", "200")

        def call(*args, stdin=""):
            monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
            code = run(args)
            out, err = capsys.readouterr()
            return code, out, err

        yield call


def offsets_text(position):
    return json.dumps({"offsets": [{"partition": PARTITION, "offset": {"position": position}}]})


def position(herder):
    (item,) = herder.connector_offsets("lines-in")
    return item.offset["position"]


def states(herder):
    return [arguments[-1] for method, *arguments in herder.calls if method == "set_target_state"]


@contextmanager
def stopped(connect):
    assert connect("connectors", "stop", "lines-in")[0] == 0
    yield
    assert connect("connectors", "resume", "lines-in")[0] == 0


def test_a_change_is_taken_back_and_an_undo_too(connect, herder):
    with stopped(connect):
        assert connect("offsets", "alter", "lines-in", "-f", "-", "--yes", stdin=offsets_text(8))[0] == 0
        assert position(herder) == 8
        assert connect("offsets", "undo", "lines-in", "--yes")[0] == 0
        assert position(herder) == 14
        assert connect("offsets", "undo", "lines-in", "--yes")[0] == 0
        assert position(herder) == 8
    code, out, _ = connect("offsets", "history", "lines-in", "-o", "json")
    assert code == 0
    changes = [(entry["action"], *entry["offsets"][0].values()) for entry in json.loads(out)]
    assert changes == [
        ("alter", PARTITION, {"position": 14}, {"position": 8}),
        ("undo", PARTITION, {"position": 8}, {"position": 14}),
        ("undo", PARTITION, {"position": 14}, {"position": 8}),
    ]
    rows = connect("offsets", "history", "lines-in")[1].splitlines()
    assert rows[0].split() == ["TIME", "WHO", "ACTION", "PARTITION", "OLD", "NEW"]
    assert rows[1].split()[-4:] == ["alter", '{"filename":"/in"}', '{"position":14}', '{"position":8}']


def test_a_reset_is_taken_back(connect, herder):
    with stopped(connect):
        assert connect("offsets", "reset", "lines-in", "--yes")[0] == 0
        assert herder.connector_offsets("lines-in") == []
        assert connect("offsets", "undo", "lines-in", "--yes")[0] == 0
        assert position(herder) == 14


def test_an_undo_of_offsets_that_have_changed_since_is_refused_with_the_difference(connect, herder):
    with stopped(connect):
        connect("offsets", "alter", "lines-in", "-f", "-", "--yes", stdin=offsets_text(8))
        herder.alter_connector_offsets("lines-in", [ConnectorOffset(PARTITION, {"position": 11})])
        code, _, err = connect("offsets", "undo", "lines-in", "--yes")
        assert code == 4
        assert '{"filename":"/in"} is at {"position":11}, not at {"position":8}' in err
        assert position(herder) == 11
        assert connect("offsets", "undo", "lines-in", "--yes", "--force")[0] == 0
        assert position(herder) == 14


def test_a_dry_run_and_a_refused_change_are_not_kept(connect, herder):
    with stopped(connect):
        assert connect("offsets", "alter", "lines-in", "-f", "-", "--dry-run", stdin=offsets_text(8))[0] == 0
        herder.refusal = ConnectError("no")
        assert connect("offsets", "alter", "lines-in", "-f", "-", "--yes", stdin=offsets_text(8))[0] == 1
        herder.refusal = None
        code, _, err = connect("offsets", "undo", "lines-in", "--yes")
        assert code == 3
        assert "No change of lines-in's offsets is known" in err


def test_a_running_connector_is_stopped_moved_and_resumed(connect, herder):
    herder.calls.clear()
    code, _, err = connect("offsets", "move", "lines-in", "-f", "-", "--yes", stdin=offsets_text(8))
    assert code == 0, err
    assert (position(herder), states(herder)) == (8, [TargetState.STOPPED, TargetState.STARTED])
    assert err.splitlines()[-1] == "resumed lines-in"
    assert json.loads(connect("offsets", "history", "lines-in", "-o", "json")[1])[-1]["action"] == "move"


def test_a_move_of_a_running_connector_is_taken_back_in_one_go(connect, herder):
    assert connect("offsets", "move", "lines-in", "-f", "-", "--yes", stdin=offsets_text(8))[0] == 0
    herder.calls.clear()
    code, _, err = connect("offsets", "undo", "lines-in", "--yes")
    assert code == 0, err
    assert (position(herder), states(herder)) == (14, [TargetState.STOPPED, TargetState.STARTED])
    assert json.loads(connect("offsets", "history", "lines-in", "-o", "json")[1])[-1]["action"] == "undo"


@pytest.mark.parametrize(
    ("now", "is_refused"),
    [({"kafka_offset": 8}, False), ({"kafka_offset": 20}, False), ({"kafka_offset": 7}, True), (None, True)],
)
def test_a_sink_that_read_on_since_its_move_is_moved_back_and_one_that_was_moved_again_is_not(now, is_refused):
    place = {"kafka_topic": "t", "kafka_partition": 0}
    moved = moved_offsets([ConnectorOffset(place, {"kafka_offset": 14})], [ConnectorOffset(place, {"kafka_offset": 8})])
    entry = OffsetEntry(0, "move", "http://w", moved)
    with pytest.raises(ConflictError, match="have changed since") if is_refused else nullcontext():
        entry.check_running("out", [ConnectorOffset(place, now)], otherwise="")


@pytest.mark.parametrize("before", [TargetState.PAUSED, TargetState.STOPPED])
def test_a_connector_that_did_not_run_does_not_run_afterwards(connect, herder, before):
    herder.set_target_state("lines-in", before)
    assert connect("offsets", "move", "lines-in", "-f", "-", "--yes", stdin=offsets_text(8))[0] == 0
    assert (position(herder), herder.known["lines-in"].state) == (8, before)


def test_a_move_that_is_refused_leaves_all_as_it_was(connect, herder):
    herder.calls.clear()
    herder.refusal = ConnectError("the offsets topic is away")
    code, _, err = connect("offsets", "move", "lines-in", "-f", "-", "--yes", stdin=offsets_text(8))
    assert code == 1
    assert "the offsets topic is away" in err
    assert (position(herder), states(herder)[-1]) == (14, TargetState.STARTED)
    assert json.loads(connect("offsets", "history", "lines-in", "-o", "json")[1]) == []


def test_offsets_that_are_not_as_they_were_written_are_restored(connect, herder):
    herder.shift = 3
    code, _, err = connect("offsets", "move", "lines-in", "-f", "-", "--yes", stdin=offsets_text(8))
    assert code == 4
    assert '{"filename":"/in"} is at {"position":11} and not at {"position":8}' in err
    assert "lines-in: the offsets are as before." in err
    assert (position(herder), herder.known["lines-in"].state) == (14, TargetState.STARTED)


def test_a_connector_that_no_worker_has_is_not_moved_as_its_state_is_not_known(connect, herder, monkeypatch):
    herder.set_target_state("lines-in", TargetState.PAUSED)
    there = herder.connector_status
    nowhere = ConnectorState(RunState.UNASSIGNED, herder.worker_id)
    monkeypatch.setattr(herder, "connector_status", lambda name: replace(there(name), connector=nowhere))
    before = states(herder)
    code, _, err = connect("offsets", "move", "lines-in", "-f", "-", "--yes", stdin=offsets_text(8))
    assert (code, "lines-in is UNASSIGNED: no worker has it" in err) == (4, True), err
    assert states(herder) == before
    assert position(herder) == 14


def test_a_dry_run_of_a_move_stops_nothing(connect, herder):
    herder.calls.clear()
    code, _, err = connect("offsets", "move", "lines-in", "-f", "-", "--dry-run", stdin=offsets_text(8))
    assert (code, states(herder)) == (0, [])
    assert '{"position":14}' in err
    assert '{"position":8}' in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("move", "lines-in"), "Missing the new offsets"),
        (("move", "lines-in", "-f", "x.json", "--to-latest"), "--file cannot be combined with a target"),
        (("reset", "lines-in", "--to-latest", "--shift-by", "1"), "--to-latest cannot be combined with --shift-by"),
        (("reset", "lines-in", "--topic", "t"), "--topic and --partition need a target"),
        (("reset", "lines-in", "--to-time", "noon"), "--to-time noon is not a time"),
        (("reset", "lines-in", "--bootstrap-servers", "b:1"), "only valid with --direct"),
    ],
)
def test_options_that_are_incompatible_are_refused(connect, arguments, message):
    code, _, err = connect("offsets", *arguments)
    assert code == 2
    assert message in err


def test_a_target_needs_brokers_or_a_worker_that_asks_them(connect):
    code, _, err = connect("offsets", "reset", "lines-in", "--to-time", "2h")
    assert code == 1
    assert "does not read Kafka for others: it is one of Java's" in err
    assert err.endswith("--worker FILE or --bootstrap-servers asks Kafka itself.\n")
    for command in (("cluster", "members"), ("topics", "doctor"), ("config", "history", "lines-in")):
        assert connect(*command)[2].endswith("Hint: --worker FILE asks Kafka itself.\n"), "names are not known"
    _, _, err = connect("offsets", "reset", "lines-in", "--to-time", "9999-01-01")
    assert err.startswith("--to-time 9999-01-01 is in the future: whatever is there now comes before it.\n")


def test_only_the_owner_reads_the_history_and_a_hundred_changes_are_kept(tmp_path):
    history = OffsetHistory("cluster/1", tmp_path)
    moved = moved_offsets([], [ConnectorOffset(PARTITION, {"position": 1})])
    for number in range(103):
        history.add("a/../b", OffsetEntry(number, "alter", "http://w:1", moved))
    assert [entry.time_ms for entry in history.entries("a/../b")] == list(range(3, 103))
    assert history.entries("a/../c") == []
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.parent.parent == tmp_path


def test_a_damaged_history_names_file_and_line(tmp_path):
    history = OffsetHistory("cluster", tmp_path)
    history.add("c", OffsetEntry(1, "alter", "w", ()))
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_text(file.read_text() + "{}\n")
    with pytest.raises(ConnectError, match=rf"{file.name}, line 2, is not a change of offsets"):
        history.entries("c")

"""`-l` wherever connectors are selected, and `connectors apply -l`, `--prune` and `--wait`."""

from __future__ import annotations

import json

import pytest

from kconnect.model import TargetState
from kconnect.runtime.config.labels import LABELS
from kit.memory_herder import file_source
from kit.pace import ample_text
from kit.waiting import eventually


def write(folder, name, labels="", **more):
    folder.mkdir(exist_ok=True)
    config = file_source(**({LABELS: labels} if labels else {}))
    (folder / f"{name}.json").write_text(json.dumps({"name": name, "config": config, **more}))
    return str(folder)


@pytest.fixture
def herder(herder):
    """Besides orders and lines, which have no labels: ours, theirs."""
    for name, labels in (("ours", "team=x,env=prod"), ("theirs", "team=y")):
        herder.put_connector(name, file_source(name=name, **{LABELS: labels}), replace=False)
    return herder


def test_list_shows_labels_and_takes_a_selector(connect):
    code, out, err = connect("connectors", "list", "-l", "team=x")
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["NAME", "TYPE", "STATE", "TASKS", "LABELS"],
        ["ours", "source", "RUNNING", "1", "RUNNING", "env=prod,team=x"],
    ]
    assert connect("connectors", "list", "-l", "team!=x", "-o", "name")[1] == "lines\norders\ntheirs\n"
    rows = json.loads(connect("connectors", "list", "--show-labels", "-o", "json")[1])
    assert [row["labels"] for row in rows] == [{}, {}, {"team": "x", "env": "prod"}, {"team": "y"}]
    assert "has labels team=z.\n" in connect("connectors", "list", "-l", "team=z")[2]
    assert "labels" not in json.loads(connect("connectors", "list", "-o", "json")[1])[0]


def test_show_has_labels_and_apply_takes_it_back(connect, tmp_path):
    assert connect("connectors", "show", "ours")[1].splitlines()[1] == "labels  env=prod,team=x"
    shown = connect("connectors", "show", "-l", "team", "-o", "json")[1]
    assert [row["labels"] for row in json.loads(shown)] == [{"team": "x", "env": "prod"}, {"team": "y"}]
    (tmp_path / "shown.json").write_text(shown)
    assert connect("connectors", "apply", str(tmp_path / "shown.json"))[2] == "unchanged ours\nunchanged theirs\n"


def test_every_command_that_selects_takes_labels(connect, herder):
    assert connect("connectors", "pause", "-l", "team=x")[::2] == (0, "paused ours\n")
    assert herder.known["ours"].state is TargetState.PAUSED
    assert connect("connectors", "wait", "-l", "team=y", "--timeout", ample_text(10))[::2] == (0, "theirs is RUNNING\n")
    assert connect("connectors", "status", "-l", "env", "-o", "name")[1].split() == ["ours", "ours"]
    assert connect("tasks", "list", "-l", "team=y", "-o", "name")[1] == "theirs\n"
    assert connect("connectors", "watch", "--once", "-l", "team=y")[0] == 0
    assert connect("tasks", "restart", "-l", "team=y")[2] == "restarted theirs task 0\n"
    code, _, err = connect("connectors", "resume", "-l", "team=z")
    assert (code, "has labels team=z." in err) == (0, True)


@pytest.mark.parametrize("args", [("ours", "-l", "team"), ("-l", ""), ("-l", "team in (x)")])
def test_a_selector_that_makes_no_sense_is_a_usage_problem(connect, herder, args):
    herder.calls.clear()
    code, _, err = connect("connectors", "pause", *args)
    assert (code, "--labels" in err, "Hint: " in err) == (2, True, True)
    assert herder.calls == []


def test_delete_takes_labels_but_not_the_lack_of_them(connect, herder):
    code, _, err = connect("connectors", "delete", "--yes", "-l", "team!=x")
    assert code == 2
    assert "--labels team!=x would also delete connectors without labels" in err
    assert len(herder.known) == 4
    assert connect("connectors", "delete", "--yes", "-l", "team=x")[::2] == (0, "deleted ours\n")
    assert sorted(herder.known) == ["lines", "orders", "theirs"]


def test_labels_that_cannot_be_read_are_matched_by_no_selector_and_reported(connect, herder):
    herder.known["orders"].config[LABELS] = "team:x"
    code, out, err = connect("connectors", "list", "-l", "team!=x", "-o", "name")
    assert (code, out) == (0, "lines\ntheirs\n")
    assert err == f"Warning: {LABELS} of orders is not key=value pairs, so no selector matches.\n"


def test_apply_with_labels_applies_those_files_and_prunes_those_connectors(connect, herder, tmp_path):
    herder.put_connector("moved", file_source(name="moved", **{LABELS: "team=x"}), replace=False)
    folder = write(tmp_path / "files", "fresh", "team=x")
    write(tmp_path / "files", "moved", "team=y")
    write(tmp_path / "files", "lines")
    apply = ("connectors", "apply", folder, "-l", "team=x", "--prune")
    code, out, err = connect(*apply, "--dry-run", "-o", "json")
    assert code == 7
    assert [(change["name"], change["action"]) for change in json.loads(out)] == [
        ("fresh", "create"),
        ("ours", "delete"),
    ]
    assert [line.partition(":")[0] for line in err.splitlines()] == ["skipped lines", "skipped moved"]
    code, _, err = connect(*apply, "--yes")
    assert (code, err.splitlines()[2:]) == (0, ["created fresh", "deleted ours"])
    assert sorted(herder.known) == ["fresh", "lines", "moved", "orders", "theirs"]
    assert herder.known["moved"].config[LABELS] == "team=x"


def test_a_file_with_labels_that_cannot_be_read_is_warned_of_or_refused(connect, herder, tmp_path):
    folder = write(tmp_path / "files", "fresh", "team:x")
    warning = f"fresh: {LABELS}: team:x is not key=value. For example: team=x,env=prod"
    code, _, err = connect("connectors", "apply", folder, "--strict")
    assert (code, err) == (1, f"{warning}\nHint: Nothing was written. Without --strict these are warnings.\n")
    code, _, err = connect("connectors", "apply", folder, "-l", "team=x")
    assert (code, f"{LABELS} of fresh: team:x is not key=value" in err) == (1, True)
    assert "fresh" not in herder.known
    assert connect("connectors", "apply", folder)[::2] == (0, f"Warning: {warning}\ncreated fresh\n")


def test_labels_are_completed(connect):
    found = eventually(lambda: connect("complete", "--", "connectors", "list", "-l", "t")[1], why="labels are offered")
    assert found == "team=x\t1 connector\nteam=y\t1 connector\n"


def test_prune_needs_a_label_that_is_there_and_files_that_have_it(connect, herder, tmp_path):
    folder = write(tmp_path / "files", "fresh", "team=x")
    code, _, err = connect("connectors", "apply", folder, "--prune", "--yes", "-l", "team!=y")
    assert (code, "would also delete connectors without labels" in err) == (2, True)
    code, _, err = connect("connectors", "apply", folder, "--prune", "--yes", "-l", "team=y")
    assert (code, "No file has labels that team=y matches" in err) == (2, True)
    assert connect("connectors", "apply", folder, "--prune", "--yes", "-l", "team", "--prefix", "th")[0] == 0
    assert sorted(herder.known) == ["fresh", "lines", "orders", "ours"]


def test_apply_waits_until_everything_runs_and_what_is_stopped_does_not_have_to(connect, herder, tmp_path):
    folder = write(tmp_path / "files", "fresh")
    write(tmp_path / "files", "halted", initial_state="STOPPED")
    code, out, err = connect("connectors", "apply", folder, "--wait", "-o", "json")
    assert (code, err) == (0, "created fresh\ncreated halted\nfresh is RUNNING\nhalted is STOPPED\n")
    assert [change["action"] for change in json.loads(out)] == ["create", "create"]


def test_apply_gives_up_waiting_at_once_for_what_failed_and_at_the_deadline_for_what_does_not_start(
    connect, herder, tmp_path
):
    folder = write(tmp_path / "files", "ours", "team=x,env=prod")
    herder.traces["ours"] = "java.lang.IllegalStateException: Boom"
    code, out, err = connect("connectors", "apply", folder, "--wait", "-o", "json")
    assert (code, [change["action"] for change in json.loads(out)]) == (7, ["unchanged"])
    assert "ours task 0 FAILED: " in err
    herder.traces.clear()
    herder.unassigned.add("ours")
    code, _, err = connect("connectors", "apply", folder, "--wait", "--timeout", "200ms")
    assert (code, "Not RUNNING within 0.2 s: ours is RUNNING, task 0 UNASSIGNED" in err) == (6, True)
    assert connect("connectors", "apply", folder, "--timeout", "1s")[0] == 2

"""`connect connectors` and `connect offsets` against a REST server over a herder in memory."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from kconnect.model import ConnectorOffset, TargetState
from kconnect_cli.app import app
from kit.memory_herder import file_source
from kit.pace import ample_s
from kit.ports import free_port


def test_list_is_an_aligned_table(connect):
    code, out, _ = connect("connectors", "list")
    assert code == 0
    assert out == (
        "NAME     TYPE     STATE     TASKS\n"
        "lines    source   RUNNING   1 RUNNING\n"
        "orders   source   RUNNING   1 RUNNING\n"
    )


@pytest.mark.parametrize("args", [("-o", "json", "connectors", "list"), ("connector", "list", "--output", "json")])
def test_list_as_json_before_the_noun_or_after_the_verb(connect, args):
    rows = json.loads(connect(*args)[1])
    assert [list(row) for row in rows] == [["name", "type", "state", "tasks"]] * 2
    assert rows[0]["tasks"] == [{"id": 0, "state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "4.3.0"}]


def test_list_as_yaml_and_names(connect):
    as_json = json.loads(connect("connectors", "list", "-o", "json")[1])
    assert yaml.safe_load(connect("connectors", "list", "-o", "yaml")[1]) == as_json
    assert connect("connectors", "list", "-o", "name")[1] == "lines\norders\n"


def test_an_empty_list_is_an_empty_json_array(connect, herder):
    herder.known.clear()
    assert connect("connectors", "list", "-o", "json")[1] == "[]\n"
    _, out, err = connect("connectors", "list")
    assert out == "NAME   TYPE   STATE   TASKS\n"
    assert err.startswith("No connectors at http://")


def test_show_gives_one_object_for_one_name_and_a_list_for_more(connect):
    shown = json.loads(connect("connectors", "show", "orders", "-o", "json")[1])
    assert list(shown) == ["name", "type", "state", "config", "tasks"]
    assert shown["config"]["topic"] == "t"
    assert len(json.loads(connect("connectors", "show", "orders", "lines", "-o", "json")[1])) == 2
    assert "  topic = t\n" in connect("connectors", "show", "orders")[1]


def test_connectors_are_created_with_offsets(connect, herder, tmp_path):
    for name in ("new", "newer"):
        text = "".join(f"{key}={value}\n" for key, value in file_source().items())
        (tmp_path / f"{name}.properties").write_text(f"name={name}\n{text}")
    files = [str(tmp_path / f"{name}.properties") for name in ("new", "newer")]
    one = {"offsets": [{"partition": {"filename": "/x"}, "offset": {"position": 7}}]}
    offsets = tmp_path / "offsets.json"
    offsets.write_text(json.dumps(one))
    assert connect("connectors", "create", files[0], "--offsets", str(offsets))[:2] == (0, "")
    assert json.loads(connect("offsets", "show", "new", "-o", "json")[1]) == one
    code, _, err = connect("connectors", "create", *files, "--offsets", str(offsets))
    assert (code, "newer" in herder.known) == (2, False)
    assert "holds offsets of one connector but does not name it" in err


def test_states_change_for_all_names_and_the_talk_is_on_stderr(connect, herder):
    for verb, said, state in (
        ("pause", "paused", TargetState.PAUSED),
        ("resume", "resumed", TargetState.STARTED),
        ("stop", "stopped", TargetState.STOPPED),
    ):
        code, out, err = connect("connectors", verb, "orders", "lines")
        assert (code, out, err) == (0, "", f"{said} orders\n{said} lines\n")
        assert {connector.state for connector in herder.known.values()} == {state}


def test_a_missing_connector_does_not_keep_the_others_and_names_are_suggested(connect, herder):
    code, _, err = connect("connectors", "pause", "order", "lines")
    assert code == 3
    assert err == "Unknown connector order\nHint: Did you mean orders?\npaused lines\n"
    assert herder.known["lines"].state is TargetState.PAUSED


def test_a_name_like_no_other_lists_what_is_there(connect):
    _, _, err = connect("connectors", "show", "zzz")
    assert "Connector zzz not found" in err
    assert "has these connectors: lines, orders" in err


def test_restart_alone_with_tasks_and_one_task(connect, herder):
    herder.calls.clear()
    assert connect("connectors", "restart", "orders")[0] == 0
    assert ("restart_connector", "orders") in herder.calls
    herder.calls.clear()
    for option in ("--tasks", "--include-tasks"):
        herder.calls.clear()
        assert connect("connectors", "restart", "orders", option)[0] == 0
        assert ("restart_by_plan", "orders", True, False) in herder.calls
    code, _, err = connect("connectors", "restart", "orders", "--task", "7")
    assert (code, err) == (3, "Task orders-7 not found\n")
    assert connect("connectors", "restart", "orders", "--task", "0", "--tasks")[0] == 2


def test_create_from_files_of_each_kind(connect, herder, tmp_path):
    base = {"connector.class": "FileStreamSource", "topic": "t"}
    (tmp_path / "a.properties").write_text("name=a\nconnector.class=FileStreamSource\ntopic=t\n")
    (tmp_path / "b.json").write_text(json.dumps({"name": "b", "config": base, "initial_state": "PAUSED"}))
    (tmp_path / "c.toml").write_text('name = "c"\n"connector.class" = "FileStreamSource"\ntopic = "t"\n')
    code, _, err = connect("connectors", "create", *(str(tmp_path / f) for f in ("a.properties", "b.json", "c.toml")))
    assert (code, err) == (0, "created a\ncreated b\ncreated c\n")
    assert herder.known["b"].state is TargetState.PAUSED
    assert herder.known["a"].state is TargetState.STARTED


def test_create_takes_what_show_prints(connect, herder, tmp_path):
    shown = connect("connectors", "show", "orders", "-o", "json")[1]
    path = tmp_path / "copy.json"
    path.write_text(shown.replace('"orders"', '"copy"'))
    assert connect("connectors", "create", "-f", str(path))[0] == 0
    assert herder.known["copy"].config["topic"] == "t"


def test_create_of_a_taken_name_is_a_conflict(connect, tmp_path):
    path = tmp_path / "orders.json"
    path.write_text(json.dumps({"name": "orders", "config": file_source()}))
    assert connect("connectors", "create", str(path))[::2] == (
        4,
        "Connector orders already exists\nHint: connect connectors apply -f FILE changes an existing one.\n",
    )


def test_create_without_a_file_or_with_one_that_is_not_there(connect, tmp_path):
    assert connect("connectors", "create")[0] == 2
    code, _, err = connect("connectors", "create", str(tmp_path / "no.json"))
    assert code == 3
    assert "no.json" in err


def test_delete_asks_and_without_a_terminal_refuses(connect, herder):
    code, _, err = connect("connectors", "delete", "orders")
    assert code == 2
    assert err.endswith("Hint: Add --yes to do it.\n")
    assert "orders" in herder.known
    assert connect("connectors", "delete", "orders", "--yes")[::2] == (0, "deleted orders\n")
    assert "orders" not in herder.known


def test_offsets_shown_as_json_are_taken_by_alter(connect, herder, tmp_path):
    herder.known["orders"].offsets["k"] = ConnectorOffset({"filename": "/ü"}, {"position": 12})
    herder.set_target_state("orders", TargetState.STOPPED)
    shown = connect("offsets", "show", "orders", "-o", "json")[1]
    assert json.loads(shown) == {"offsets": [{"partition": {"filename": "/ü"}, "offset": {"position": 12}}]}
    path = tmp_path / "offsets.json"
    path.write_text(shown.replace("12", "7"))
    code, out, err = connect("offsets", "alter", "orders", "-f", str(path), "--yes")
    assert (code, out) == (0, "")
    assert '{"filename":"/ü"}   {"position":12}   {"position":7}' in err
    assert "altered successfully" in err


def test_alter_reads_stdin_and_a_dry_run_changes_nothing(connect, herder, monkeypatch):
    herder.set_target_state("orders", TargetState.STOPPED)
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"offsets": [{"partition": {"a": 1}, "offset": {"b": 2}}]}'))
    code, _, err = connect("offset", "alter", "orders", "-f", "-", "--dry-run")
    assert code == 0
    assert err.endswith("Dry run: nothing was changed.\n")
    assert herder.known["orders"].offsets == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("3", "Expected a JSON object"),
        ('{"offsets": [1]}', "offsets[0] must be an object"),
        ('[{"offsets": []}]', '[0] must be an object {"name"'),
        ('[{"name": "orders", "offsets": [1]}]', "[0] (orders): offsets[0] must be an object"),
        ('[{"name": "a", "offsets": []}, {"name": "a", "offsets": []}]', "[1]: a appears twice"),
    ],
)
def test_alter_names_the_file_and_the_place_that_is_wrong(connect, tmp_path, text, said):
    path = tmp_path / "offsets.json"
    path.write_text(text)
    code, _, err = connect("offsets", "alter", "orders", "-f", str(path), "--yes")
    assert code == 1
    assert err.startswith(str(path))
    assert said in err


@pytest.fixture
def two_with_offsets(herder):
    for name, position in (("orders", 12), ("lines", 5)):
        offset = ConnectorOffset({"filename": f"/{name}"}, {"position": position})
        herder.known[name].offsets[("filename", f"/{name}"),] = offset
        herder.set_target_state(name, TargetState.STOPPED)
    return herder


def positions(herder):
    return {name: [o.offset["position"] for o in known.offsets.values()] for name, known in herder.known.items()}


@pytest.mark.parametrize("chosen", [("orders", "lines"), ("--all",), ("-e", ".*"), ("--all", "--state", "STOPPED")])
def test_offsets_of_several_connectors_are_taken_by_alter_as_shown(connect, two_with_offsets, tmp_path, chosen):
    shown = connect("offsets", "show", *chosen, "-o", "json")[1]
    assert {item["name"]: item["offsets"][0]["offset"] for item in json.loads(shown)} == {
        "orders": {"position": 12},
        "lines": {"position": 5},
    }
    path = tmp_path / "offsets.json"
    path.write_text(shown)
    assert connect("offsets", "reset", *chosen, "--yes")[0] == 0
    assert positions(two_with_offsets) == {"orders": [], "lines": []}
    code, _, err = connect("offsets", "alter", "-f", str(path), "--yes")
    assert (code, positions(two_with_offsets)) == (0, {"orders": [12], "lines": [5]})
    assert '{"filename":"/lines"}   -     {"position":5}' in err
    assert connect("offsets", "show", *chosen, "-o", "json")[1] == shown


def test_alter_takes_only_the_named_ones_of_a_file_and_never_anothers(connect, two_with_offsets, tmp_path):
    path = tmp_path / "offsets.json"
    path.write_text(connect("offsets", "show", "--all", "-o", "json")[1].replace("12", "7").replace("5", "6"))
    assert connect("offsets", "alter", "lines", "-f", str(path), "--yes")[0] == 0
    assert positions(two_with_offsets) == {"orders": [12], "lines": [6]}
    code, _, err = connect("offsets", "alter", "other", "-f", str(path), "--yes")
    assert (code, err) == (2, f"{path} has no offsets of other\nHint: It has those of lines, orders.\n")
    path.write_text(connect("offsets", "show", "lines", "-o", "json")[1])
    for names in ((), ("lines", "orders")):
        code, _, err = connect("offsets", "alter", *names, "-f", str(path), "--yes")
        assert (code, "does not name it" in err) == (2, True)
    assert positions(two_with_offsets) == {"orders": [12], "lines": [6]}


def test_offsets_of_several_are_one_table_and_names(connect, two_with_offsets):
    assert connect("offsets", "show", "lines", "orders")[1] == (
        "NAME     PARTITION                OFFSET\n"
        'lines    {"filename":"/lines"}    {"position":5}\n'
        'orders   {"filename":"/orders"}   {"position":12}\n'
    )
    assert connect("offsets", "show", "--all", "-o", "name")[1] == "lines\norders\n"


def test_reset_of_several_goes_on_past_one_that_is_not_stopped(connect, two_with_offsets):
    two_with_offsets.set_target_state("orders", TargetState.STARTED)
    code, _, err = connect("offsets", "reset", "orders", "lines", "--yes")
    assert (code, positions(two_with_offsets)) == (1, {"orders": [12], "lines": []})
    assert "Hint: Stop it first" in err


def test_reset_of_a_running_connector_says_how_to_stop_it(connect):
    code, _, err = connect("offsets", "reset", "orders", "--yes")
    assert code == 1
    assert err.endswith("Hint: Stop it first: connect connectors stop orders\n")


def test_reset_forgets_all_offsets(connect, herder):
    herder.known["orders"].offsets["k"] = ConnectorOffset({"filename": "/x"}, {"position": 12})
    herder.set_target_state("orders", TargetState.STOPPED)
    assert connect("offsets", "reset", "orders")[0] == 2
    assert connect("offsets", "reset", "orders", "--dry-run")[0] == 0
    assert len(herder.known["orders"].offsets) == 1
    assert connect("offsets", "reset", "orders", "--yes")[0] == 0
    assert herder.known["orders"].offsets == {}
    assert connect("offsets", "show", "orders")[1:] == ("PARTITION   OFFSET\n", "orders has no committed offsets.\n")


def test_url_of_the_command_wins_over_the_root_and_the_environment(connect, monkeypatch, url):
    monkeypatch.setenv("KCONNECT_URL", f"http://127.0.0.1:{free_port()}")
    assert connect("connectors", "list")[0] == 5
    assert connect("--url", url, "connectors", "list")[0] == 0
    assert connect("connectors", "list", "--url", url)[0] == 0


def test_nobody_at_the_url_is_one_sentence_one_hint_and_code_5(connect):
    code, out, err = connect("connectors", "list", "--url", f"http://127.0.0.1:{free_port()}")
    assert (code, out) == (5, "")
    assert [line.split(" ")[0] for line in err.splitlines()] == ["Nobody", "Hint:"]


def test_verbose_shows_the_trace(connect):
    assert "Traceback" not in connect("connectors", "show", "zzz")[2]
    assert "Traceback" in connect("connectors", "show", "zzz", "--verbose")[2]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("conectors",), "No such command 'conectors'. Did you mean: connect connectors?"),
        (("connectors", "lst"), "No such command 'lst'. Did you mean: connect connectors list?"),
        (("pause",), "No such command 'pause'. Did you mean: connect connectors pause?"),
        (("get", "connector", "orders"), "Did you mean: connect connectors list, connect connectors show?"),
        (("connector", "get"), "Did you mean: connect connectors list, connect connectors show?"),
        (("doctor",), "Did you mean: connect topics doctor?"),
        (("topics", "config", "patch"), "Did you mean: connect topics config put"),
        (("config", "get"), "Missing argument 'NAME'."),
        (("connectors", "list", "-o", "xml"), "'xml' is not one of table, json, yaml, name"),
        (("connectors", "restart", "a", "--task", "x"), "'x' is not a whole number"),
        (("cluster", "rebalances", "--limit", "0"), "Invalid value for '--limit': must be at least 1, not 0"),
        (("broker", "start", "--port", "65536"), "Invalid value for '--port': must be at most 65535, not 65536"),
        (("connectors", "list", "--nope"), "No such option: --nope"),
    ],
)
def test_a_wrong_command_line_is_code_2_with_a_hint(connect, args, said):
    code, out, err = connect(*args)
    assert (code, out) == (2, "")
    assert said in err
    assert "--help shows its options." in err or "--help lists the commands." in err


def test_an_option_before_the_command_that_takes_it_is_code_2_and_names_the_command(connect):
    code, out, err = connect("connectors", "--only-failed", "restart", "a")
    assert (code, out) == (2, "")
    assert err == "No such option: --only-failed\nHint: connect connectors restart takes --only-failed.\n"


def test_a_trial_takes_times_as_other_commands_do(connect):
    code, out, err = connect("try", "x", "--timeout", "soon")
    assert (code, out, err) == (2, "", "--timeout soon is not a duration\nHint: Examples: 500ms, 60s, 2m, 1h, 7d.\n")


def test_help_names_no_types_of_python_and_no_option_without_a_word_for_its_value(connect):
    for path in commands_below(get_command(app), ()):
        out = connect(*path, "--help")[1]
        for internal in ("<", " TEXT", " NUMBER..", "True", "False", "None", "[[", "x>="):
            assert internal not in re.sub(r"source <\(connect", "", out), f"{internal} in help of {' '.join(path)}"


@pytest.mark.parametrize(
    "group", ["connectors", "tasks", "config", "offsets", "cluster", "loggers", "contexts", "broker", "plugins"]
)
def test_the_line_of_a_group_lists_commands_that_it_has(connect, group):
    line = next(line for line in connect("--help")[1].splitlines() if line.startswith(f"  {group} "))
    words = set(re.findall(r"[a-z-]+", line.lower().removeprefix(f"  {group} ")))
    has = set(get_command(app).get_command(None, group).commands)
    assert len(words & has) >= min(len(has), 4), f"{line}: of {sorted(has)}"
    verbs = {"watch", "describe", "start", "stop", "list", "show", "get", "set", "edit", "delete", "create", "add"}
    assert not (words & verbs) - has, line


def commands_below(command, path):
    yield path
    for name in getattr(command, "commands", ()):
        yield from commands_below(command.get_command(None, name), (*path, name))


# What a command may load from outside the standard library: each of these is there because the bench of commands
# (`make bench BENCH="--cases commands"`) has it within 0.35 s. Loading more is a decision, not an accident.
_MAY_LOAD = {"kconnect", "kconnect_cli", "typer", "annotated_doc", "shellingham", "platformdirs", "orjson", "tomli"}
_PROBE = """
import sys
before = set(sys.modules)
from kconnect_cli.app import run
code = run(sys.argv[1:])
loaded = {name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print("LOADED", *sorted(loaded))
heavy = ("asyncio", "unittest", "multiprocessing", "xml.etree", "kconnect.runtime.herder")
print("HEAVY", *[name for name in heavy if name in sys.modules])
sys.exit(code)
"""


def loaded_by(
    *args: str, env: dict[str, str] | None = None, cwd: Path | None = None, expect: int = 0
) -> tuple[set[str], str]:
    """What a command loads from outside the standard library, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, *args],
        capture_output=True,
        text=True,
        timeout=ample_s(60),
        check=False,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )
    assert done.returncode == expect, done.stderr
    *printed, loaded, heavy = done.stdout.splitlines()
    assert heavy == "HEAVY"
    # A library that is compiled with mypyc has a second module, named by a hash
    return {name for name in loaded.split()[1:] if not name.endswith("__mypyc")}, "\n".join(printed) + "\n"


@pytest.mark.parametrize("command", ["show", "members", "leader", "rebalances"])
def test_a_look_at_a_cluster_that_is_refused_loads_nothing_that_asks_brokers(command):
    asked = ("cluster", command, "--bootstrap-servers", f"127.0.0.1:{free_port()}", "--group-id", "g")
    loaded, printed = loaded_by(*asked, expect=5)
    assert (loaded - _MAY_LOAD, printed) == (set(), "\n")


def test_help_lists_every_command_without_importing_them():
    loaded, printed = loaded_by("--help")
    assert loaded <= _MAY_LOAD
    for name in ("quickstart", "standalone", "connectors", "offsets", "broker"):
        assert f"\n  {name}  " in printed


@pytest.mark.parametrize(
    "args",
    [
        ["connectors", "list"],
        ["connectors", "list", "-o", "json"],
        ["connectors", "show", "orders"],
        ["config", "get", "orders"],
        ["tasks", "list", "orders"],
        ["connectors", "apply", "-f", "orders.properties", "--dry-run"],
        ["contexts", "list"],
        ["offsets", "alter", "orders", "-f", "offsets.json", "--dry-run"],
    ],
)
def test_an_admin_command_loads_little(url, herder, args, tmp_path):
    (tmp_path / "orders.properties").write_text(
        "".join(f"{key}={value}\n" for key, value in {**file_source(), "name": "orders"}.items())
    )
    (tmp_path / "offsets.json").write_text('{"offsets": []}')
    loaded, _ = loaded_by(*args, env={"KCONNECT_URL": url}, cwd=tmp_path)
    assert loaded <= _MAY_LOAD


@pytest.mark.parametrize("args", [["connectors", "list"], ["--help"]])
def test_a_reader_that_goes_away_leaves_no_trace(url, args):
    command = [str(Path(sys.executable).with_name("connect")), *args]
    env = {**os.environ, "KCONNECT_URL": url}
    reader, writer = os.pipe()
    os.close(reader)  # before it starts: it has nobody to write to
    try:
        done = subprocess.run(
            command, env=env, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=ample_s(30), check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")

"""What a person is reported of a worker's answers: misspelt settings, unknown classes, connectors that do not start."""

from __future__ import annotations

import io
import json
import re
import sys

import pytest

from kconnect_cli.app import run
from kit.places import KIT
from kit.rest_worker import rest_worker

MISTAKES = KIT / "mistakes"
SOURCE = {"connector.class": "FileStreamSource", "topic": "lines", "file": "/tmp/in.txt"}


@pytest.fixture
def url():
    with rest_worker() as server:
        yield server.urls[0]


@pytest.fixture
def connect(url, monkeypatch, capsys, tmp_path):
    """Run `connect ARGS`; gives code, stdout, stderr."""
    monkeypatch.setenv("KCONNECT_URL", url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    monkeypatch.syspath_prepend(str(MISTAKES))

    def call(*args):
        code = run(args)
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def file(tmp_path):
    def write(name: str, **settings: str) -> str:
        path = tmp_path / f"{name}.json"
        config = SOURCE | {key.replace("__", "."): value for key, value in settings.items()}
        path.write_text(json.dumps({"name": name, "config": config}))
        return str(path)

    return write


SLIPS = {"task__max": "2", "error__tolerance": "all", "batch__sizes": "7"}
WARNED = [
    "Unknown setting: task.max. Did you mean tasks.max?",
    "Unknown setting: error.tolerance. Did you mean errors.tolerance?",
    "Unknown setting: batch.sizes. Did you mean batch.size?",
]


def test_create_warns_of_misspelt_settings_and_creates(connect, file):
    code, out, err = connect("connectors", "create", file("slips", **SLIPS))
    assert code == 0
    assert out == ""
    assert err.splitlines() == [*(f"Warning: slips: {reported}" for reported in WARNED), "created slips"]
    assert connect("connectors", "delete", "slips", "--yes")[0] == 0


@pytest.mark.parametrize("verb", [("create",), ("apply",), ("apply", "--dry-run")])
def test_strict_refuses_misspelt_settings_before_anything_is_written(connect, file, verb):
    good, bad = file("strict-good"), file("strict-bad", **SLIPS)
    files = ("-f", good, "-f", bad)
    code, out, err = connect("connectors", *verb, "--strict", *files)
    assert code == 1
    assert out == ""
    assert err.splitlines() == [
        *(f"strict-bad: {reported}" for reported in WARNED),
        "Hint: Nothing was written. Without --strict these are warnings.",
    ]
    assert "strict-" not in connect("connectors", "list", "-o", "name")[1]


def test_apply_warns_of_what_it_writes_only(connect, file):
    path = file("applied", **SLIPS)
    assert connect("connectors", "apply", "-f", path)[2].count("Warning: applied: Unknown setting") == 3
    again = connect("connectors", "apply", "-f", path)
    assert again[0] == 0
    assert "Warning" not in again[2]
    connect("connectors", "delete", "applied", "--yes")


def test_config_set_warns_of_the_settings_it_sets_and_strict_sets_none(connect, file):
    connect("connectors", "create", file("set", **SLIPS))
    code, _, err = connect("config", "set", "set", "tasks.mx=3", "topic=other")
    assert code == 0
    assert err.splitlines()[0] == "Warning: set: Unknown setting: tasks.mx. Did you mean tasks.max?"
    assert err.count("Unknown setting") == 1
    code, _, err = connect("config", "set", "set", "--strict", "topc=x")
    assert code == 1
    assert err.startswith("set: Unknown setting: topc. Did you mean topic?")
    assert "topc" not in connect("config", "get", "set")[1]
    assert connect("config", "unset", "set", "tasks.mx")[0] == 0
    connect("connectors", "delete", "set", "--yes")


@pytest.mark.parametrize(
    "free",
    [
        {"producer__override__linger__ms": "5", "producer__override__librdkafka__debug": "msg"},
        {
            "value__converter": "org.apache.kafka.connect.json.JsonConverter",
            "value__converter__schemas__enable": "false",
        },
        {"topic__creation__default__replication__factor": "1", "topic__creation__default__partitions": "1"},
        {"transforms": "a", "transforms__a__type": "HoistField$Value", "transforms__a__field": "x"},
    ],
    ids=str,
)
def test_strict_takes_all_that_is_known(connect, file, free):
    code, _, err = connect("connectors", "create", "--strict", file("free", **free))
    assert (code, err) == (0, "created free\n")
    connect("connectors", "delete", "free", "--yes")


@pytest.mark.parametrize(
    ("given", "reported", "is_warned"),
    [
        ({"tenant": "blue"}, "free: Unknown setting: tenant", False),  # a connector may read it
        ({"producer__override__nope": "5"}, "free: Unknown setting: producer.override.nope", False),  # and its client
        (
            {"value__converter__schemas__enable": "false"},
            "free: value.converter.schemas.enable has no effect without value.converter: the worker's converter has "
            "the worker's settings",
            True,
        ),
        (
            {"transforms": "a", "transforms__a__type": "MaskField$Value", "transforms__a__blacklist": "ssn"},
            "free: Unknown setting: transforms.a.blacklist",
            True,
        ),
    ],
    ids=str,
)
def test_strict_refuses_whatever_is_unknown_and_create_warns_of_what_nobody_reads(
    connect, file, given, reported, is_warned
):
    path = file("free", **given)
    code, _, err = connect("connectors", "create", "--strict", path)
    assert (code, err) == (1, f"{reported}\nHint: Nothing was written. Without --strict these are warnings.\n")
    warnings = f"Warning: {reported}\n" if is_warned else ""
    if "MaskField$Value" in given.values():
        return  # without its fields it is refused
    assert connect("connectors", "create", path)[::2] == (0, f"{warnings}created free\n")
    connect("connectors", "delete", "free", "--yes")


def test_an_unknown_class_is_a_sentence_the_likely_name_and_where_to_look(connect, file):
    code, _, err = connect("connectors", "create", file("unknown", connector__class="FileStreamSorce"))
    assert code == 1
    sentence, hint = err.splitlines()
    assert sentence == "Unknown connector class: FileStreamSorce"
    assert hint == (
        "Hint: Did you mean FileStreamSource? `connect plugins list` shows what the worker has; "
        "its plugin.path says where it looks."
    )


def test_validate_shows_an_unknown_class_as_create_tells_it(connect, file):
    path = file("wrong", key__converter="JsonConvertr", transforms="a", transforms__a__type="no.Such")
    code, out, _ = connect("plugins", "validate", path)
    rows = dict(re.split(r" +- +", line, maxsplit=1) for line in out.splitlines()[2:])
    assert (code, rows) == (
        7,
        {
            "key.converter": "unknown class JsonConvertr. Did you mean JsonConverter?",
            "transforms.a.type": "unknown class no.Such.",
        },
    )
    refused = connect("connectors", "create", path)[2]
    assert all(f"{setting}: {reported}" in refused for setting, reported in rows.items())
    machine = json.loads(connect("plugins", "validate", path, "-o", "json")[1])
    assert machine[0]["error"].startswith("Invalid value JsonConvertr for configuration key.converter"), "Java's words"


def test_settings_that_are_wrong_are_reported_one_a_line_with_their_names(connect, file):
    wrong = {"tasks__max": "many", "key__converter": "no.Such", "errors__tolerance": "some", "batch__size": "x"}
    code, _, err = connect("connectors", "create", file("wrong", **wrong))
    assert code == 1
    assert err.splitlines() == [
        "The connector's settings are wrong:",
        "  tasks.max: must be a whole number, not many",
        "  key.converter: unknown class no.Such.",
        "  errors.tolerance: must be one of none, all, not some",
        "  batch.size: must be a whole number, not x",
    ]


def test_offsets_of_a_running_connector_name_the_command_that_stops_it(connect, file):
    connect("connectors", "create", file("runs"))
    code, _, err = connect("offsets", "reset", "runs", "--yes")
    assert code == 1
    assert "PUT" not in err
    assert "connect connectors stop runs" in err
    connect("connectors", "delete", "runs", "--yes")


def test_a_connector_that_does_not_start_is_reported_with_the_cause_and_that_it_exists(connect, tmp_path):
    path = tmp_path / "c.properties"
    path.write_text("name=dead\nconnector.class=mistaken.MistakenSource\nmistake=connector start\n")
    code, _, err = connect("connectors", "create", str(path))
    assert code == 1
    sentence, hint = err.splitlines()
    assert sentence == (
        "Connector dead exists now, but is FAILED: [Errno 2] No such file or directory: '/no/such/ca.pem'."
    )
    assert hint.startswith("Hint: Correct its settings: connect config set dead KEY=VALUE.")
    assert "FAILED" in connect("connectors", "list")[1]
    connect("connectors", "delete", "dead", "--yes")


def test_a_module_that_python_cannot_read_is_reported_with_file_line_and_text(connect, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "unreadable_plugin.py").write_text("import json\n\ndef poll(self:\n    pass\n")
    path = tmp_path / "c.properties"
    path.write_text("name=c\nconnector.class=unreadable_plugin.Source\n")
    for words in (("connectors", "create", str(path)), ("try", str(path))):
        code, _, err = connect(*words)
        assert code == 1
        sentence = err.splitlines()[0]
        assert sentence.startswith("Plugin unreadable_plugin.Source cannot be imported: SyntaxError: ")
        assert "unreadable_plugin.py:3: def poll(self:" in sentence
        assert "PluginDesc" not in err


def test_a_module_of_plugin_path_that_cannot_be_imported_is_named_where_its_class_is_missed(connect, tmp_path):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "half_plugin.py").write_text(
        "from kconnect.api import SourceConnector\nfrom no_such_library import x\n"
        "class HalfSource(SourceConnector):\n    config = start = stop = task_class = task_configs = x\n"
    )
    path = tmp_path / "c.properties"
    path.write_text("name=c\nconnector.class=HalfSource\n")
    code, _, err = connect("try", str(path), "--plugin-path", str(tmp_path / "plugins"))
    assert code == 1
    assert err.startswith("Unknown connector class: HalfSource\n")
    assert "module half_plugin of plugin.path cannot be imported: ModuleNotFoundError: No module named " in err
    assert "half_plugin.py:2: from no_such_library import x" in err


def test_a_class_that_is_no_plugin_is_reported_by_its_name(connect, file, tmp_path):
    code, _, err = connect("connectors", "create", file("object", key__converter="builtins.object"))
    assert code == 1
    assert err.startswith("The connector's settings are wrong: key.converter: unknown class builtins.object.")
    kind = {"transforms": "a", "transforms__a__type": "builtins.object"}
    code, _, err = connect("connectors", "create", file("object", **kind))
    assert code == 1
    assert "class class" not in err.lower()
    path = tmp_path / "c.properties"
    path.write_text("name=c\nconnector.class=builtins.object\n")
    assert "builtins.object is a class" in connect("try", str(path))[2]

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kconnect.errors import ConfigError, NotFoundError
from kconnect.model import TargetState
from kconnect.runtime.config.dropins import load_connector_file, load_connector_files, load_folder

FLAT = '{"name": "a", "connector.class": "X", "tasks.max": 1, "ratio": 1.50, "on": true}'
NESTED = '{"name": "a", "config": {"connector.class": "X", "tasks.max": 1, "ratio": 1.50, "on": true}, "extra": 1}'
READ = {"name": "a", "connector.class": "X", "tasks.max": "1", "ratio": "1.50", "on": "true"}


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", [FLAT, NESTED])
@pytest.mark.parametrize("name", ["c.json", "c.properties", "c.conf"])
def test_json_is_read_in_both_forms_whatever_the_suffix(tmp_path: Path, name: str, text: str) -> None:
    loaded = load_connector_file(write(tmp_path, name, text))

    assert loaded.config == READ
    assert (loaded.name, loaded.initial_state) == ("a", None)


def test_properties_are_read(tmp_path: Path) -> None:
    loaded = load_connector_file(write(tmp_path, "c.properties", "name=a\nconnector.class : X\n"))

    assert loaded.config == {"name": "a", "connector.class": "X"}


@pytest.mark.parametrize(
    ("state", "target"),
    [("RUNNING", TargetState.STARTED), ("paused", TargetState.PAUSED), ("STOPPED", TargetState.STOPPED)],
)
def test_the_initial_state_is_read(tmp_path: Path, state: str, target: TargetState) -> None:
    text = f'{{"name": "a", "config": {{"connector.class": "X"}}, "initial_state": "{state}"}}'

    assert load_connector_file(write(tmp_path, "c.json", text)).initial_state == target


@pytest.mark.parametrize(
    "text",
    [
        'name = "a"\n[config]\n"connector.class" = "X"\n"tasks.max" = 1\nratio = 1.50\non = true\n',
        'name = "a"\n"connector.class" = "X"\ntasks.max = 1\nratio = 1.50\non = true\n',
    ],
)
def test_toml_is_read_in_both_forms(tmp_path: Path, text: str) -> None:
    assert load_connector_file(write(tmp_path, "c.toml", text)).config == READ


def test_toml_tables_become_dotted_keys_and_arrays_commas(tmp_path: Path) -> None:
    text = 'name = "a"\ntopics = ["x", "y"]\n[transforms.hoist]\ntype = "HoistField$Value"\n'

    config = load_connector_file(write(tmp_path, "c.toml", text)).config

    assert config == {"name": "a", "topics": "x,y", "transforms.hoist.type": "HoistField$Value"}


def test_toml_is_read_as_of_version_1_1_whatever_python_runs_it(tmp_path: Path) -> None:
    """Tables over several lines, with a comma at the end: tomli reads them, the tomllib of Python 3.11 does not."""
    text = 'name = "a"\nconfig = {\n  topic = "x",\n  "tasks.max" = 2,\n}\n'

    assert load_connector_file(write(tmp_path, "c.toml", text)).config == {"name": "a", "topic": "x", "tasks.max": "2"}


REFUSED = {
    ("c.json", '{"name": '): "is not valid JSON",
    ("c.json", "[]"): "must hold a JSON object",
    ("c.json", '[{"name": "a", "config": {}}, {"name": "b", "config": {}}]'): "holds 2 connectors",
    ("c.json", '{"name": "j8"}'): "has no `config`",
    ("c.json", '{"connector.class": "X"}'): "is missing the mandatory 'name' configuration",
    ("c.json", '{"config": {"connector.class": "X"}}'): "is missing the mandatory 'name' configuration",
    ("c.json", '{"name": "a", "config": {"name": "b"}}'): "doesn't match the one specified in 'name'",
    ("c.json", '{"name": "a", "config": {"x": null}}'): "'x' is null",
    ("c.json", '{"name": "a", "config": {"x": {"y": 1}}}'): "'x' is an object",
    ("c.json", '{"name": "a", "config": {"x": [1]}}'): "'x' is an array",
    ("c.json", '{"name": "a", "config": {}, "initial_state": "NOPE"}'): "initial_state 'NOPE' is unknown",
    ("c.json", ""): "is empty",
    ("c.json", '{"a": "\0"}'): "is not a text file",
    ("c.yaml", "kind: KafkaTopic\nmetadata: {name: a}\nspec: {}\n"): "holds no connector",
    ("c.properties", "connector.class=X"): "is missing the mandatory 'name' configuration",
    ("c.properties", "name= \n"): "is missing the mandatory 'name' configuration",
    ("c.toml", "name = "): "is not valid TOML",
    ("c.yaml", "name: a"): "has no `config`",
    ("c.yaml", "name: a\nfile: x\nname: b\n"): "name is in line 1 and in line 3",
    ("c.yaml", "name: a\nconfig:\n  x: ~\n"): "'x' is null",
    ("c.yaml", "name: a\nconfig:\n  x: [1, 2]\n"): "'x' is an array",
    ("c.yaml", "name: [a\n"): "is not valid YAML: line 2, column 1: expected ',' or ']'",
    ("c.yaml", "name: a\nconfig:\n\tx: 1\n"): "is not valid YAML: line 3, column 1 begins with a tab.",
    ("c.yaml", "- a\n"): "must hold mappings",
    ("c.yaml", "name: a\nfile: x\n---\nname: b\nfile: y\n"): "holds 2 connectors",
    ("c.json", '{"name": "a",\n"x": "1",\n"x": "2"}'): "x is in line 2 and in line 3",
    ("c.properties", "name=a\n# \u00e9\nfile=x\nname=b\n"): "name is in line 1 and in line 4",
    (
        "c.properties",
        "name=a\nfile=caf\u00e9\n",
    ): "line 2: it holds UTF-8, but .properties files are read",
    ("c.json", '{"name": "a", "config": {"x": "1"}, "initial_sate": "STOPPED"}'): "Unknown field: initial_sate",
    ("c.yaml", "name: a\nconfg: {}\nconfig:\n  x: 1\n"): "Unknown field: confg",
    ("c.json", '{"name": "a", "config": {"x": "1"}, "offsets": []}'): "`offsets` is not read from a file",
    ("c.yaml", "name: a\nconfig: x\n"): "has no `config`",
    ("c.json", "[" * 100_000): "is not valid JSON: it is nested too deeply",
    ("c.yaml", "name: a\nconfig: " + "[" * 5_000): "is not valid YAML",
    ("c.toml", "name = " + "[" * 5_000): "is not valid TOML",
    ("c.yaml", "name: a\nconfig:\n  <<: x\n"): "line 3, column 7: expected a mapping behind <<",
    ("stdin", "hello world\nthis is text\n"): "line 1 is not a setting",
    ("stdin", '{"name": '): "is not valid JSON",
    ("stdin", "name: a\nstate: RUNNING\ntasks:\n  - id: 0\n    state: RUNNING\n"): "'tasks' is an array",
}


@pytest.mark.parametrize(("file", "message"), REFUSED.items(), ids=str)
def test_a_bad_file_is_named_with_what_to_do(tmp_path: Path, file: tuple[str, str], message: str) -> None:
    path = write(tmp_path, *file)

    with pytest.raises(ConfigError) as refused:
        load_connector_file(path)

    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert "<unicode string>" not in str(refused.value)
    hint = refused.value.hint
    assert hint is not None
    assert hint[0].isupper(), hint


@pytest.mark.parametrize("name", ["c.json", "c.yaml", "c.toml"])
def test_a_file_that_is_not_utf_8_says_so(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes('{"name": "caf\u00e9"}'.encode("latin-1"))
    with pytest.raises(ConfigError, match="it is not UTF-8") as refused:
        load_connector_file(path)
    assert refused.value.hint == "Save it as UTF-8."


@pytest.mark.parametrize("name", ["c.json", "c.yaml", "c.toml", "c.properties"])
def test_a_byte_order_mark_is_passed_over(tmp_path: Path, name: str) -> None:
    text = {"c.json": FLAT, "c.yaml": "name: a\nx: b", "c.toml": 'name = "a"\nx = "b"', "c.properties": "name=a\nx=b"}
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + text[name].encode())
    assert load_connector_file(path).name == "a"


def test_what_anchors_of_yaml_give_is_merged_and_own_settings_count_more(tmp_path: Path) -> None:
    text = """\
- &first
  name: a
  config: &common
    connector.class: X
    file: x
- name: b
  config:
    <<: *common
    file: y
- name: c
  config:
    <<: [{file: z}, *common]
"""
    found = load_connector_files(write(tmp_path, "c.yaml", text))
    assert [dict(file.config) for file in found] == [
        {"name": name, "connector.class": "X", "file": file} for name, file in (("a", "x"), ("b", "y"), ("c", "z"))
    ]


def test_properties_under_the_name_of_json_are_refused_with_a_better_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is not valid JSON") as refused:
        load_connector_file(write(tmp_path, "c.json", "name=a\nfile=x\n"))
    assert refused.value.hint == "Name a file of key=value lines FILE.properties."


SHOWN = """\
name: a
type: source
state: RUNNING
config:
  name: a
  connector.class: X
  tasks.max: '2'
  ratio: 1.50
  'on': yes
tasks:
- id: 0
  state: RUNNING
"""


@pytest.mark.parametrize("name", ["c.yaml", "c.yml", "stdin"])
def test_what_show_prints_as_yaml_is_read_from_a_file_and_from_stdin(tmp_path: Path, name: str) -> None:
    expected = {"name": "a", "connector.class": "X", "tasks.max": "2", "ratio": "1.50", "on": "yes"}
    assert load_connector_file(write(tmp_path, name, SHOWN)).config == expected
    item = f"- {SHOWN}".replace("\n", "\n  ").rstrip(" ")
    several = item + item.replace("name: a", "name: b")
    assert [one.name for one in load_connector_files(write(tmp_path, f"2{name}", several))] == ["a", "b"]
    flat = write(tmp_path, f"3{name}", 'name: a\nconnector.class: X # its class\nratio: 010\nfile: "a: b"\n')
    assert load_connector_file(flat).config == {"name": "a", "connector.class": "X", "ratio": "010", "file": "a: b"}
    documents = load_connector_files(write(tmp_path, f"4{name}", "name: a\nfile: x\n---\nname: b\nfile: y\n"))
    assert [one.config["file"] for one in documents] == ["x", "y"]


def test_text_without_suffix_is_what_it_looks_like(tmp_path: Path) -> None:
    toml = write(tmp_path, "toml", 'name = "a"\nfile = "x # y"\n')
    assert load_connector_file(toml).config == {"name": "a", "file": "x # y"}
    listed = write(tmp_path, "yaml", "- name: a\n  file: x\n- name: b\n  config:\n    file: y\n")
    assert [one.config["file"] for one in load_connector_files(listed)] == ["x", "y"]
    continued = write(tmp_path, "continued", "name: a\ntopics: b,\\\n  c\n")
    assert load_connector_file(continued).config == {"name": "a", "topics": "b,c"}
    properties = write(tmp_path, "properties", 'name=a\nfile = x\ntopic : t\nconnection.url=jdbc:x://h/d?a="b"\n')
    assert load_connector_file(properties).config == {
        "name": "a",
        "file": "x",
        "topic": "t",
        "connection.url": 'jdbc:x://h/d?a="b"',
    }


def test_properties_in_latin_1_and_comments_in_any_language_are_read(tmp_path: Path) -> None:
    path = tmp_path / "c.properties"
    path.write_bytes("# caf\u00e9 \u2615\nname=a\n".encode() + "file=caf\u00e9\n".encode("iso-8859-1"))
    assert load_connector_file(path).config == {"name": "a", "file": "caf\u00e9"}


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, "2.properties", "name=b")
    write(tmp_path, "1.toml", 'name = "a"\nfile = "x"')
    write(tmp_path, "README.md", "no connector")
    write(tmp_path, ".hidden.json", "no connector")

    assert [loaded.name for loaded in load_folder(tmp_path)] == ["a", "b"]


def test_a_link_of_a_folder_to_a_file_that_is_gone_is_no_connector_less(tmp_path: Path) -> None:
    """`apply --prune` would delete the connector that it defined."""
    (tmp_path / "orders.json").symlink_to("gone.json")
    with pytest.raises(NotFoundError, match=r"orders\.json does not exist"):
        load_folder(tmp_path)


def test_two_files_may_not_give_the_same_name(tmp_path: Path) -> None:
    write(tmp_path, "1.properties", "name=a")
    write(tmp_path, "2.properties", "name=a")

    with pytest.raises(ConfigError, match=r"2\.properties and .*1\.properties both define the connector 'a'"):
        load_folder(tmp_path)


def test_a_missing_file_or_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        load_connector_file(tmp_path / "none.json")
    with pytest.raises(NotFoundError, match="is not a folder"):
        load_folder(tmp_path / "none")


def test_secrets_do_not_show_in_the_repr(tmp_path: Path) -> None:
    loaded = load_connector_file(write(tmp_path, "c.properties", "name=a\npassword=hunter2"))

    assert "hunter2" not in repr(loaded)


@pytest.mark.parametrize(
    ("tree", "what", "where"),
    [
        (
            {"capacity": {}, "connectorConfiguration": {"connector.class": "X"}, "connectorName": "a"},
            "a connector of Amazon MSK Connect",
            "`connectorConfiguration` as `config`",
        ),
        ({"resource": {"aiven_kafka_connector": {}}}, "a file of Terraform", "the resource's name"),
        ({"a": {"info": {"config": {}}, "status": {}}}, "a worker's answer about several connectors", "`info.config`"),
    ],
)
def test_a_file_of_another_tool_is_refused_with_what_of_it_to_write(
    tmp_path: Path, tree: dict[str, Any], what: str, where: str
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(tree))
    with pytest.raises(ConfigError, match=f"is {what}, which is not read here") as reported:
        load_connector_file(path)
    assert where in str(reported.value.hint)

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.errors import ConfigError, NotFoundError
from kconnect.model import TargetState
from kconnect.runtime.config.dropins import load_connector_file, load_folder

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
    ("c.properties", "connector.class=X"): "is missing the mandatory 'name' configuration",
    ("c.properties", "name= \n"): "is missing the mandatory 'name' configuration",
    ("c.toml", "name = "): "is not valid TOML",
    ("c.yaml", "name: a"): "is YAML",
}


@pytest.mark.parametrize(("file", "message"), REFUSED.items(), ids=str)
def test_a_bad_file_is_named_with_what_to_do(tmp_path: Path, file: tuple[str, str], message: str) -> None:
    path = write(tmp_path, *file)

    with pytest.raises(ConfigError) as refused:
        load_connector_file(path)

    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert refused.value.hint


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    write(tmp_path, "2.properties", "name=b")
    write(tmp_path, "1.toml", 'name = "a"\nfile = "x"')
    write(tmp_path, "README.md", "no connector")
    write(tmp_path, ".hidden.json", "no connector")

    assert [loaded.name for loaded in load_folder(tmp_path)] == ["a", "b"]


def test_two_files_may_not_give_the_same_name(tmp_path: Path) -> None:
    write(tmp_path, "1.properties", "name=a")
    write(tmp_path, "2.properties", "name=a")

    with pytest.raises(ConfigError, match=r"2\.properties and .*1\.properties both define the connector 'a'"):
        load_folder(tmp_path)


def test_a_missing_file_or_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        load_connector_file(tmp_path / "none.json")
    with pytest.raises(NotFoundError, match="is not a folder"):
        load_folder(tmp_path / "none")


def test_secrets_do_not_show_in_the_repr(tmp_path: Path) -> None:
    loaded = load_connector_file(write(tmp_path, "c.properties", "name=a\npassword=hunter2"))

    assert "hunter2" not in repr(loaded)

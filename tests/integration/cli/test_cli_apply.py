"""`connect connectors apply` and `connect config`: only differences are sent, secrets stay hidden and stay."""

from __future__ import annotations

import json
import os
import re
import sys

import pytest

from kit.memory_herder import file_source


def write(folder, name, config, **more):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"name": name, "config": config, **more}))
    return str(path)


def changed(herder):
    return [call[:2] for call in herder.calls if call[0] in ("put_connector", "delete_connector")]


@pytest.fixture
def files(tmp_path):
    """A folder: `orders` with another topic, `lines` as it is, `fresh` new."""
    folder = tmp_path / "files"
    write(folder, "orders", file_source(topic="other"))
    write(folder, "lines", file_source())
    write(folder, "fresh", file_source(), initial_state="STOPPED")
    return folder


def test_apply_sends_only_what_differs(connect, herder, files):
    herder.calls.clear()
    code, out, err = connect("connectors", "apply", "-f", str(files))
    assert (code, out) == (0, "")
    assert err == "created fresh\nunchanged lines\nupdated orders: topic\n"
    assert changed(herder) == [("put_connector", "fresh"), ("put_connector", "orders")]
    assert herder.known["fresh"].state == "STOPPED"
    assert connect("connectors", "apply", str(files))[2] == "unchanged fresh\nunchanged lines\nunchanged orders\n"


def test_a_dry_run_shows_the_diff_changes_nothing_and_says_so_by_its_code(connect, herder, files):
    herder.calls.clear()
    code, out, _ = connect("connectors", "apply", "-f", str(files), "--dry-run")
    assert code == 7
    assert "update orders\n  - topic = t\n  + topic = other\n" in out
    assert "create fresh\n  + connector.class = FileStreamSource\n" in out
    assert changed(herder) == []
    connect("connectors", "apply", "-f", str(files))
    assert connect("connectors", "apply", "-f", str(files), "--dry-run")[:2] == (0, "")


def test_a_dry_run_as_json_has_a_stable_shape(connect, files):
    changes = json.loads(connect("connectors", "apply", "-f", str(files), "--dry-run", "-o", "json")[1])
    assert [list(change) for change in changes] == [["name", "action", "settings"]] * 3
    assert changes[2] == {
        "name": "orders",
        "action": "update",
        "settings": [{"key": "topic", "old": "t", "new": "other"}],
    }


def test_prune_deletes_what_is_in_no_file_and_begins_with_the_prefix_and_asks_first(connect, herder, tmp_path):
    herder.put_connector("team-a-old", file_source(name="team-a-old"), replace=False)
    path = write(tmp_path / "one", "orders", file_source())
    prune = ("connectors", "apply", "-f", path, "--prune", "--prefix", "team-a-")
    code, _, err = connect(*prune)
    assert code == 2
    assert re.search(r"Delete 1 connector at http\S+ in no file: team-a-old\?", err)
    assert "team-a-old" in herder.known
    assert connect(*prune, "--dry-run")[1].startswith("delete team-a-old\n")
    assert connect(*prune, "--yes")[::2] == (0, "unchanged orders\ndeleted team-a-old\n")
    assert sorted(herder.known) == ["lines", "orders"], "lines is somebody else's"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("--prune",),
            "--prune without --prefix or --labels would also delete connectors that others made\nHint: --prefix",
        ),
        (("--prune", "--prefix", ""), "--prefix is empty"),
        (("--prefix", "a"), "--prefix is only valid with --prune"),
    ],
)
def test_prune_says_whose_connectors_it_may_delete_or_does_nothing(connect, herder, tmp_path, args, said):
    path = write(tmp_path / "one", "fresh", file_source())
    herder.calls.clear()
    code, _, err = connect("connectors", "apply", "-f", path, "--yes", *args)
    assert (code, changed(herder)) == (2, [])
    assert said in err


def test_a_folder_without_connectors_is_reported_and_deletes_nothing(connect, herder, tmp_path):
    (tmp_path / "empty").mkdir()
    herder.calls.clear()
    code, _, err = connect("connectors", "apply", "-f", str(tmp_path / "empty"))
    assert (code, err) == (0, f"No connector is in {tmp_path / 'empty'}: there is nothing to apply.\n")
    code, _, err = connect("connectors", "apply", "-f", str(tmp_path / "empty"), "--prune", "--prefix", "l", "--yes")
    assert code == 2
    assert f"No connector is in {tmp_path / 'empty'}" in err
    assert changed(herder) == []


def test_delete_takes_files_and_a_prefix_and_refuses_all_that_others_made_too(connect, herder, tmp_path):
    path = write(tmp_path / "one", "orders", file_source())
    for all_ in (("--all",), ("--all", "--failed")):
        code, _, err = connect("connectors", "delete", "--yes", *all_)
        assert code == 2
        assert "--all would delete every connector of the cluster, whoever made it\nHint: Choose yours" in err
    assert sorted(herder.known) == ["lines", "orders"]
    assert connect("connectors", "delete", "--yes", "-f", path)[::2] == (0, "deleted orders\n")
    assert connect("connectors", "delete", "--yes", "--prefix", "x", "--prefix", "lin")[::2] == (0, "deleted lines\n")
    code, _, err = connect("connectors", "delete", "--yes", "--prefix", "lin")
    assert (code, "begins with lin." in err) == (0, True)
    assert connect("connectors", "delete", "--yes", "--prefix", "lin", "orders")[0] == 2


def test_files_of_a_folder_hold_several_connectors_each(connect, herder, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "a.yaml").write_text(
        "name: a\nconfig: {connector.class: FileStreamSource, topic: t, file: x}\n---\n"
        "name: b\nconfig: {connector.class: FileStreamSource, topic: t, file: y}\n"
    )
    (folder / "c.json").write_text(json.dumps([{"name": "c", "config": file_source()}]))
    assert connect("connectors", "apply", "-f", str(folder))[::2] == (0, "created a\ncreated b\ncreated c\n")


def test_the_state_of_a_custom_resource_holds_of_a_connector_that_is_there(connect, herder, tmp_path):
    path = tmp_path / "a.yaml"

    def applied(state, topic="t"):
        path.write_text(
            f"kind: KafkaConnector\nmetadata: {{name: a}}\nspec:\n  class: FileStreamSource\n  state: {state}\n"
            f"  config: {{topic: {topic}, file: x}}\n"
        )
        code, _, err = connect("connectors", "apply", str(path))
        return code, err

    assert applied("paused") == (0, "created a\n")
    assert applied("paused") == (0, "unchanged a\n")
    assert applied("running", "u") == (0, "updated a: topic\nresumed a\n")
    assert applied("stopped", "v") == (0, "stopped a\nupdated a: topic\n")


def test_a_dry_run_refuses_a_connector_without_a_class_as_a_worker_would(connect, herder, tmp_path):
    file = write(tmp_path, "none", {"topic": "t"})
    for args in (("--dry-run",), ()):
        code, out, err = connect("connectors", "apply", "-f", file, *args)
        assert (code, out, err.splitlines()[0]) == (1, "", f"{file}: connector none has no connector.class")


def test_several_files_and_a_refused_one_does_not_keep_the_others(connect, herder, tmp_path):
    bad = write(tmp_path / "f", "bad", {"connector.class": "FileStreamSource"})
    good = write(tmp_path / "f", "good", file_source())
    code, _, err = connect("connectors", "apply", "-f", bad, "-f", good)
    assert code == 1
    assert f"bad of {bad} could not be created:\n" in err
    assert "topic: is required" in err
    assert "good" in herder.known


def test_create_of_several_files_names_the_one_that_is_refused(connect, herder, tmp_path):
    bad = write(tmp_path / "f", "bad", {"connector.class": "FileStreamSource"})
    good = write(tmp_path / "f", "good", file_source())
    code, _, err = connect("connectors", "create", bad, good)
    assert code == 1
    assert f"bad of {bad} could not be created:\n" in err
    assert "topic: is required" in err
    assert "good" in herder.known


def test_create_says_what_shows_its_changes_without_making_them(connect, herder, files):
    herder.calls.clear()
    code, _, err = connect("connectors", "create", str(files / "fresh.json"), "--dry-run")
    assert (code, changed(herder)) == (2, [])
    assert "Hint: connect connectors apply --dry-run FILE shows what would be done." in err


def test_two_files_for_one_connector_change_nothing(connect, herder, tmp_path):
    first = write(tmp_path / "a", "orders", file_source(topic="a"))
    second = write(tmp_path / "b", "orders", file_source(topic="b"))
    herder.calls.clear()
    code, _, err = connect("connectors", "apply", first, second)
    assert code == 1
    assert "both define the connector orders" in err
    assert changed(herder) == []


@pytest.mark.parametrize("names", [["orders"], ["orders", "lines"], ["--all"]])
def test_apply_takes_what_show_prints(connect, herder, names):
    herder.known["orders"].config |= {"pin": "1234", "consumer.override.sasl.jaas.config": "secret"}
    shown = connect("connectors", "show", *names, "-o", "json")[1]
    assert "1234" not in shown
    assert "secret" not in shown
    herder.calls.clear()
    code, _, err = connect_stdin(connect, shown, "connectors", "apply", "-f", "-")
    assert code == 0
    assert {line.split()[0] for line in err.splitlines()} == {"unchanged"}
    assert changed(herder) == []
    shown = shown.replace('"t"', '"other"')
    assert connect_stdin(connect, shown, "connectors", "apply", "-f", "-")[0] == 0
    assert (herder.known["orders"].config["topic"], herder.known["orders"].config["pin"]) == ("other", "1234")


@pytest.mark.parametrize("names", [["orders"], ["orders", "lines"]])
def test_apply_takes_what_show_prints_as_yaml(connect, herder, names):
    herder.known["orders"].config |= {"pin": "1234", "ratio": "010", "flag": "yes", "text": "é: ☕"}
    shown = connect("connectors", "show", *names, "-o", "yaml")[1]
    herder.calls.clear()
    code, _, err = connect_stdin(connect, shown, "connectors", "apply", "-f", "-")
    assert (code, {line.split()[0] for line in err.splitlines()}, changed(herder)) == (0, {"unchanged"}, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name=a\nname=b\n", "stdin: name is in line 1 and in line 2."),
        ("name=café\n", "stdin, line 1: it holds UTF-8"),
        ("hello world\n", "stdin, line 1 is not a setting"),
    ],
)
def test_what_is_wrong_on_stdin_is_reported_by_that_name_and_line(connect, herder, text, said):
    herder.calls.clear()
    code, _, err = connect_stdin(connect, text, "connectors", "apply", "-f", "-")
    assert (code, changed(herder)) == (1, [])
    assert said in err


def connect_stdin(connect, text, *args):
    """`-` reads the real standard input: a pipe stands for it."""
    reader, writer = os.pipe()
    before = os.dup(0)
    os.write(writer, text.encode())
    os.close(writer)
    os.dup2(reader, 0)
    try:
        return connect(*args)
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reader)


def test_a_mask_without_a_secret_behind_it_is_refused(connect, herder, tmp_path):
    path = write(tmp_path / "f", "fresh", file_source(pin="[hidden]"))
    for verb in ("apply", "create"):
        code, _, err = connect("connectors", verb, "-f", path)
        assert code == 1
        assert "pin of fresh is [hidden], which stands for a secret that does not exist" in err
    assert "fresh" not in herder.known


def test_secrets_are_masked_in_diffs_and_shown_only_when_asked_for(connect, herder, tmp_path):
    herder.known["orders"].config |= {"pin": "old-pin", "db.password": "${file:/run/db:pw}"}
    path = write(tmp_path / "f", "orders", file_source(pin="new-pin", **{"db.password": "plain"}))
    _, out, err = connect("connectors", "apply", "-f", path, "--dry-run")
    assert "  - pin = [hidden]\n  + pin = [hidden]\n" in out
    assert "  - db.password = ${file:/run/db:pw}\n  + db.password = [hidden]\n" in out
    assert not [secret for secret in ("old-pin", "new-pin", "plain") if secret in out + err]
    assert connect("config", "get", "orders", "pin")[1] == "[hidden]\n"
    assert connect("config", "get", "orders", "pin", "--show-secrets")[1] == "old-pin\n"
    assert "old-pin" not in connect("connectors", "show", "orders")[1]


def test_passwords_of_transforms_are_masked_too(connect, herder):
    chain = {"transforms": "stamp", "transforms.stamp.type": "Stamp$Value", "transforms.stamp.pin": "1234"}
    herder.known["orders"].config |= {**chain, "value.converter": "unknown.Converter"}
    shown = json.loads(connect("connectors", "show", "orders", "-o", "json")[1])
    assert shown["config"]["transforms.stamp.pin"] == "[hidden]"
    assert shown["config"]["transforms.stamp.type"] == "Stamp$Value"


def test_config_get_of_all_some_and_one(connect):
    code, out, _ = connect("config", "get", "orders", "-o", "json")
    assert (code, json.loads(out)) == (0, dict(sorted(file_source(name="orders").items())))
    assert connect("config", "get", "orders", "topic")[1] == "t\n"
    assert connect("config", "get", "orders", "topic", "file")[1] == "KEY     VALUE\ntopic   t\nfile    /in.txt\n"
    code, _, err = connect("config", "get", "orders", "topik")
    assert (code, err) == (3, "orders has no setting topik\nHint: Did you mean topic?\n")


def test_config_set_sends_the_changes_alone(connect, herder):
    herder.calls.clear()
    assert connect("config", "set", "orders", "topic=a=b", "batch.size=5")[::2] == (
        0,
        "updated orders: batch.size, topic\n",
    )
    assert ("patch_connector", "orders", {"topic": "a=b", "batch.size": "5"}) in herder.calls
    assert connect("config", "set", "orders", "topic=a=b")[2] == "unchanged orders\n"
    assert connect("config", "set", "orders", "topic")[0] == 2
    assert connect("config", "set", "order", "topic=x")[::2] == (
        3,
        "Connector order not found\nHint: Did you mean orders?\n",
    )


def test_config_set_as_a_dry_run(connect, herder):
    code, out, _ = connect("config", "set", "orders", "topic=x", "--dry-run")
    assert (code, out) == (7, "update orders\n  - topic = t\n  + topic = x\n")
    assert herder.known["orders"].config["topic"] == "t"


def test_config_unset_takes_settings_away(connect, herder):
    assert connect("config", "unset", "orders", "file")[::2] == (0, "updated orders: file\n")
    assert "file" not in herder.known["orders"].config
    assert connect("config", "unset", "orders", "file")[0] == 3


@pytest.fixture
def editor(tmp_path, monkeypatch):
    """An $EDITOR that is called with an argument, and keeps what it was shown."""

    def use(command):
        script = tmp_path / "my editor.sh"
        script.write_text(f'#!/bin/sh\n[ "$1" = --wait ] || exit 9\ncp "$2" "{tmp_path}/seen"\n{command}\n')
        script.chmod(0o700)
        monkeypatch.setenv("EDITOR", f"'{script}' --wait")
        monkeypatch.setenv("TMPDIR", str(tmp_path))
        monkeypatch.setattr("tempfile.tempdir", None)
        monkeypatch.delenv("VISUAL", raising=False)

    return use


def test_config_edit_sends_what_the_editor_left_and_keeps_secrets(connect, herder, editor, tmp_path):
    herder.known["orders"].config["pin"] = "1234"
    editor('sed -i s/topic=t/topic=edited/ "$2"')
    assert connect("config", "edit", "orders", "--yes")[::2] == (0, "updated orders: topic\n")
    assert herder.known["orders"].config == file_source(name="orders", topic="edited", pin="1234")
    assert "1234" not in (tmp_path / "seen").read_text()
    assert list(tmp_path.glob("kconnect-orders-*")) == []


def test_config_edit_refuses_a_setting_that_stands_twice(connect, herder, editor):
    editor('echo topic=second >> "$2"')
    herder.calls.clear()
    code, _, err = connect("config", "edit", "orders")
    assert (code, changed(herder)) == (1, [])
    assert "topic is in line" in err
    assert "Your text is kept in" in err


def test_config_edit_without_a_change_sends_nothing(connect, herder, editor):
    editor("true")
    herder.calls.clear()
    assert connect("config", "edit", "orders")[::2] == (0, "Nothing was changed.\n")
    assert changed(herder) == []


def test_a_refused_edit_keeps_the_text(connect, editor, tmp_path):
    editor('sed -i /topic=/d "$2"')
    code, _, err = connect("config", "edit", "orders")
    assert code == 1
    (kept,) = tmp_path.glob("kconnect-orders-*")
    assert f"Your text is kept in {kept}." in err
    assert "topic=" not in kept.read_text()
    kept.unlink()


def test_an_edit_of_what_changed_meanwhile_is_a_conflict(connect, herder, editor, tmp_path, url):
    program = "import sys; from kconnect_cli.app import run; sys.exit(run(sys.argv[1:]))"
    editor(f"sed -i s/topic=t/topic=x/ \"$2\"; {sys.executable} -c '{program}' config set orders file=/y --url {url}")
    code, _, err = connect("config", "edit", "orders")
    assert code == 4
    assert "was changed by someone else in the meantime" in err
    assert "  + file = /y" in err
    assert herder.known["orders"].config["topic"] == "t"
    for kept in tmp_path.glob("kconnect-orders-*"):
        kept.unlink()


def test_an_editor_that_is_not_there_or_fails_changes_nothing(connect, editor, monkeypatch):
    editor("exit 3")
    assert "ended with 3; nothing was changed" in connect("config", "edit", "orders")[2]
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    assert connect("config", "edit", "orders")[0] == 2
    monkeypatch.delenv("EDITOR")
    assert "Neither VISUAL nor EDITOR" in connect("config", "edit", "orders")[2]

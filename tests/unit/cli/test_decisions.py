"""Decisions of the command line without a worker: durations, targets, contexts' file, selections, changes."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from kconnect.errors import ConfigError, ConnectError, NotFoundError
from kconnect.files.folders import is_open_to_others
from kconnect.logs.traces import root_cause
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TargetState, TaskState
from kconnect.runtime.config.custom_resources import CLUSTER
from kconnect.runtime.config.dropins import ConnectorFile, load_connector_files
from kconnect.runtime.config.labels import LabelSelector
from kconnect_cli.contexts.profiles import Profile, Profiles, load_profiles, save_profiles
from kconnect_cli.contexts.target import DEFAULT_URL, find_target
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import UsageProblem, explain, is_of_output
from kconnect_cli.files.connector_files import read_connector_files
from kconnect_cli.options.selection import Selection, select_names
from kconnect_cli.settings.change_display import change_text, change_to_json
from kconnect_cli.settings.changes import Pruning, config_change, plan_changes, split_by_labels


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("60s", 60), ("2m", 120), ("1.5h", 5400), ("2d", 172_800), ("7", 7)]
)
def test_lengths_of_time(text, seconds):
    assert seconds_of(text, "--timeout") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "-1s", "1 day", "1e3"])
def test_what_is_no_length_of_time_names_the_option(text):
    with pytest.raises(UsageProblem, match="--timeout"):
        seconds_of(text, "--timeout")


@pytest.fixture
def contexts(tmp_path, monkeypatch):
    """Two contexts, `prod` is the current one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    prod = Profile("https://prod:8083", user="ann", password_env="PW", ca="/ca.pem")
    path = tmp_path / "kconnect" / "contexts.toml"
    save_profiles(path, Profiles({"prod": prod, "dev": Profile("http://dev:8083")}, "prod"))
    return path


def test_a_full_disk_names_the_file_of_the_contexts_and_leaves_the_one_that_was_there(contexts, monkeypatch):
    def full(_number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = contexts.read_text()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConnectError, match=rf"^{re.escape(str(contexts))} cannot be written: No space left on device$"):
        save_profiles(contexts, Profiles({}))
    assert (contexts.read_text(), [path.name for path in contexts.parent.iterdir()]) == (before, ["contexts.toml"])


@pytest.mark.parametrize(
    ("url", "context", "environ", "expected"),
    [
        (None, None, {}, ("https://prod:8083", "prod")),
        ("http://x:1", None, {}, ("http://x:1", None)),
        (None, "dev", {"KCONNECT_URL": "http://e:1"}, ("http://dev:8083", "dev")),
        (None, None, {"KCONNECT_URL": "http://e:1", "KCONNECT_CONTEXT": "dev"}, ("http://e:1", None)),
        (None, None, {"KCONNECT_CONTEXT": "dev"}, ("http://dev:8083", "dev")),
        ("http://x:1", None, {"KCONNECT_CONTEXT": "prod"}, ("http://x:1", None)),
        ("http://x:1", "prod", {}, ("http://x:1", "prod")),
    ],
)
@pytest.mark.usefixtures("contexts")
def test_which_worker_is_meant(url, context, environ, expected):
    target = find_target(url, context, environ, print)
    assert (target.url, target.context) == expected
    assert (target.profile is None) == (expected[1] is None)


def test_without_any_context_it_is_localhost(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert find_target(None, None, {}, print).url == DEFAULT_URL


def test_a_password_stays_with_its_worker_and_comes_from_where_the_context_says(contexts, tmp_path):
    target = find_target(None, None, {}, print)
    assert target.access({"PW": "s3cret"}).password == "s3cret"
    with pytest.raises(ConnectError, match="environment variable PW, which is not set"):
        target.access({})
    assert find_target("http://x:1", None, {}, print).access({}) is None
    (tmp_path / "pw").write_text("from file\n")
    profile = Profile("http://h", user="ann", password_file=str(tmp_path / "pw"))
    assert profile.secret({}) == "from file"


_TLS = Profile("https://prod", user="ann", password="anns", ca="ca-c", cert="cert-c", key="key-c", key_password="kp-c")


@pytest.mark.parametrize(
    ("url", "context", "options", "environ", "expected"),
    [
        # user, password, ca, cert, key, key_password
        (None, None, {}, {}, ("ann", "anns", "ca-c", "cert-c", "key-c", "kp-c")),
        (None, None, {}, {"KCONNECT_CA_FILE": "ca-e"}, ("ann", "anns", "ca-e", "cert-c", "key-c", "kp-c")),
        (None, "prod", {}, {"KCONNECT_CA_FILE": "ca-e"}, ("ann", "anns", "ca-c", "cert-c", "key-c", "kp-c")),
        (None, None, {"ca": "ca-o"}, {"KCONNECT_CA_FILE": "ca-e"}, ("ann", "anns", "ca-o", "cert-c", "key-c", "kp-c")),
        (None, None, {}, {"KCONNECT_PASSWORD": "new"}, ("ann", "new", "ca-c", "cert-c", "key-c", "kp-c")),
        # Nobody gets the password of another, or another's key
        (None, None, {"user": "bob"}, {}, ("bob", None, "ca-c", "cert-c", "key-c", "kp-c")),
        (
            None,
            None,
            {"user": "bob"},
            {"KCONNECT_USER": "eve", "KCONNECT_PASSWORD": "eves"},
            ("bob", None, "ca-c", "cert-c", "key-c", "kp-c"),
        ),
        (
            None,
            None,
            {"user": "bob"},
            {"KCONNECT_PASSWORD": "bobs"},
            ("bob", "bobs", "ca-c", "cert-c", "key-c", "kp-c"),
        ),
        (None, None, {}, {"KCONNECT_CERT_FILE": "cert-e"}, ("ann", "anns", "ca-c", "cert-e", None, None)),
        (
            "https://x",
            None,
            {"cert": "cert-o", "key": "key-o"},
            {"KCONNECT_KEY_PASSWORD": "kp-e", "KCONNECT_USER": "eve"},
            ("eve", None, None, "cert-o", "key-o", "kp-e"),
        ),
        ("https://bob:b@x", None, {}, {"KCONNECT_USER": "eve"}, ("bob", "b", None, None, None, None)),
        ("https://bob@x", None, {}, {"KCONNECT_PASSWORD": "bobs"}, ("bob", "bobs", None, None, None, None)),
        (None, None, {}, {"KCONNECT_URL": "https://bob:b@x"}, ("bob", "b", None, None, None, None)),
    ],
)
def test_options_come_before_the_environment_and_that_before_a_context(
    contexts, url, context, options, environ, expected
):
    save_profiles(contexts, Profiles({"prod": _TLS}, "prod"))
    access = find_target(url, context, environ, print, Profile(**options)).access(environ)
    assert (access.user, access.password, access.ca, access.cert, access.key, access.key_password) == expected


def test_passwords_are_read_from_files_that_the_environment_names(tmp_path):
    (tmp_path / "pw").write_text("s3cret\n")
    (tmp_path / "kp").write_text("0pen\n")
    environ = {
        "KCONNECT_URL": "https://x",
        "KCONNECT_USER": "ann",
        "KCONNECT_PASSWORD_FILE": str(tmp_path / "pw"),
        "KCONNECT_CERT_FILE": "c",
        "KCONNECT_KEY_PASSWORD_FILE": str(tmp_path / "kp"),
    }
    access = find_target(None, None, environ, print).access(environ)
    assert (access.password, access.key_password) == ("s3cret", "0pen")
    assert "s3cret" not in repr(find_target(None, None, {**environ, "KCONNECT_PASSWORD_FILE": ""}, print))
    with pytest.raises(UsageProblem, match=r"The environment .* has password and password_file"):
        find_target(None, None, {**environ, "KCONNECT_PASSWORD": "x"}, print)
    with pytest.raises(UsageProblem, match="The command line has a key and no certificate"):
        find_target("http://x", None, {}, print, Profile(key="k"))


def test_a_user_in_the_url_is_used_and_never_shown():
    target = find_target("http://ann:p%40ss@h:1", None, {}, print)
    assert target.url == "http://h:1"
    assert (target.access({}).user, target.access({}).password) == ("ann", "p@ss")


def test_an_open_file_with_a_password_is_warned_about(contexts):
    save_profiles(contexts, Profiles({"a": Profile("http://a", user="u", password="s3cret")}, "a"))
    assert not is_open_to_others(contexts)
    os.chmod(contexts, 0o644)
    said = []
    find_target(None, None, {}, said.append)
    assert said == [f"{contexts} holds a password and others may read it: chmod 600 {contexts}"]


def test_an_open_file_that_a_password_is_read_from_is_warned_about_once(contexts, tmp_path):
    password, key = tmp_path / "pw", tmp_path / "kp"
    for file, mode in ((password, 0o640), (key, 0o600)):
        file.write_text("s3cret")
        os.chmod(file, mode)
    profile = Profile("http://a", user="u", password_file=str(password), cert="c", key_password_file=str(key))
    save_profiles(contexts, Profiles({"a": profile}, "a"))
    said = []
    find_target(None, None, {"KCONNECT_PASSWORD_FILE": str(password)}, said.append)
    assert said == [f"{password} holds a password and others may read it: chmod 600 {password}"]
    os.chmod(key, 0o604)
    find_target("http://elsewhere", None, {}, said.append)  # takes nothing from the context
    assert len(said) == 1
    find_target(None, None, {}, said.append)
    assert said[2:] == [f"{key} holds a password and others may read it: chmod 600 {key}"]


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(name=_TEXT, url=_TEXT, user=_TEXT, password=_TEXT)
def test_contexts_come_back_as_they_were_written(tmp_path_factory, name, url, user, password):
    path = tmp_path_factory.getbasetemp() / "contexts.toml"
    profiles = Profiles({name: Profile(url, user=user, password=password)}, name)
    save_profiles(path, profiles)
    assert load_profiles(path) == profiles
    assert path.stat().st_mode & 0o777 == 0o600
    assert tomli.loads(path.read_text())["current"] == name


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("current = ", "is not valid TOML"),
        ("contexts = 1", "expected current"),
        ('[contexts.a]\nuser = "x"', r"\[contexts\.a\] has no url"),
        ('[contexts.a]\nurl = "x"\ntoken = "y"', "does not know token"),
        ('[contexts.a]\nurl = "x"\npassword = "y"', "a password and no user"),
        ('[contexts.a]\nurl = "x"\nkey_password = "y"', "a password for a key and no certificate"),
        ("[contexts.a]\nurl = 1", "must hold strings only"),
    ],
)
def test_a_damaged_contexts_file_is_named_with_the_place(tmp_path, text, said):
    path = tmp_path / "contexts.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        load_profiles(path)
    assert str(path) in str(caught.value)


def status(name, state, *tasks):
    parts = tuple(TaskState(number, task, "w") for number, task in enumerate(tasks))
    return ConnectorStatus(name, ConnectorState(state, "w"), parts, ConnectorType.SINK)


def test_a_state_is_that_of_the_connector_or_of_a_task():
    found = {
        "a": status("a", RunState.RUNNING, RunState.RUNNING, RunState.FAILED),
        "b": status("b", RunState.RUNNING, RunState.RUNNING),
        "c": status("c", RunState.FAILED),
    }
    assert select_names(Selection.of(None, False, True, True, None), found) == ["a", "c"]
    assert select_names(Selection.of(["b|c"], True, False, False, ["running"]), found) == ["b"]
    assert select_names(Selection.of(["x", "b"], False, False, True, None), found) == ["x"]
    with pytest.raises(NotFoundError):
        select_names(Selection.of(["d.*"], True, False, False, None), found)


def test_changes_are_what_differs_and_keep_masked_secrets():
    live = {"a": {"name": "a", "x": "1", "password": "s"}, "b": {"name": "b"}}
    file = ConnectorFile(Path("f.json"), "a", {"name": "a", "x": "2", "password": "[hidden]"})
    update, delete = plan_changes([file], live, prune=Pruning(prefixes=("b",)))
    assert (update.action, update.keys, update.new["password"]) == ("update", ["x"], "s")
    assert (delete.action, delete.name) == ("delete", "b")
    assert plan_changes([file], live) == [update]
    assert change_to_json(update, dict)["settings"] == [{"key": "x", "old": "1", "new": "2"}]
    assert change_text(update, dict, colour=False) == "update a\n  - x = 1\n  + x = 2\n"
    assert "\x1b[31m  - x = 1\x1b[0m" in change_text(update, dict, colour=True)


def test_a_state_that_a_file_keeps_is_a_change_of_a_connector_that_is_there():
    def planned(state, now, **live):
        file = ConnectorFile(Path("f.yaml"), "a", {"name": "a"}, state, keeps_state=True)
        return plan_changes([file], live or {"a": {"name": "a"}}, statuses={"a": status("a", now)})[0]

    resumed = planned(TargetState.STARTED, RunState.PAUSED)
    assert (resumed.action, resumed.keys) == ("update", [])
    assert change_text(resumed, dict, colour=False) == "update a\n  is PAUSED, becomes RUNNING\n"
    assert change_to_json(resumed, dict)["state"] == {"old": "PAUSED", "new": "RUNNING"}
    assert planned(TargetState.STOPPED, RunState.PAUSED).states == (TargetState.PAUSED, TargetState.STOPPED)
    assert planned(TargetState.STARTED, RunState.FAILED).action == "unchanged"
    assert planned(None, RunState.PAUSED).action == "unchanged"
    assert planned(TargetState.PAUSED, RunState.RUNNING, b={}).states is None, "it is created in it"


def test_resources_of_two_clusters_are_not_applied_together():
    def file(name, cluster):
        return ConnectorFile(Path(f"{name}.yaml"), name, {"name": name}, labels={CLUSTER: cluster} if cluster else {})

    ours, theirs, plain = file("a", "x"), file("b", "y"), file("c", None)
    assert len(plan_changes([plain, ours], {})) == 2
    with pytest.raises(ConfigError, match=r"b\.yaml: b is of the cluster y, and a in a\.yaml of x") as refused:
        plan_changes([plain, ours, theirs], {})
    assert refused.value.hint == f"-l {CLUSTER}=x applies those of that cluster alone."
    assert split_by_labels([plain, ours, theirs], LabelSelector.parse([f"{CLUSTER}=x"]))[0] == [ours]


def test_all_files_that_cannot_be_read_are_named_at_once(tmp_path):
    good, bad, worse = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.yaml"
    good.write_text('{"name": "a", "config": {}}')
    bad.write_text("{")
    worse.write_bytes("name: c".encode("utf-16"))
    with pytest.raises(ConfigError) as refused:
        read_connector_files([str(tmp_path)])
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"{bad} is not valid JSON")
    assert second == f"{worse} is UTF-16."
    assert "UTF-8" in refused.value.hint
    assert refused.value.hint.endswith("Nothing was done with the other files.")
    with pytest.raises(NotFoundError, match=r"x does not exist\.\ny does not exist") as missing:
        read_connector_files(["x", "y"])
    assert missing.value.hint == "Check the path, or create the file."
    assert [file.name for file in read_connector_files([str(good), str(good)])] == ["a", "a"]


def test_a_patch_sets_and_takes_away():
    change = config_change("a", {"x": "1", "y": "2"}, {"x": None, "z": "3"})
    assert (change.new, change.keys) == ({"y": "2", "z": "3"}, ["x", "z"])


def test_a_json_array_holds_several_connectors(tmp_path):
    path = tmp_path / "all.json"
    path.write_text('[{"name": "a", "config": {"k": 1}}, {"name": "b", "config": {}}]')
    assert [(file.name, file.config) for file in load_connector_files(path)] == [
        ("a", {"k": "1", "name": "a"}),
        ("b", {"name": "b"}),
    ]
    for text, said in (("[1]", "must hold JSON objects"), ("[{", "not valid JSON")):
        path.write_text(text)
        with pytest.raises(ConfigError, match=said):
            load_connector_files(path)


@pytest.mark.parametrize(
    ("trace", "cause"),
    [
        (None, ""),
        ("a.B: outer\n\tat x\nCaused by: c.D: inner\n\tat y\nCaused by: e.F: root\n\t... 3 more", "e.F: root"),
        ("a.B: alone\n\tat x", "a.B: alone"),
        ("a.B: no X, available connectors are: PluginDesc{klass=class a.C}, PluginDesc{}\n\tat x", "a.B: no X"),
        ("Traceback (most recent call last):\n  File x\nValueError: no", "ValueError: no"),
        ("Task a-0 failed: x. Root cause: OSError: full\n\nTraceback ..", "OSError: full"),
        (
            "Task a-0 failed: E: no. Record of topic 't', partition 2, offset 17 failed in TASK_PUT of C: w.\n..",
            "E: no. Record of topic 't', partition 2, offset 17 in TASK_PUT of C",
        ),
    ],
)
def test_the_root_cause_of_a_trace_is_one_line(trace, cause):
    assert root_cause(trace) == cause


def test_a_disk_without_room_is_no_bug_and_of_a_copy_the_file_that_is_written_is_named():
    full = OSError(errno.ENOSPC, "No space left on device")
    assert explain(full) == ("The output cannot be written: No space left on device", None, 1)
    copy = OSError(errno.ENOSPC, "No space left on device", "driver.jar", None, "plugins/driver.jar")
    assert explain(copy).sentence == "plugins/driver.jar: No space left on device"
    assert (is_of_output(full), is_of_output(copy)) == (True, False)


def test_a_class_that_a_worker_does_not_have_is_one_sentence_and_the_likely_name():
    answer = (
        "Failed to find any class that implements Connector and which name matches FileStreamSorce, available "
        "connectors are: PluginDesc{klass=class org.apache.kafka.connect.file.FileStreamSinkConnector, name='x'}, "
        "PluginDesc{klass=class org.apache.kafka.connect.file.FileStreamSourceConnector, name='y'}"
    )
    reported = explain(ConnectError(answer))
    assert reported.sentence == "Unknown connector class: FileStreamSorce"
    assert reported.hint is not None
    assert reported.hint.startswith("Did you mean FileStreamSource? ")
    nothing_like_it = explain(ConnectError(answer.replace("FileStreamSorce", "com.example.Zebra")))
    assert nothing_like_it.hint is not None
    assert nothing_like_it.hint.startswith("`connect plugins list` shows what the worker has")

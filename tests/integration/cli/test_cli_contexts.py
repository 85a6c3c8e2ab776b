"""Contexts: which worker is asked, with which password, and what is said of them; against a herder in memory."""

from __future__ import annotations

import io
import json
import shlex
import stat
import subprocess
import sys

import pytest

from kit.cli import cli_env, cli_run, connect_command
from kit.pace import ample_s
from kit.ports import free_port


def test_contexts_choose_the_worker_and_their_file_is_the_owners(connect, url, monkeypatch, tmp_path):
    monkeypatch.delenv("KCONNECT_URL")
    nowhere = f"http://127.0.0.1:{free_port()}"
    assert connect("contexts", "add", "here", url)[2] == "added here, the current context\n"
    assert connect("contexts", "add", "away", nowhere)[2] == "added away\n"
    file = tmp_path / "config" / "kconnect" / "contexts.toml"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert connect("connectors", "list")[0] == 0
    assert connect("connectors", "list", "--context", "away")[0] == 5
    monkeypatch.setenv("KCONNECT_CONTEXT", "away")
    assert connect("connectors", "list")[0] == 5
    assert connect("--context", "here", "connectors", "list")[0] == 0
    monkeypatch.setenv("KCONNECT_URL", url)
    assert connect("connectors", "list")[0] == 0
    monkeypatch.delenv("KCONNECT_URL")
    monkeypatch.delenv("KCONNECT_CONTEXT")
    assert connect("contexts", "use", "away")[0] == 0
    assert connect("connectors", "list")[0] == 5
    assert connect("contexts", "list", "-o", "name")[1] == "away\nhere\n"
    assert connect("contexts", "use", "hre")[::2] == (3, "Unknown context: hre\nHint: Did you mean here?\n")
    assert connect("contexts", "remove", "away")[0] == 0
    assert json.loads(connect("contexts", "list", "-o", "json")[1]) == [{"name": "here", "current": False, "url": url}]


def test_a_context_has_several_urls_and_the_next_is_asked_when_one_is_away(connect, url, monkeypatch, tmp_path):
    monkeypatch.delenv("KCONNECT_URL")
    away, gone = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    assert connect("contexts", "add", "prod", away, url, f"{url}/,{away}")[0] == 0
    assert json.loads(connect("contexts", "list", "-o", "json")[1]) == [
        {"name": "prod", "current": True, "url": f"{away},{url}"}
    ]
    assert connect("connectors", "list", "-o", "name")[1] == "lines\norders\n"
    assert connect("connectors", "pause", "orders")[::2] == (0, "paused orders\n")
    assert connect("connectors", "list", "--url", f"{away}, {url}", "-o", "name")[1] == "lines\norders\n"
    monkeypatch.setenv("KCONNECT_URL", f"{away},{gone}")
    code, _, err = connect("connectors", "list")
    sentence, hint = err.splitlines()
    assert (code, sentence) == (
        5,
        f"None of 2 workers answers: {away} (connection refused); {gone} (connection refused)",
    )
    assert hint.startswith("Hint: The URLs come from KCONNECT_URL. ")


def test_an_error_says_where_the_url_comes_from_that_it_is_about(connect, monkeypatch):
    monkeypatch.delenv("KCONNECT_URL")
    away = f"http://127.0.0.1:{free_port()}"
    connect("contexts", "add", "prod", away)
    assert "Hint: The URL comes from context prod. Is the worker running?" in connect("connectors", "list")[2]
    assert "Hint: Is the worker running?" in connect("connectors", "list", "--url", away)[2]
    monkeypatch.setenv("KCONNECT_URL", away)
    assert "Hint: The URL comes from KCONNECT_URL." in connect("connectors", "list")[2]
    connect("contexts", "remove", "prod")


def test_both_passwords_of_a_context_are_read_from_stdin(connect, url, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.StringIO("s3cret\n0pen\n"))
    both = ("--user", "ann", "--password-stdin", "--cert", "/etc/hosts", "--key-password-stdin")
    assert connect("contexts", "add", "guarded", url, *both)[0] == 0
    text = (tmp_path / "config" / "kconnect" / "contexts.toml").read_text()
    assert 'password = "s3cret"\n' in text
    assert 'key_password = "0pen"\n' in text
    code, _, err = connect(
        "contexts", "add", "x", url, "--cert", "/etc/hosts", "--key-password-stdin", "--key-password"
    )
    assert (code, err.splitlines()[0]) == (
        2,
        "Only one of --key-password, --key-password-stdin, --key-password-env, --key-password-file can be given",
    )


def test_a_contexts_password_is_never_shown(connect, url, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", io.StringIO("s3cret\n"))
    assert connect("contexts", "add", "guarded", url, "--user", "ann", "--password-stdin")[0] == 0
    assert "s3cret" in (tmp_path / "config" / "kconnect" / "contexts.toml").read_text()
    for form in ("table", "json", "yaml"):
        code, out, err = connect("contexts", "show", "guarded", "-o", form)
        assert code == 0
        assert "[hidden]" in out
        assert "s3cret" not in out + err
    assert "s3cret" not in connect("contexts", "list", "-o", "json")[1]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "No URL given"),
        (("ftp://x",), "is not the URL of a worker"),
        (("http://ann:pw@h:1",), "The URL has a user in it"),
        (("http://h", "--password-env", "X", "--password-file", "/etc/hosts"), "Only one of"),
        (("http://h", "--password-env", "X"), "has a password and no user"),
        (("https://h", "--ca", "/no/ca.pem"), "/no/ca.pem is not a file"),
        (("https://h", "--key", "/etc/hosts"), "has a key and no certificate"),
        (("http://h", "--user", "ann", "--password"), "there is no terminal"),
    ],
)
def test_a_context_that_makes_no_sense_is_refused(connect, args, said):
    code, _, err = connect("contexts", "add", "x", *args)
    assert code == 2
    assert said in err
    assert "pw" not in err.replace("--password", "")
    assert connect("contexts", "list", "-o", "json")[1] == "[]\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--url", "ftp://x"), "--url: ftp://x is not the URL of a worker"),
        (("--url", "http://h:8083,h:70000"), "--url: h:70000 is not the URL of a worker"),
        (("--url", ","), "--url: , is not the URL of a worker"),
        (("--url", ""), "--url is empty"),
        (("--context", " "), "--context is empty"),
        (("--key", "/etc/hosts"), "The command line has a key and no certificate"),
        (("--direct",), "No cluster was given"),
        (("--direct", "--worker", ""), "--worker is empty"),
        (("--direct", "--bootstrap-servers", ""), "--bootstrap-servers is empty"),
        (("--direct", "--bootstrap-servers", "h:0"), "Invalid port in --bootstrap-servers: h:0"),
        (("--direct", "--bootstrap-servers", "127.0.0.1:1"), "config.storage.topic of the cluster is not known"),
    ],
)
def test_a_wrong_argument_of_the_command_line_is_exit_code_2(connect, options, said):
    code, out, err = connect("connectors", "list", *options)
    assert (code, out, err.splitlines()[0]) == (2, "", said)


def test_a_wrong_url_names_the_variable_or_the_file_that_has_it(connect, monkeypatch, tmp_path):
    monkeypatch.setenv("KCONNECT_URL", "ftp://x")
    assert connect("connectors", "list")[::2] == (
        2,
        "KCONNECT_URL: ftp://x is not the URL of a worker\nHint: It looks like http://localhost:8083.\n",
    )
    file = tmp_path / "config" / "kconnect" / "contexts.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text('[contexts.prod]\nurl = "http://h:0"\n')
    code, _, err = connect("connectors", "list", "--context", "prod")
    assert (code, err.splitlines()[0]) == (1, f"{file}: context prod: http://h:0 is not the URL of a worker")


@pytest.fixture
def away(tmp_path):
    """A home with a context whose name is not ASCII."""
    cli_run("contexts", "add", "ünïcode🎉", "http://localhost:1", home=tmp_path, expect=0)
    return tmp_path


def shell(line, home, **env):
    """A line of a shell, in which `connect` is the command."""
    line = f'connect() {{ {shlex.join(connect_command())} "$@"; }}; {line}'
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, env=cli_env(home, env), timeout=ample_s(60), check=False
    )


@pytest.mark.parametrize("command", ["contexts list", "contexts list -o json", "--version", "--help"])
@pytest.mark.parametrize(("where", "why"), [("/dev/full", "No space left on device"), ("&-", "Bad file descriptor")])
def test_output_that_cannot_be_written_is_an_error_of_one_line(away, command, where, why):
    done = shell(f"connect {command} >{where}", away)
    assert (done.returncode, done.stderr.decode()) == (1, f"The output cannot be written: {why}\n")


def test_a_change_is_made_without_any_stream(away):
    assert shell("connect contexts remove ünïcode🎉 <&- >&- 2>&-", away).returncode == 0
    assert shell("connect contexts list -o name", away).stdout == b""


def test_signs_that_the_terminal_has_not_are_written_as_in_json(away):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (row,) = json.loads(shell("connect contexts list -o json", away, **ascii_only).stdout)
    assert row["name"] == "ünïcode🎉"
    table = shell("connect contexts list -o name", away, **ascii_only)
    assert (table.returncode, table.stdout) == (0, b"\\u00fcn\\u00efcode\\ud83c\\udf89\n")


def test_bytes_on_the_command_line_that_are_no_text_are_a_mistake_of_usage(away):
    done = shell("connect connectors show $(printf '\\377') --url http://localhost:1", away)
    assert (done.returncode, done.stderr.decode().splitlines()[0]) == (2, "'\\udcff' is not a text in utf-8")

"""Selections, status and wait, tasks, plugins, loggers, topics, completion: against a herder in memory."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from kconnect.model import Condition, TargetState, TaskCondition, TaskId
from kconnect.runtime.rest import RestServer
from kit.memory_herder import file_source
from kit.pace import ample_text, now
from kit.ports import free_port
from kit.waiting import eventually

TRACE = "org.x.ConnectException: Tolerance exceeded\n\tat a.B\nCaused by: java.io.IOException: disk is full\n\tat c.D\n"


def called(herder, method):
    return [call[1] for call in herder.calls if call[0] == method]


@pytest.mark.parametrize(
    ("args", "stopped"),
    [
        (("--all",), ["lines", "orders"]),
        (("-e", "l.*"), ["lines"]),
        (("--regexp", "o.*", ".*s"), ["orders", "lines"]),
        (("--all", "--failed"), ["orders"]),
        (("--all", "--state", "running", "--state", "FAILED"), ["lines", "orders"]),
        (("-e", ".*", "--state", "FAILED"), ["orders"]),
        (("lines", "--failed"), []),
    ],
)
def test_names_expressions_and_states_choose_connectors(connect, herder, args, stopped):
    herder.traces["orders"] = TRACE
    herder.calls.clear()
    code, _, err = connect("connectors", "stop", *args)
    assert (code, called(herder, "set_target_state")) == (0, stopped)
    assert stopped or err == "No connector is FAILED.\n"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((), 2, "Missing argument 'NAME'."),
        (("--failed",), 2, "Missing argument 'NAME'."),
        (("--all", "orders"), 2, "--all cannot be combined with names"),
        (("-e", "("), 2, "( is not a regular expression"),
        (("-e", "order"), 3, "No connector matches order"),
        (("--all", "--state", "SLEEPING"), 2, "Unknown state: SLEEPING"),
    ],
)
def test_a_selection_that_makes_no_sense_changes_nothing(connect, herder, args, code, said):
    herder.calls.clear()
    got, _, err = connect("connectors", "delete", "--yes", *args)
    assert got == code
    assert said in err
    assert called(herder, "delete_connector") == []


def test_restart_failed_all_restarts_only_what_failed(connect, herder):
    herder.traces["orders"] = TRACE
    herder.calls.clear()
    assert connect("connectors", "restart", "--failed", "--all")[::2] == (0, "restarted orders: task 0\n")
    assert [call for call in herder.calls if call[0] == "restart_by_plan"] == [
        ("restart_by_plan", "orders", True, True)
    ]
    assert connect("connectors", "restart", "--failed", "--all")[::2] == (0, "No connector is FAILED.\n")


def test_a_restart_says_what_it_left_and_how_that_is_restarted(connect, herder):
    more = "and no task: task 0 is still FAILED; connect connectors restart orders --include-tasks --only-failed\n"
    herder.traces["orders"] = TRACE
    assert connect("connectors", "restart", "orders", "--only-failed")[2] == (
        f"restarted nothing of orders: the connector itself has not FAILED, {more}"
    )
    herder.traces["orders"] = TRACE
    assert connect("connectors", "restart", "orders")[2] == f"restarted orders, {more}"
    herder.traces.clear()
    assert connect("connectors", "restart", "orders", "--tasks")[2] == "restarted orders: the connector and task 0\n"
    assert connect("connectors", "restart", "orders", "--tasks", "--only-failed")[2] == (
        "restarted nothing of orders: nothing of it has FAILED\n"
    )


def test_lists_are_filtered(connect, herder):
    herder.traces["orders"] = TRACE
    assert connect("connectors", "list", "--failed", "-o", "name")[1] == "orders\n"
    assert connect("connectors", "list", "-e", "l.*", "-o", "name")[1] == "lines\n"
    assert connect("connectors", "list", "line")[::2] == (3, "Unknown connector line\nHint: Did you mean lines?\n")


def test_status_shows_connectors_tasks_and_the_root_cause(connect, herder):
    herder.traces["orders"] = TRACE
    assert connect("connectors", "status")[1] == (
        "NAME     TASK   STATE     CONDITION   WORKER           WHY\n"
        "lines           RUNNING               127.0.0.1:8083\n"
        "lines    0      RUNNING               127.0.0.1:8083\n"
        "orders          RUNNING               127.0.0.1:8083\n"
        "orders   0      FAILED                127.0.0.1:8083   java.io.IOException: disk is full\n"
    )
    rows = json.loads(connect("connectors", "status", "--failed", "-o", "json")[1])
    assert [list(row) for row in rows] == [
        ["name", "task", "state", "worker_id"],
        ["name", "task", "state", "worker_id", "trace"],
    ]


def test_status_and_tasks_show_how_each_task_fares(connect, herder):
    since_ms = int((time.time() - 34) * 1000)
    herder.conditions[TaskId("orders", 0)] = TaskCondition(Condition.HEALTHY, since_ms)
    stuck = TaskCondition(
        Condition.STUCK, since_ms, 0, "Lines.poll() has not returned for 30 s, at a.py:3", "the stack"
    )
    herder.conditions[TaskId("lines", 0)] = stuck
    shown = connect("connectors", "status")[1]
    assert re.search(
        r"lines    0      RUNNING   stuck       127.0.0.1:8083   for \d\d s: Lines.poll\(\) has not", shown
    )
    assert "orders   0      RUNNING   healthy     127.0.0.1:8083\n" in shown
    assert re.search(r"lines    0      RUNNING   stuck       127.0.0.1:8083   for \d\d s", connect("tasks", "list")[1])
    row = next(row for row in json.loads(connect("tasks", "list", "-o", "json")[1]) if row["name"] == "lines")
    assert row["condition"] == stuck.to_json()
    page = connect("tasks", "show", "lines", "0")[1]
    lasted = re.match(r"lines task 0  RUNNING  127\.0\.0\.1:8083  stuck for (\d\d) s", page)
    assert lasted is not None, page
    assert int(lasted[1]) >= 30
    assert "stack\n  the stack\n" in page


def test_a_retrying_task_is_reported_with_its_attempts(connect, herder):
    since_ms = int((time.time() - 3_600) * 1000)
    herder.conditions[TaskId("lines", 0)] = TaskCondition(
        Condition.RETRYING, since_ms, 1012, "Lines.poll() raised X: y"
    )
    assert re.search(
        r"retrying    127\.0\.0\.1:8083   for 60 min \d+ s, 1,012 failed attempts: Lines\.poll\(\) raised X: y\n",
        connect("connectors", "status")[1],
    )


def test_wait_returns_when_the_state_is_reached(connect, herder):
    herder.set_target_state("orders", TargetState.PAUSED)
    timer = threading.Timer(0.3, lambda: herder.set_target_state("orders", TargetState.STARTED))
    timer.start()
    began = now()
    assert connect("connectors", "wait", "orders", "--state", "RUNNING", "--timeout", ample_text(10))[::2] == (
        0,
        "orders is RUNNING\n",
    )
    assert now() - began < 3
    timer.join()


def test_wait_gives_up_at_its_deadline_and_says_what_was_seen(connect, herder):
    herder.set_target_state("orders", TargetState.PAUSED)
    code, _, err = connect("connectors", "wait", "--all", "--timeout", "300ms")
    assert code == 6
    assert "Not RUNNING within 300ms: orders is PAUSED, task 0 PAUSED" in err


def test_wait_does_not_wait_for_what_failed_or_is_not_there(connect, herder):
    herder.traces["orders"] = TRACE
    code, _, err = connect("connectors", "wait", "orders")
    assert (code, err.splitlines()[0]) == (7, "orders task 0 FAILED: java.io.IOException: disk is full")
    assert connect("connectors", "wait", "nobody")[0] == 3
    assert connect("connectors", "wait", "orders", "--state", "FAILED")[0] == 0
    assert connect("connectors", "wait", "nobody", "--state", "GONE")[0] == 0
    assert connect("connectors", "wait", "orders", "--timeout", "soon")[0] == 2


def test_wait_goes_on_while_the_worker_starts_and_finds_what_is_created_meanwhile(connect, herder):
    herder.ready = False
    is_ready = herder.is_ready

    def answer():
        was_ready = is_ready()
        if not herder.ready:  # the next look finds it started
            herder.put_connector("late", file_source(name="late"), replace=False)
            herder.ready = True
        return was_ready

    herder.is_ready = answer
    code, _, err = connect("connectors", "wait", "late", "--timeout", ample_text(30))
    assert (code, err.splitlines()[1:]) == (0, ["late is RUNNING"])
    assert err.splitlines()[0].endswith("is still starting; waiting")


def test_wait_goes_on_while_nobody_listens_yet(connect, herder):
    port = free_port()
    server = RestServer(herder, [f"http://127.0.0.1:{port}"])
    starter = threading.Timer(0.2, server.start)
    starter.start()
    try:
        code, _, err = connect(
            "connectors", "wait", "-e", "ord.*", "--url", f"http://127.0.0.1:{port}", "--timeout", ample_text(30)
        )
    finally:
        starter.join()
        server.stop()
    assert code == 0
    assert err.endswith("orders is RUNNING\n")


def test_wait_for_a_worker_that_never_comes_ends_at_its_deadline_and_says_why(connect):
    url = f"http://127.0.0.1:{free_port()}"
    code, _, err = connect("connectors", "wait", "a", "--url", url, "--timeout", "3s")
    message = f"Nobody answers at {url} (connection refused)"
    assert (code, err.splitlines()[:2]) == (6, [f"{message}; waiting", f"Not RUNNING within 3s: {message}"])


class Rebalancing(BaseHTTPRequestHandler):
    """A worker in a rebalance: 409 to the first requests."""

    conflicts = 2

    def do_PUT(self):
        conflict = type(self).conflicts > 0
        type(self).conflicts -= 1
        body = b'{"error_code": 409, "message": "Cannot complete request momentarily due to stale configuration"}'
        self.send_response(409 if conflict else 202)
        self.send_header("content-length", str(len(body) if conflict else 0))
        self.end_headers()
        if conflict:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_rebalance_is_waited_for_as_long_as_is_asked(connect):
    with HTTPServer(("127.0.0.1", 0), Rebalancing) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert connect("--retry", "0", "connectors", "pause", "a", "--url", url)[0] == 4
        Rebalancing.conflicts = 2
        assert connect("connectors", "pause", "a", "--url", url)[::2] == (0, "paused a\n")
        Rebalancing.conflicts = 10_000
        began = now()
        assert connect("connectors", "pause", "a", "--url", url, "--retry", "400ms")[0] == 4
        assert now() - began < 8, "ten thousand conflicts take longer"
        server.shutdown()
        thread.join()


def test_topics_are_shown_and_reset(connect, herder):
    herder.topics["orders"] = ["t", "a"]
    assert connect("connectors", "topics", "orders", "-o", "name")[1] == "a\nt\n"
    assert connect("connectors", "reset-topics", "orders")[0] == 0
    assert json.loads(connect("connectors", "topics", "orders", "-o", "json")[1]) == []


def test_tasks_are_listed_shown_and_restarted(connect, herder):
    herder.traces["orders"] = TRACE
    assert connect("tasks", "list", "--failed")[1].splitlines()[1:] == [
        "orders   0      FAILED               127.0.0.1:8083   java.io.IOException: disk is full"
    ]
    shown = json.loads(connect("tasks", "show", "orders", "0", "-o", "json")[1])
    assert list(shown) == ["name", "task", "state", "worker_id", "trace", "config"]
    assert connect("tasks", "show", "orders", "7")[0] == 3
    herder.calls.clear()
    assert connect("tasks", "restart", "--failed", "--all")[::2] == (0, "restarted orders task 0\n")
    assert connect("task", "restart", "lines", "0")[0] == 0
    assert called(herder, "restart_task") == [TaskId("orders", 0), TaskId("lines", 0)]
    assert connect("tasks", "restart", "lines", "9")[0] == 3
    assert connect("tasks", "restart", "lines", "orders")[0] == 2


def test_plugins_are_listed_and_described(connect):
    assert connect("plugins", "list", "-o", "name")[1] == "kconnect.FileStreamSource\n"
    assert "kconnect.StringConverter" in connect("plugins", "list", "--type", "converter")[1]
    titles, row = connect("plugins", "list")[1].splitlines()
    assert titles.split() == ["CLASS", "TYPE", "VERSION", "LOCATION"]
    assert row.split() == ["kconnect.FileStreamSource", "source", "4.3.0", "/plugins/files"]
    assert json.loads(connect("plugins", "list", "-o", "json")[1])[0]["location"] == "/plugins/files"
    table = connect("plugins", "show", "FileStreamSource")[1]
    assert "\ntopic             string     required   high         Topic to write to.\n" in table
    code, _, err = connect("plugins", "show", "FileStreamSorce")
    assert code == 3
    assert "Did you mean kconnect.FileStreamSource?" in err


def test_validate_lists_what_is_wrong_and_creates_nothing(connect, herder, tmp_path):
    path = tmp_path / "c.properties"
    path.write_text("name=c\nconnector.class=FileStreamSource\nbatch.size=0\npin=1234\n")
    code, out, err = connect("plugins", "validate", str(path))
    assert code == 7
    assert out.startswith("c\nSETTING")
    assert "topic" in out
    assert re.search(r"\nbatch\.size +0 +must be at least 1, not 0\n", out)
    assert re.search(r"\ntopic +- +is required\n", out)
    assert "1234" not in out + err
    problems = json.loads(connect("plugins", "validate", str(path), "-o", "json")[1])
    assert {problem["setting"] for problem in problems} == {"topic", "batch.size"}
    path.write_text("name=c\nconnector.class=FileStreamSource\ntopic=t\n")
    assert connect("plugins", "validate", str(path))[::2] == (0, "c is valid\n")
    assert "c" not in herder.known


def test_a_connectors_own_kconnect_setting_is_known_when_it_is_misspelt(connect, tmp_path):
    path = tmp_path / "c.properties"
    path.write_text("name=c\nconnector.class=FileStreamSource\ntopic=t\nkconnect.task.stuck.after=5\n")
    message = "Unknown setting: kconnect.task.stuck.after. Did you mean kconnect.task.stuck.after.ms?"
    assert message in connect("plugins", "validate", str(path))[2]
    path.write_text("name=c\nconnector.class=FileStreamSource\ntopic=t\nkconnect.task.stuck.after.ms=5\n")
    assert "Unknown setting" not in connect("plugins", "validate", str(path))[2]


def test_loggers_are_listed_and_set(connect, herder):
    assert connect("loggers", "list")[1] == "LOGGER   LEVEL   CHANGED\nroot     INFO    -\n"
    assert json.loads(connect("loggers", "get", "root", "-o", "json")[1]) == {
        "name": "root",
        "level": "INFO",
        "last_modified": None,
    }
    assert connect("loggers", "set", "kconnect", "debug", "-o", "name")[:2] == (0, "kconnect\n")
    assert connect("loggers", "set", "kconnect", "debug", "--scope", "cluster")[0] == 0
    assert [call[3] for call in herder.calls if call[0] == "set_logger"] == [False, True]
    assert connect("loggers", "get", "kconect")[::2] == (3, "Logger kconect not found.\nHint: Did you mean kconnect?\n")
    assert connect("loggers", "set", "kconnect", "LOUD")[0] == 2


def test_plugins_are_shown_as_installed_here_when_no_worker_answers(connect, monkeypatch):
    away = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("KCONNECT_URL", away)
    code, out, err = connect("plugins", "show", "SqlSource")
    assert code == 0
    assert err == f"Nobody answers at {away} (connection refused): this is what is installed here.\n"
    rows = {line.split()[0]: line for line in out.splitlines()}
    assert "required" in rows["connection.url"]
    assert "tasks.max" in rows
    assert {"name", "type", "required", "default_value", "documentation"} <= set(
        json.loads(connect("plugins", "show", "HttpJsonSource", "-o", "json")[1])[0]
    )
    assert "SqlSinkConnector" in connect("plugins", "list", "-o", "name")[1]
    assert "replace.null.with.default" in connect("plugins", "show", "Cast$Key")[1], "as in configs"
    code, _, err = connect("plugins", "show", "SqlSnk")
    assert (code, "Did you mean" in err) == (3, True)


def complete(connect, *words):
    return [line.partition("\t")[0] for line in connect("complete", "--", *words)[1].splitlines()]


def live(connect, *words):
    """What is offered of a worker, which completion asks for less than a second: a busy machine needs another try."""
    return eventually(lambda: complete(connect, *words), why=f"something is offered behind {words}")


def test_completion_offers_commands_options_and_live_names(connect, herder):
    herder.put_connector("or der", file_source(), replace=False)
    assert complete(connect, "conn") == ["connectors"]
    assert "apply" in complete(connect, "connectors", "")
    assert live(connect, "connectors", "pause", "") == ["lines", "or der", "orders"]
    assert live(connect, "connectors", "pause", "orders", "l") == ["lines"]
    assert live(connect, "-o", "json", "connectors", "show", "o") == ["or der", "orders"]
    assert complete(connect, "connectors", "list", "--fai") == ["--failed"]
    assert complete(connect, "connectors", "list", "-o", "") == ["table", "json", "yaml", "name"]
    assert live(connect, "tasks", "restart", "orders", "") == ["0"]
    assert live(connect, "config", "get", "orders", "to") == ["topic"]
    assert live(connect, "config", "set", "orders", "to") == ["topic="]
    assert live(connect, "loggers", "set", "root", "DE") == ["DEBUG"]
    assert complete(connect, "connectors", "apply", "-f", "x") == [":files"]
    assert complete(connect, "nonsense", "x") == []


def test_completion_is_silent_and_quick_when_nobody_answers(connect, monkeypatch):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(1)
        monkeypatch.setenv("KCONNECT_URL", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        began = now()
        assert connect("complete", "--", "connectors", "pause", "")[::2] == (0, "")
        assert now() - began < 5.0, "completion has a deadline of its own, below a second"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_are_printed_for_each_shell(connect, shell):
    code, out, _ = connect("completion", shell)
    assert code == 0
    assert "connect complete --" in out
    assert connect("completion", "tcsh")[0] == 2


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("task", "lst"), "Did you mean: connect tasks list?"),
        (("contxts",), "Did you mean: connect contexts?"),
        (("connectors", "list", "--regxp"), "--regexp"),
        (("plugins", "lst"), "Did you mean: connect plugins list?"),
    ],
)
def test_wrong_words_have_suggestions(connect, args, said):
    code, _, err = connect(*args)
    assert code == 2
    assert said in err

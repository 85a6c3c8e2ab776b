"""The audit log: what a line has, what of it is hidden, and what happens when it cannot be written."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from kconnect.admin.served.routes import served_endpoints
from kconnect.api.rest_extension import USER
from kconnect.client.http_exchange import Response
from kconnect.errors import ConnectError, WrongWorkerError
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest.access.access import CALLER_HEADER, SIGNATURE_HEADER, Gatekeeper
from kconnect.runtime.rest.access.roles_file import RolesFile
from kconnect.runtime.rest.app import ENDPOINTS, AppSettings
from kconnect.runtime.rest.audit.entry import VIEWS
from kconnect.runtime.rest.audit.trail import AuditTrail, FileSink
from kconnect.runtime.rest.forward import Forwarder
from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder, file_source
from kit.waiting import eventually


class MemorySink:
    """Keeps lines; fails while `problem` is set."""

    where = "The audit log in memory"

    def __init__(self):
        self.lines: list[dict] = []
        self.problem: str | None = None
        self.was_tried = threading.Event()

    def write(self, line: bytes) -> None:
        self.was_tried.set()
        if self.problem:
            raise ConnectError(self.problem)
        assert line.endswith(b"\n")
        self.lines.append(json.loads(line))

    def close(self) -> None:
        pass


@pytest.fixture
def sink():
    return MemorySink()


@pytest.fixture
def trail(sink):
    trail = AuditTrail([sink], most_lines=5)
    trail.start()
    yield trail
    trail.stop()


@pytest.fixture
def ask(tmp_path, trail, sink):
    """One request, and the lines it leaves."""
    (tmp_path / "roles").write_text('[[grant]]\nrole="admin"\nusers=["ann"]\n[[grant]]\nrole="reader"\nusers=["bob"]\n')
    herder = MemoryHerder()
    herder.put_connector("a", {**file_source(), "name": "a", "pin": "1234", "db.password": "hunter22"}, replace=False)
    caller = RestCaller(herder, gatekeeper=Gatekeeper(RolesFile(tmp_path / "roles"), is_auditing=True), trail=trail)

    def ask(method, target, body=None, user="ann", **more):
        before = trail.written
        scope = {"client": ("10.0.0.7", 5000), **({USER: user} if user else {})}
        answer = caller.ask(method, target, body, scope=scope, **more)
        if method not in ("GET", "HEAD") and "validate" not in target:
            eventually(lambda: trail.written > before, 5, "the line is written")
        return answer, sink.lines[before:]

    yield ask
    caller.close()


def test_a_change_is_written_down_with_who_from_where_before_and_after_and_no_secret(ask):
    _, (line,) = ask("PATCH", "/connectors/a/config", {"topic": "new", "db.password": "s3same-open"})
    assert line["before"]["topic"] == "t"
    assert line["after"]["topic"] == "new"
    for config in (line["before"], line["after"]):
        assert config["pin"] == config["db.password"] == "[hidden]"
    kept = {key: line[key] for key in ("user", "from", "method", "path", "connector", "outcome", "status", "message")}
    assert kept == {
        "user": "ann",
        "from": "10.0.0.7",
        "method": "PATCH",
        "path": "/connectors/a/config",
        "connector": "a",
        "outcome": "done",
        "status": 200,
        "message": None,
    }
    assert len(line["request_id"]) == 16
    assert line["time"].endswith("+00:00")


def test_what_is_denied_or_refused_is_written_down_with_its_reason(ask):
    _, (denied,) = ask("DELETE", "/connectors/a", user="bob")
    assert (denied["outcome"], denied["user"], denied["status"]) == ("denied", "bob", 403)
    assert "lacks the role editor" in denied["message"]
    _, (unknown,) = ask("PUT", "/connectors/a/stop", user=None)
    assert (unknown["outcome"], unknown["user"]) == ("denied", "ANONYMOUS")
    _, (refused,) = ask("PUT", "/connectors/none/stop")
    assert (refused["outcome"], refused["status"], refused["connector"]) == ("refused", 404, "none")


def test_who_pretends_to_be_another_worker_is_written_down_with_the_address_it_came_from(ask):
    forged = {CALLER_HEADER: "bob", SIGNATURE_HEADER: "0" * 64}
    answer, (line,) = ask("DELETE", "/connectors/a", headers=forged)
    assert answer.status == 403
    assert (line["outcome"], line["from"], line["connector"]) == ("denied", "10.0.0.7", "a")
    assert "is not signed with this group's session key" in line["message"]
    _, (line,) = ask("PUT", "/connectors/%zz/pause")
    assert (line["outcome"], line["status"], line["connector"]) == ("refused", 400, None)


def test_reading_and_validating_leave_no_line(ask):
    assert ask("GET", "/connectors/a/config")[1] == []
    assert ask("PUT", "/connector-plugins/FileStreamSource/config/validate", file_source())[1] == []
    _, (line,) = ask("DELETE", "/connectors/a")
    assert line["before"]["topic"] == "t"
    assert line["after"] is None


def test_states_offsets_levels_and_new_connectors_are_shown_too(ask):
    _, (stopped,) = ask("PUT", "/connectors/a/stop")
    assert stopped["after"] == {"state": "STOPPED"}
    offsets = {"offsets": [{"partition": {"f": "x"}, "offset": {"p": 1}}]}
    _, (altered,) = ask("PATCH", "/connectors/a/offsets", offsets)
    assert (altered["before"], altered["after"]) == ([], offsets["offsets"])
    _, (reset,) = ask("DELETE", "/connectors/a/offsets")
    assert (reset["before"], reset["after"]) == (offsets["offsets"], None)
    _, (level,) = ask("PUT", "/admin/loggers/kconnect", {"level": "DEBUG"})
    assert level["after"] == {"level": "DEBUG", "scope": "worker"}
    replays = "/admin/connectors/a/dead-letters/replays"
    _, (replayed,) = ask("POST", replays, {"targets": {"orders": 3}})
    assert (replayed["connector"], replayed["after"]) == ("a", {"targets": {"orders": 3}})
    assert ask("POST", replays, {"targets": {"orders": "all"}})[0].status == 400
    _, (created,) = ask("POST", "/connectors", {"name": "b", "config": {**file_source(), "x.secret": "abcdef"}})
    assert (created["connector"], created["before"]) == ("b", None)
    assert created["after"]["x.secret"] == "[hidden]"


def test_every_change_of_the_table_of_routes_shows_what_it_changed():
    changes = {
        (method, endpoint.path)
        for endpoint in (*ENDPOINTS, *served_endpoints({}, lambda: PluginRegistry.load(None)))
        for method, operation in endpoint.handlers.items()
        if operation.is_change(method)
    }
    assert changes == set(VIEWS)


def test_lines_wait_while_the_sink_fails_and_what_does_not_fit_is_counted(sink, trail, caplog):
    sink.problem = "No space left on device"
    for number in range(7):
        trail.record(lambda number=number: json.dumps(number).encode() + b"\n")
    eventually(lambda: trail.problem is not None, 5, "it is reported")
    assert "No space left on device" in trail.problem
    assert trail.lost == 2
    assert not trail.refuses_changes
    assert trail.reasons() == ()
    sink.problem = None
    eventually(lambda: trail.written == 5, 5, "it is written again")
    assert sink.lines == [0, 1, 2, 3, 4]
    assert trail.problem is None
    assert [record.levelname for record in caplog.records if "cannot be written" in record.message] == ["ERROR"]


def test_where_it_is_required_nothing_is_changed_that_is_not_written_down(sink, tmp_path):
    trail = AuditTrail([sink], is_required=True)
    trail.start()
    herder = MemoryHerder()
    caller = RestCaller(herder, trail=trail, gatekeeper=Gatekeeper(is_auditing=True))
    sink.problem = "disk is gone"
    create = ("PUT", "/connectors/a/config", file_source())
    assert caller.ask(*create).status == 201  # the first one finds out
    eventually(lambda: trail.refuses_changes, 5, "the sink has failed")
    refused = caller.ask("DELETE", "/connectors/a")
    assert refused.status == 503
    assert "audit log cannot be written" in refused.message
    assert caller.ask("GET", "/connectors/a").status == 200
    (reason,) = trail.reasons()
    assert "disk is gone" in reason.sentence
    sink.problem = None
    eventually(lambda: not trail.refuses_changes, 5, "it is written again")
    assert caller.ask("DELETE", "/connectors/a").status == 204
    trail.stop()
    caller.close()
    assert [line["method"] for line in sink.lines] == ["PUT", "DELETE"]


def test_the_file_is_its_owners_and_older_ones_are_kept(tmp_path):
    file = tmp_path / "audit.log"
    old = os.umask(0)
    try:
        sink = FileSink(file, max_bytes=100, kept=2)
    finally:
        os.umask(old)
    for number in range(12):
        sink.write(f"{number:029d}\n".encode())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    lines = [Path(f"{file}{end}").read_text().split() for end in (".2", ".1", "")]
    assert [int(line) for part in lines for line in part] == list(range(3, 12))
    assert not Path(f"{file}.3").exists()
    file.rename(tmp_path / "moved")  # by logrotate
    sink.write(b"new\n")
    assert file.read_text() == "new\n"
    sink.close()


def test_a_line_that_does_not_fit_on_the_disk_leaves_no_part_of_it(tmp_path):
    sink = FileSink(tmp_path / "audit.log", max_bytes=10_000, kept=1)
    sink.write(b"first\n")
    sink.close()
    with pytest.raises(ConnectError, match="cannot be opened: Is a directory"):
        FileSink(tmp_path, 100, 1)
    full = FileSink(tmp_path / "audit.log", 10_000, 1)
    real = os.write
    full_disk = pytest.MonkeyPatch()
    full_disk.setattr(os, "write", lambda file, data: real(file, bytes(data[:3])) if len(data) > 4 else _full())
    try:
        with pytest.raises(ConnectError, match="No space left"):
            full.write(b"second\n")
    finally:
        full_disk.undo()
    assert (tmp_path / "audit.log").read_text() == "first\n"
    full.write(b"second\n")
    full.close()
    assert (tmp_path / "audit.log").read_text() == "first\nsecond\n"


def _full():
    raise OSError(28, "No space left on device")


class ApplicationPeer:
    """Another worker's application, reached by forwarding."""

    timeout_s = 60.0

    def __init__(self, worker: RestCaller) -> None:
        self._worker = worker

    def send(self, url, request, within_s=None, silence=None):
        answer = self._worker.ask(request.method, request.path, request.body or None, headers=dict(request.headers))
        return Response(answer.status, answer.body, answer.headers)

    def close(self):
        pass


@pytest.mark.parametrize("is_java", [False, True], ids=["ours", "java"])
def test_a_forwarded_change_is_in_the_history_once_with_its_user(is_java, sink, trail):
    """By the worker that does it; by the one that forwarded it where that one keeps none, as Java's."""
    leader, herder, kept = MemoryHerder(), MemoryHerder(), MemorySink()
    keeping = AuditTrail([kept])
    keeping.start()
    behind = RestCaller(leader, changes=None if is_java else keeping)
    forwarder = Forwarder(ApplicationPeer(behind), 3.0)
    front = RestCaller(herder, forwarder=forwarder, changes=trail)
    scope = {"client": ("10.0.0.7", 5000), USER: "ann"}
    moves = [
        ("put_connector", "PUT", "/connectors/a/config", file_source()),
        ("put_connector", "POST", "/connectors", {"name": "b", "config": file_source()}),
        ("delete_connector", "DELETE", "/connectors/b", None),
    ]
    try:
        herder.put_connector("b", {**file_source(), "name": "b"}, replace=False)  # as the config topic has it then
        for method, *request in moves:
            herder.failures[method] = WrongWorkerError("Only the leader can do it.", "http://leader:8083")
            answer = front.ask(*request, scope=scope)
            assert answer.status < 300, answer
        eventually(lambda: len(sink.lines) + len(kept.lines) >= len(moves), 5, "they are written down")
    finally:
        front.close()
        behind.close()
        forwarder.close()
        keeping.stop()
    lines, others = (sink.lines, kept.lines) if is_java else (kept.lines, sink.lines)
    assert others == []
    assert [(line["connector"], line["action"]) for line in lines] == [("a", "put"), ("b", "create"), ("b", "delete")]
    if is_java:
        assert {(line["user"], line["from"]) for line in lines} == {("ann", "10.0.0.7")}
        assert lines[2]["before"]["topic"] == "t"


def test_a_change_that_was_carried_out_after_its_deadline_is_in_the_history(sink, trail):
    herder = MemoryHerder()
    herder.held.add("put_connector")
    caller = RestCaller(herder, AppSettings(request_timeout_s=0.05), changes=trail)
    try:
        answer = caller.ask("PUT", "/connectors/a/config", file_source())
        assert answer.status == 500
        assert sink.lines == []
        herder.gate.set()
        eventually(lambda: [line["connector"] for line in sink.lines] == ["a"], 5, "it is written down")
    finally:
        herder.gate.set()
        caller.close()

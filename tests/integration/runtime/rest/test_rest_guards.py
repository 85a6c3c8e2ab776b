"""Guards on real sockets: callers of forwarded requests, the audit log of a cluster, limits, slow and many clients."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import time
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from kconnect.client.trust import trusting
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.metrics import prometheus_text
from kconnect.runtime.rest import RestOptions, RestServer
from kconnect.runtime.rest.access.access import CALLER_HEADER, SIGNATURE_HEADER, Gatekeeper
from kconnect.runtime.rest.access.principals import PrincipalRules
from kconnect.runtime.rest.access.roles_file import RolesFile
from kconnect.runtime.rest.audit.trail import AuditTrail, FileSink, TopicSink
from kconnect.runtime.rest.connection import ConnectionLimits
from kconnect.runtime.rest.jaas import Login
from kconnect.runtime.rest.tls import peer_context, server_context
from kit.certificates import Authority
from kit.memory_herder import MemoryHerder, file_source
from kit.pace import ample_s
from kit.rest_cluster import rest_cluster
from kit.topics import consume_values
from kit.waiting import eventually

ROLES = '[[grant]]\nrole="admin"\nusers=["ann"]\n[[grant]]\nrole="operator"\nusers=["bob"]\n'


def ask(url, method, path, body=None, *, headers=None, cert=None, ca=None):
    address = urlsplit(url)
    if address.scheme == "https":
        context = trusting(ca)
        if cert:
            context.load_cert_chain(cert)
        connection = http.client.HTTPSConnection(address.netloc, context=context, timeout=ample_s(10))
    else:
        connection = http.client.HTTPConnection(address.netloc, timeout=ample_s(10))
    sent = {"Content-Type": "application/json", **(headers or {})}
    connection.request(method, path, None if body is None else json.dumps(body), sent)
    response = connection.getresponse()
    raw = response.read()
    connection.close()
    return response.status, dict(response.getheaders()), json.loads(raw) if raw else None


@pytest.fixture
def guarded(tmp_path):
    """Two workers that know callers by certificate, with roles and audit logs: `ask(worker, user, ...)`, `lines(n)`."""
    authority = Authority()
    ca = str(authority.file(tmp_path / "ca.pem"))
    tls = {
        "ssl.keystore.location": str(authority.sign("worker").pem_file(tmp_path / "w.pem")),
        "ssl.truststore.location": ca,
        "ssl.client.auth": "required",
    }
    settings = {f"listeners.https.{key}": value for key, value in tls.items()}
    (tmp_path / "roles").write_text(ROLES)
    certs = {name: str(authority.sign(name).pem_file(tmp_path / f"{name}.pem")) for name in ("ann", "bob", "eve")}
    with rest_cluster({"bootstrap.servers": "localhost:9092", **settings}) as cluster:
        files = [tmp_path / "audit-0", tmp_path / "audit-1"]
        workers = []
        for file in files:
            rules = PrincipalRules.parse("RULE:^CN=(.*)$/$1/")
            options = RestOptions(
                tls=server_context(settings),
                peer_tls=peer_context(settings),
                gatekeeper=Gatekeeper(RolesFile(tmp_path / "roles"), rules, is_auditing=True),
                trail=AuditTrail([FileSink(file, 1_000_000, 1)]),
            )
            workers.append(cluster.add(options=options))

        def of(number, user, *args, **more):
            return ask(workers[number].url, *args, cert=certs[user], ca=ca, **more)

        def lines(number, count):
            def found():
                return [json.loads(line) for line in files[number].read_text().splitlines()]

            eventually(lambda: len(found()) >= count, 5, "the lines are written")
            return found()

        yield workers, of, lines


def test_the_leader_takes_the_word_of_a_worker_for_who_calls_and_the_change_is_written_down_once(guarded):
    (leader, follower), of, lines = guarded
    assert leader.herder.is_leader
    assert not follower.herder.is_leader
    status, headers, _ = of(1, "ann", "PUT", "/connectors/c/config", {**file_source(), "db.password": "hunter22"})
    assert status == 201
    assert headers["etag"].startswith('"c-')
    status, _, body = of(1, "bob", "DELETE", "/connectors/c")
    assert (status, "User bob lacks the role editor for connector c" in body["message"]) == (403, True)
    assert of(1, "bob", "PUT", "/connectors/c/stop")[0] == 204
    assert of(0, "ann", "DELETE", "/connectors/c")[0] == 204
    kept = [(line["user"], line["method"], line["path"], line["outcome"]) for line in lines(1, 3)]
    assert kept == [
        ("ann", "PUT", "/connectors/c/config", "done"),
        ("bob", "DELETE", "/connectors/c", "denied"),
        ("bob", "PUT", "/connectors/c/stop", "done"),
    ]
    assert lines(1, 3)[0]["after"]["db.password"] == "[hidden]"
    assert [(line["user"], line["method"], line["connector"]) for line in lines(0, 1)] == [("ann", "DELETE", "c")]


def test_nobody_else_can_say_who_calls(guarded):
    (leader, _), of, _ = guarded
    claims = {
        "user": "ann",
        "address": "",
        "id": "1",
        "audited": True,
        "body": "",
        "method": "GET",
        "target": "/",
        "at": 0,
    }
    stated = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
    for signature in ("00" * 32, ""):
        forged = {CALLER_HEADER: stated, SIGNATURE_HEADER: signature}
        status, _, body = of(0, "eve", "DELETE", "/connectors/c", headers=forged)
        assert (status, "session key" in body["message"]) == (403, True)
    key = leader.herder.session_key
    assert key is not None
    assert of(0, "eve", "POST", "/connectors/c/tasks", [])[0] == 400  # unsigned
    wrong = {"X-Connect-Authorization": "AAAA", "X-Connect-Request-Signature-Algorithm": "HmacSHA256"}
    assert of(0, "eve", "POST", "/connectors/c/tasks", [], headers=wrong)[0] == 403


def test_lists_of_a_cluster_show_what_the_caller_of_the_first_worker_may_see(guarded):
    _, of, _ = guarded
    assert of(1, "ann", "PUT", "/connectors/c/config", file_source())[0] == 201
    for number in (0, 1):
        status, _, workers = of(number, "bob", "GET", "/admin/workers")
        assert status == 200
        assert [worker["answers"] for worker in workers] == [True, True]
    assert of(0, "eve", "GET", "/admin/workers")[0] == 403


def test_who_asks_too_often_is_reported_when_to_come_back_and_others_are_not_held_up():
    login = Login([("required", {"ann": "p", "bob": "p"})])
    options = RestOptions(rate=(0.01, 3), login=login)  # so slow that no time of the test's makes room for one more

    def asked(user, password="p", path="/connectors"):
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        return ask(server.urls[0], "GET", path, headers={"Authorization": f"Basic {token}"})

    with RestServer(MemoryHerder(), ["http://127.0.0.1:0"], None, options) as server:
        began = time.monotonic()
        assert [asked("ann")[0] for _ in range(5)] == [200, 200, 200, 429, 429]
        _, headers, body = asked("ann")
        assert 99 - (time.monotonic() - began) <= int(headers["retry-after"]) <= 100
        assert body["message"].startswith("User ann asks too often (setting kconnect.rest.requests.per.second")
        assert asked("bob")[0] == 200
        assert [asked("bob", "wrong")[0] for _ in range(4)] == [401, 401, 401, 429]
        text = prometheus_text(server._guards.readings())
    assert "kafka_connect_worker_rest_metrics_requests_limited_total 4" in text
    assert "kafka_connect_worker_rest_metrics_requests_denied_total 4" in text


def test_a_client_that_does_not_end_its_request_is_sent_away():
    options = RestOptions(connections=ConnectionLimits(request_read_s=1.0))  # the last request is to be in time
    with RestServer(MemoryHerder(), ["http://127.0.0.1:0"], None, options) as server:
        address = (urlsplit(server.urls[0]).hostname, urlsplit(server.urls[0]).port)
        for sent in (
            b"",
            b"GET / HT",
            b"GET / HTTP/1.1\r\nHost: x\r\nX: ",
            b"PUT /connectors/a/config HTTP/1.1\r\nHost: x\r\n"
            b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        ):
            with socket.create_connection(address, timeout=ample_s(5)) as sock:
                sock.sendall(sent)
                answer = b""
                while chunk := sock.recv(1000):
                    answer += chunk
            assert answer.startswith(b"HTTP/1.1 408 Request Timeout"), sent
        assert ask(server.urls[0], "GET", "/")[0] == 200


def test_connections_and_headers_beyond_the_limits_are_refused():
    options = RestOptions(connections=ConnectionLimits(max_connections=2, max_header_bytes=2000))
    with RestServer(MemoryHerder(), ["http://127.0.0.1:0"], None, options) as server:
        address = (urlsplit(server.urls[0]).hostname, urlsplit(server.urls[0]).port)
        status, _, body = ask(server.urls[0], "GET", "/?" + "a" * 3000)
        assert (status, "kconnect.rest.max.header.bytes" in body["message"]) == (431, True)
        with socket.create_connection(address), socket.create_connection(address):
            eventually(lambda: _refused(address), 5, "a third one is refused")
        eventually(lambda: not _refused(address), 5, "there is room again")


def _refused(address) -> bool:
    with socket.create_connection(address, timeout=ample_s(5)) as sock:
        sock.settimeout(0.5)
        try:
            return sock.recv(1000).startswith(b"HTTP/1.1 503")
        except TimeoutError:
            return False


def test_a_broken_file_of_roles_and_an_audit_log_that_fails_are_reported_by_health_and_metrics(tmp_path):
    (tmp_path / "roles").write_text('[[grant]]\nrole="admin"\nusers=["ANONYMOUS"]\n')
    clock = [0.0]
    roles = RolesFile(tmp_path / "roles", lambda: clock[0])
    (tmp_path / "folder-to-go").mkdir()
    sink = FileSink(tmp_path / "folder-to-go" / "audit", 1000, 1)
    trail = AuditTrail([sink])
    options = replace(RestOptions(), gatekeeper=Gatekeeper(roles, is_auditing=True), trail=trail)
    with RestServer(MemoryHerder(), ["http://127.0.0.1:0"], None, options) as server:
        url = server.urls[0]
        assert ask(url, "GET", "/health")[2]["message"].endswith("ready to handle requests.")
        (tmp_path / "roles").write_text("[[grant]]\nrole=1")
        (tmp_path / "folder-to-go" / "audit").unlink()
        (tmp_path / "folder-to-go").rmdir()
        clock[0] = 5.0
        assert ask(url, "PUT", "/connectors/a/config", file_source())[0] == 201
        eventually(lambda: trail.problem is not None, 5, "the audit log fails")
        status, _, body = ask(url, "GET", "/health")
        assert status == 200
        assert "The roles from before stay in force" in body["message"]
        assert "line 2: Unknown role: 1" in body["message"]
        assert "Changes are not written down: The audit log" in body["message"]
        text = prometheus_text(server._guards.readings())
        assert "rest_metrics_roles_current 0" in text
        assert "rest_metrics_audit_written 0" in text
        (tmp_path / "folder-to-go").mkdir()
        eventually(lambda: trail.written == 1, 5, "it is written once there is room")


@pytest.mark.broker
def test_a_topic_gets_the_lines_with_the_connector_as_key(broker, topic):
    settings = {"bootstrap.servers": broker.bootstrap}
    sink = TopicSink(topic, lambda: internal_clients(settings, client_id="audit-log").producer)
    trail = AuditTrail([sink])
    options = RestOptions(gatekeeper=Gatekeeper(is_auditing=True), trail=trail)
    with RestServer(MemoryHerder(), ["http://127.0.0.1:0"], None, options) as server:
        assert ask(server.urls[0], "PUT", "/connectors/a/config", file_source())[0] == 201
        assert ask(server.urls[0], "DELETE", "/connectors/a")[0] == 204
        eventually(lambda: trail.written == 2, 20, "the lines are acknowledged")
    first, second = (json.loads(value) for value in consume_values(broker.bootstrap, topic, 2) if value is not None)
    assert (first["method"], first["connector"], first["after"]["topic"]) == ("PUT", "a", "t")
    assert (second["method"], second["user"], second["before"]["topic"]) == ("DELETE", "ANONYMOUS", "t")

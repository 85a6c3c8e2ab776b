"""Every route of a real server without a login, and where secrets must not be: logs, metrics, audit log, errors."""

from __future__ import annotations

import base64
import http.client
import json
import logging
import re
from urllib.parse import urlsplit

import pytest

from kconnect.admin.console.console import ROUTES, worker_console
from kconnect.runtime.rest import RestOptions, RestServer
from kconnect.runtime.rest.access.access import Gatekeeper
from kconnect.runtime.rest.app import ENDPOINTS
from kconnect.runtime.rest.audit.trail import AuditTrail, FileSink
from kconnect.runtime.rest.jaas import Login
from kit.memory_herder import MemoryHerder, file_source
from kit.pace import ample_s
from kit.waiting import eventually

LOGIN = Login([("required", {"ann": "s3same-open"})])
SIGNED = {("POST", "/connectors/{name}/tasks"), ("PUT", "/connectors/{name}/fence")}
SECRET = "hunter22-hunter22"


def ask(url, method, target, body=None, headers=None):
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ample_s(10))
    connection.putrequest(method, target, skip_accept_encoding=True)
    raw = b"" if body is None else json.dumps(body).encode()
    for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **(headers or {})}.items():
        connection.putheader(name, value)
    connection.endheaders(raw)
    response = connection.getresponse()
    answer = response.status, dict(response.getheaders()), response.read()
    connection.close()
    return answer


def login(password="s3same-open"):
    return {"Authorization": "Basic " + base64.b64encode(f"ann:{password}".encode()).decode()}


def test_every_route_without_credentials_is_401():
    options = RestOptions(login=LOGIN)
    with RestServer(MemoryHerder(), ["http://127.0.0.1:0"], None, options, worker_console) as server:
        routes = [(method, endpoint.path) for endpoint in ENDPOINTS for method in endpoint.handlers]
        routes += [(method, f"/ui{route.path}") for route in ROUTES for method in route.handlers]
        routes += [
            ("GET", path) for path in ("/openapi.json", "/ui/static/console.css", "/none", "/ui/none", "//", "/x/..")
        ]
        assert len(routes) > 50
        for method, path in routes:
            target = re.sub(r"\{\w+}", "x", path)
            for headers in ({}, login("wrong"), {"X-KConnect-Caller": "e30=", "X-KConnect-Caller-Signature": "00"}):
                status, sent, _ = ask(server.urls[0], method, target, headers=headers)
                if (method, path) in SIGNED:
                    assert status in (204, 400, 403, 404), (method, path)  # checked by its signature instead
                else:
                    assert (status, sent["www-authenticate"][:5]) == (401, "Basic"), (method, path, headers)
        status, _, _ = ask(server.urls[0], "GET", "/connectors", headers=login())
        assert status == 200


@pytest.mark.parametrize(
    "target",
    [
        "/../etc/passwd",
        "/connectors/../../etc/passwd",
        "/ui/static/../../../etc/passwd",
        "/ui/static/..%2f..%2fsecurity.py",
        "/connectors/..%2F..%2Fetc%2Fpasswd",
        "/connectors/%2e%2e/config",
    ],
)
def test_no_path_leads_out_of_the_table_of_routes(target):
    with RestServer(MemoryHerder(), ["http://127.0.0.1:0"], None, RestOptions(), worker_console) as server:
        status, _, body = ask(server.urls[0], "GET", target)
        assert status in (400, 404), body
        assert b"root:" not in body
        assert b"import" not in body


def test_a_secret_of_a_config_is_in_no_log_metric_audit_line_status_or_error(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    trail = AuditTrail([FileSink(tmp_path / "audit", 1_000_000, 1)])
    options = RestOptions(login=LOGIN, trail=trail, gatekeeper=Gatekeeper(is_auditing=True))
    config = {**file_source(), "pin": SECRET, "db.password": SECRET}
    with RestServer(MemoryHerder(), ["http://127.0.0.1:0"], None, options) as server:

        def answer(method, target, body=None):
            return ask(server.urls[0], method, target, body, login())

        assert answer("PUT", "/connectors/a/config", config)[0] == 201
        assert answer("PATCH", "/connectors/a/config", {"db.password": SECRET + "2"})[0] == 200
        reported = [answer("POST", "/connectors", {"name": "a", "config": config})[2]]
        reported += [answer("PUT", "/connectors/a/config", config | {"topic": None})[2]]
        reported += [answer("GET", path)[2] for path in ("/connectors/a/status", "/metrics", "/health", "/connectors")]
        reported += [answer("DELETE", "/connectors/a")[2]]
        eventually(lambda: trail.written == 5, 5, "all changes are written down")
    reported += [(tmp_path / "audit").read_bytes(), caplog.text.encode()]
    for text in reported:
        assert SECRET.encode() not in text
        assert b"s3same-open" not in text

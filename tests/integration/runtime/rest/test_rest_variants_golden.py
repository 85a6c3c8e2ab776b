"""CORS, response headers, admin listeners, advertised host beside what Java 4.3 answered (rest/variants.json)."""

from __future__ import annotations

import email.utils
import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kconnect.runtime.config import StandaloneConfig
from kconnect.runtime.rest import BoundListener, RestOptions, RestServer, advertised_address
from kit.differences import hold_alike
from kit.memory_herder import MemoryHerder, file_source
from kit.pace import ample_s
from kit.places import GOLDEN

RUNS = json.loads((GOLDEN / "rest/variants.json").read_text())
ADMIN_PORT = 28084
# Exchanges of the recording that show transport, by run; the rest is about validation and request signatures.
ENTRIES = {
    "eos": [
        "create_required",
        "status",
        "cors_get",
        "cors_other_origin",
        "cors_preflight",
        "cors_preflight_post",
        "404_headers",
        "admin_on_main",
        "admin_on_admin",
        "connectors_on_admin",
        "root_on_admin",
        "health_on_admin",
        "delete",
    ],
    "none": ["create", "admin_disabled", "cors_star", "delete"],
}
# Jetty names itself; lengths are those of bodies with other contents; tags of configs are ours
NOT_COMPARED = {"server", "date", "content-length", "transfer-encoding", "location", "etag"}


@pytest.fixture(params=sorted(ENTRIES))
def run(request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, Any], RestServer]]:
    """A recorded run, and our server with the settings of its worker."""
    recorded = next(run for run in RUNS if run["run"] == request.param)
    settings = {
        **recorded["worker_properties"],
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": "x",
    }
    if settings.get("admin.listeners"):
        settings["admin.listeners"] = "http://127.0.0.1:0"
    config = StandaloneConfig.parse(settings, lambda name: name)
    with RestServer(MemoryHerder(), config.listeners, None, RestOptions.parse(config, {})) as server:
        yield recorded, server


def test_status_and_headers_are_those_of_java(run: tuple[dict[str, Any], RestServer]) -> None:
    recorded, server = run
    named = ENTRIES[recorded["run"]]

    def compare(entry: dict[str, Any]) -> None:
        status, headers, body = _replayed(server, entry)
        assert status == entry["status"]
        assert _comparable(headers) == _comparable(entry["response_headers"])
        if status == 404:
            assert body == entry["response_body"].encode()

    entries = [(entry["name"], entry) for entry in recorded["entries"] if entry["name"] in named]
    assert hold_alike(entries, compare) == len(named)


def test_the_advertised_host_and_port_are_the_workers_id() -> None:
    recorded = next(run for run in RUNS if run["run"] == "eos")
    status = next(entry for entry in recorded["entries"] if entry["name"] == "status")
    host, port = advertised_address(recorded["worker_properties"], [BoundListener("http", "127.0.0.1", 28083)])
    assert json.loads(status["response_body"])["connector"]["worker_id"] == f"{host}:{port}"


def _replayed(server: RestServer, entry: Mapping[str, Any]) -> tuple[int, dict[str, str], bytes]:
    url = server.admin_urls[0] if entry["port"] == ADMIN_PORT else server.urls[0]
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=ample_s(10))
    body = entry["request_body"]
    if entry["method"] == "POST" and entry["path"] == "/connectors":
        body = json.dumps({"name": "vsrc", "config": file_source()})
    try:
        connection.request(entry["method"], entry["path"], body, entry["request_headers"])
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def _comparable(headers: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in headers.items():
        name = name.lower()
        if name == "access-control-allow-methods":
            found[name] = set(value.split(","))  # a set in Java, in no order
        elif name == "x-d":
            found[name] = "a date" if email.utils.parsedate_to_datetime(value) else value
        elif name not in NOT_COMPARED:
            found[name] = value
    return found

"""REST extensions written in Python, on a real HTTP server."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from kconnect.api import (
    ConnectRestExtension,
    ConnectRestExtensionContext,
    NotFoundError,
    RestRequest,
    RestResponse,
)
from kconnect.api.rest_extension import AsgiApp, Receive, Scope, Send
from kconnect.errors import ConfigError
from kconnect.runtime.config import StandaloneConfig
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest import RestOptions, RestServer
from kit.memory_herder import MemoryHerder
from kit.pace import ample_s

CLOSED: list[str] = []


class Inventory(ConnectRestExtension):
    """Answers what it may read of the cluster, and what it was asked."""

    def configure(self, configs: Mapping[str, str]) -> None:
        self._team = configs["inventory.team"]

    def register(self, context: ConnectRestExtensionContext) -> None:
        self._state = context.cluster_state()
        context.add_route("/inventory", self.show)
        context.add_route("/inventory/{name}", self.change, methods=("POST", "DELETE"))
        context.add_route("/connectors", lambda request: RestResponse("mine"))

    def show(self, request: RestRequest) -> RestResponse:
        body: dict[str, Any] = {"team": self._team, "cluster": self._state.kafka_cluster_id()}
        for name in self._state.connectors():
            health = self._state.connector_health(name)
            states = [health.connector_state.state, *(task.state for task in health.tasks_state.values())]
            body[name] = [str(health.type), *states, self._state.connector_config(name)["topic"]]
        return RestResponse(body)

    def change(self, request: RestRequest) -> RestResponse:
        match request.path_parts["name"]:
            case "unknown":
                raise NotFoundError("there is no unknown")
            case "broken":
                raise RuntimeError("on purpose")
        message = f"{request.method} {request.query} {request.headers['x-who']} "
        return RestResponse(message.encode() + request.body, 201, {"x-answer": "yes"})

    def close(self) -> None:
        CLOSED.append("Inventory")


class Guard(ConnectRestExtension):
    """Lets nobody in who does not say please."""

    def register(self, context: ConnectRestExtensionContext) -> None:
        context.add_middleware(self.around)

    def around(self, app: AsgiApp) -> AsgiApp:
        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            if (b"please", b"1") in scope["headers"]:
                await app(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": 403, "headers": []})
            await send({"type": "http.response.body", "body": b"say please"})

        return guarded

    def close(self) -> None:
        CLOSED.append("Guard")
        raise RuntimeError("on purpose")


class Broken(ConnectRestExtension):
    def register(self, context: ConnectRestExtensionContext) -> None:
        raise RuntimeError("on purpose")


def options(names: str, **settings: str) -> RestOptions:
    given = {"rest.extension.classes": names, "listeners": "http://127.0.0.1:0", **settings}
    worker = {"bootstrap.servers": "b:1", "key.converter": "StringConverter", "value.converter": "StringConverter"}
    config = StandaloneConfig.parse({**worker, "offset.storage.file.filename": "f", **given})
    return RestOptions.parse(config, {}, PluginRegistry.load())


def ask(url: str, method: str, path: str, body: bytes | None = None, **headers: str) -> tuple[int, str, Any]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ample_s(5))
    try:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response.status, response.getheader("x-answer", ""), response.read().decode()
    finally:
        connection.close()


def test_an_extension_answers_its_routes_and_guards_all_of_them() -> None:
    CLOSED.clear()
    herder = MemoryHerder()
    herder.put_connector("c", {"name": "c", "connector.class": "FileStreamSource", "topic": "t"}, replace=False)
    names = f"{__name__}:Guard, {__name__}:Inventory"
    wanted = options(names, **{"inventory.team": "data", "admin.listeners": "http://127.0.0.1:0"})
    with RestServer(herder, ["http://127.0.0.1:0"], None, wanted) as server:
        url, admin = server.urls[0], server.admin_urls[0]
        refused = (403, "", "say please")
        assert ask(url, "GET", "/connectors") == ask(url, "GET", "/inventory") == refused
        assert ask(admin, "GET", "/admin/loggers") == refused
        assert ask(url, "GET", "/connectors", please="1") == (200, "", '["c"]'), "Connect's own routes come first"
        status, _, body = ask(url, "GET", "/inventory", please="1")
        assert status == 200
        assert json.loads(body) == {
            "team": "data",
            "cluster": herder.server_info().kafka_cluster_id,
            "c": ["source", "RUNNING", "RUNNING", "t"],
        }
        assert ask(url, "POST", "/inventory/x?a=1&a=2", b"<xml/>", please="1", x_who="me") == (
            201,
            "yes",
            "POST [('a', '1'), ('a', '2')] me <xml/>",
        )
        assert json.loads(ask(url, "DELETE", "/inventory/unknown", please="1")[2]) == {
            "error_code": 404,
            "message": "there is no unknown",
        }
        assert ask(url, "DELETE", "/inventory/broken", please="1")[0] == 500
        assert ask(url, "POST", "/inventory/x", bytes(9 * 1024 * 1024), please="1", x_who="me")[0] == 413
        assert ask(url, "GET", "/nowhere", please="1")[0] == 404
    assert CLOSED == ["Guard", "Inventory"]


@pytest.mark.parametrize(
    ("name", "reported"),
    [
        ("com.example.Guard", "a Java class cannot run here"),
        (f"{__name__}:Inventory", "Inventory cannot be set up: KeyError"),
        ("kconnect.api:ConfigDef", "ConfigDef is not a ConnectRestExtension"),
    ],
)
def test_an_extension_that_cannot_run_here_is_refused(name: str, reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        options(name)


def test_an_extension_that_cannot_register_keeps_the_server_from_starting() -> None:
    server = RestServer(MemoryHerder(), ["http://127.0.0.1:0"], None, options(f"{__name__}:Broken"))
    with pytest.raises(ConfigError, match=r"Broken\.register\(\) raised RuntimeError: on purpose"):
        server.start()

"""Each role on each route, computed from the table of routes, so that a new route is met here before it is served."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kconnect.admin.served.routes import served_endpoints
from kconnect.api.rest_extension import USER
from kconnect.errors import ConnectError
from kconnect.runtime.herder.interface import SlotInfo
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest.access.access import Gatekeeper
from kconnect.runtime.rest.access.needs import Of, Role
from kconnect.runtime.rest.access.roles_file import RolesFile
from kconnect.runtime.rest.app import ENDPOINTS, create_app
from kconnect.runtime.rest.exchange import Answer, Endpoint
from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder, file_source

ANY_FILE = 'files = ["/"]\n'
ROLES = "".join(
    f'[[grant]]\nrole = "{role}"\nusers = ["{role}"]\n{ANY_FILE if role is Role.EDITOR else ""}' for role in Role
) + ('[[grant]]\nrole = "editor"\nusers = ["eve"]\nconnectors = ["eves-*"]\n' + ANY_FILE)
SERVED = served_endpoints({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}, lambda: PluginRegistry.load(None))
BY_TOPIC = "/admin/topics/{topic}/records"  # a role is not enough for it: its grant names topics
ROUTES = (*ENDPOINTS, *(route for route in SERVED if route.path != BY_TOPIC))
OPERATIONS = [(method, endpoint.path) for endpoint in ROUTES for method in endpoint.handlers]
PEERS = [("POST", "/connectors/{name}/tasks"), ("PUT", "/connectors/{name}/fence")]
# What the routes are for, said once more and by other means than where they are declared
FREE = {"/", "/health", "/connector-plugins", "/connector-plugins/{plugin}/config"}
OPERATING = {"pause", "resume", "stop", "restart", "reset"}
PRIVATE = {"/admin/connectors/{name}/dead-letters", "/admin/connectors/{name}/dead-letters/letters"}
ASKING = {("POST", "/admin/connectors/{name}/offsets/target")}  # with a body, and nothing is changed
ADMINISTERING = {"/admin/loggers", "/admin/loggers/{logger}", "/admin/herder-trace", "/admin/doctor"}


def lowest(method: str, path: str) -> Role | None:
    """The lowest role for which a route is meant."""
    if method == "GET" and path in FREE:
        return None
    if path in PRIVATE:
        return Role.EDITOR
    if path in ADMINISTERING:
        return Role.ADMIN
    if path.rpartition("/")[2] in OPERATING:
        return Role.OPERATOR
    return Role.READER if method == "GET" or (method, path) in ASKING else Role.EDITOR


@pytest.fixture
def herder():
    herder = MemoryHerder()
    for name in ("orders", "eves-own"):
        herder.put_connector(name, file_source(), replace=False)
    return herder


@pytest.fixture
def gatekeeper(tmp_path):
    file = tmp_path / "roles.toml"
    file.write_text(ROLES)
    return Gatekeeper(RolesFile(file))


@pytest.fixture
def caller(herder, gatekeeper):
    caller = RestCaller(herder, endpoints=ROUTES, gatekeeper=gatekeeper)
    yield caller
    caller.close()


def target(path: str, name: str = "orders") -> str:
    if path == "/admin/logs":
        return f"{path}?connector={name}"  # those of all connectors are an administrator's
    return re.sub(r"\{\w+}", "0", path.replace("{name}", name))


def body_of(method: str, path: str, name: str = "orders"):
    if (method, path) == ("POST", "/connectors"):
        return {"name": name, "config": {**file_source(), "name": name}}
    return {**file_source(), "name": name} if method in ("PUT", "POST", "PATCH") else None


@pytest.mark.parametrize(("method", "path"), [operation for operation in OPERATIONS if operation not in PEERS])
def test_a_route_is_for_its_role_and_higher_ones_and_for_nobody_without_a_name(caller, method, path):
    needed = lowest(method, path)
    asked = (method, target(path), body_of(method, path))
    assert caller.ask(*asked).status == 401
    assert caller.ask(*asked).headers["www-authenticate"].startswith("Basic")
    for role in Role:
        answer = caller.ask(*asked, scope={USER: str(role)})
        if needed is None or role >= needed:
            assert answer.status not in (401, 403), (role, answer.body)
        else:
            assert answer.status == 403, role
            assert f"User {role} lacks the role {needed} for" in answer.message
            assert f"{role} is only {role}" in answer.message
    stranger = caller.ask(*asked, scope={USER: "stranger"})
    assert (stranger.status == 403) == (needed is not None)


@pytest.mark.parametrize(
    ("method", "path"),
    [(method, path) for method, path in OPERATIONS if "{name}" in path and (method, path) not in PEERS],
)
def test_a_role_for_some_connectors_is_none_for_the_others(caller, method, path):
    def status(name: str, asked: str) -> int:
        return caller.ask(method, target(path, asked), body_of(method, path, name), scope={USER: "eve"}).status

    assert status("orders", "orders") == 403
    assert status("eves-none", "eves-none") != 403
    assert status("eves-own", "eves-own") != 403
    # the decoded name counts, and one that does not exist is refused like one that does
    assert status("orders", "%6frders") == 403
    assert status("eves-own", "eves%2Down") != 403
    assert status("none", "none") == 403


@pytest.mark.parametrize("operation", PEERS)
def test_requests_between_workers_need_a_signature_and_no_role(caller, herder, operation):
    method, path = operation
    checked = []
    herder.check_peer = lambda signature, *, always=False: checked.append((signature, always))
    assert caller.ask(method, target(path), [] if method == "POST" else None).status not in (401, 403)
    assert checked == [(None, True)]


def test_the_connector_in_a_body_counts_as_one_in_a_path(caller):
    def create(name, config_name=None):
        body = {"name": name, "config": {**file_source(), **({"name": config_name} if config_name else {})}}
        return caller.ask("POST", "/connectors", body, scope={USER: "eve"})

    assert create("eves-new").status == 201
    assert create("theirs").status == 403
    assert create("", "theirs").status in (400, 403)
    assert create("eves-new", "theirs").status == 400
    assert "User eve lacks the role editor for connector theirs: POST /connectors needs it" in create("theirs").message
    check = ("PUT", "/connector-plugins/FileStreamSource/config/validate")
    assert caller.ask(*check, {**file_source(), "name": "theirs"}, scope={USER: "eve"}).status == 403
    assert caller.ask(*check, file_source(), scope={USER: "eve"}).status == 200


def test_whose_own_a_slot_is_is_shown_to_who_may_see_the_connector(caller, herder):
    one = SlotInfo(0, True, "node", 1, (), connector="orders", memory_limit_bytes=2**29, cores_limit=1)
    herder.slots = lambda: [one, replace(one, connector="eves-own")]

    hidden, seen = caller.ask("GET", "/admin/slots", scope={USER: "eve"}).json
    assert [hidden[key] for key in ("connector", "memory_limit_bytes", "cores_limit")] == [None, None, None]
    assert [seen[key] for key in ("connector", "memory_limit_bytes", "cores_limit")] == ["eves-own", 2**29, 1]
    assert caller.ask("GET", "/admin/slots", scope={USER: "reader"}).json[0]["connector"] == "orders"


def test_lists_show_what_the_caller_may_see(caller):
    for target in ("/connectors", "/connectors?expand=status&expand=info"):
        assert list(caller.ask("GET", target, scope={USER: "eve"}).json) == ["eves-own"]
        assert list(caller.ask("GET", target, scope={USER: "reader"}).json) == ["eves-own", "orders"]


def test_log_lines_and_history_of_one_connector_are_its_readers_and_all_lines_the_administrators(caller):
    def statuses(target):
        return [caller.ask("GET", target, scope={USER: user}).status for user in ("eve", "reader", "admin")]

    assert statuses("/admin/logs") == [403, 403, 200]
    assert statuses("/admin/logs?connector=eves-own") == [200, 200, 200]
    assert statuses("/admin/logs?connector=orders") == [403, 200, 200]
    assert statuses("/admin/logs?after=0&wait_ms=1") == [403, 403, 200]
    assert statuses("/admin/history?connector=orders") == [403, 200, 200]
    assert statuses("/admin/history") == [200, 200, 200]


def test_what_a_caller_may_not_do_is_refused_before_its_body_is_read(caller):
    def chunks():
        raise AssertionError("the body was read")

    class Unreadable(list):
        def pop(self, *_):
            chunks()

    answer = caller.ask("PUT", "/connectors/orders/config", chunks=Unreadable([b"{}"]), scope={USER: "reader"})
    assert answer.status == 403


def test_a_route_that_does_not_say_what_it_needs_keeps_the_server_from_starting(herder):
    with pytest.raises(ConnectError, match="GET /new does not say what it needs"):
        create_app(herder, None, None, [Endpoint("/new", {"GET": lambda call: Answer(1)})])


def test_every_route_says_in_the_document_what_it_needs(caller):
    paths = caller.ask("GET", "/openapi.json", scope={USER: "reader"}).json["paths"]
    reported = [item[method]["description"] for item in paths.values() for method in item if method != "parameters"]
    assert len(reported) == len(OPERATIONS) + 1
    assert all(text.startswith("Needs ") for text in reported)
    assert "operator of the connector in the path" in paths["/connectors/{name}/stop"]["put"]["description"]
    assert {handler.needs.of for endpoint in ENDPOINTS for handler in endpoint.handlers.values()} == set(Of)


def test_a_change_is_refused_by_the_whole_config_that_it_makes(herder, tmp_path):
    (tmp_path / "roles").write_text('[[grant]]\nrole = "editor"\nusers = ["eve"]\nfiles = ["/in.txt"]\n')
    caller = RestCaller(herder, gatekeeper=Gatekeeper(RolesFile(tmp_path / "roles")))
    eve = {USER: "eve"}
    config = "/connectors/orders/config"
    for method, body in (("PATCH", {"file": "/etc/passwd"}), ("PUT", file_source(file="/etc/passwd"))):
        answer = caller.ask(method, config, body, scope=eve)
        assert answer.status == 403
        assert "file names /etc/passwd, a path of this machine that the grant's files do not hold" in answer.message
    assert herder.connector_config("orders")["file"] == "/in.txt"
    assert caller.ask("PATCH", config, {"tasks.max": "2", "batch.size": None}, scope=eve).status == 200
    # what is there already counts too: else a connector of somebody else's would be led elsewhere
    herder.put_connector("orders", file_source(file="/other"), replace=True)
    assert caller.ask("PATCH", config, {"topic": "mine"}, scope=eve).status == 403
    caller.close()

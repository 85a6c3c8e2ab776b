"""The OpenAPI document: made from the table of routes, and complete."""

from __future__ import annotations

import re

import pytest

from kconnect.runtime.rest.app import ENDPOINTS, endpoints_for
from kconnect.runtime.rest.operation import Operation
from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder


@pytest.fixture
def document():
    caller = RestCaller(MemoryHerder())
    yield caller.ask("GET", "/openapi.json").json
    caller.close()


def test_the_document_has_every_route_and_method_of_the_server_and_itself(document):
    routes = {(endpoint.path, method.lower()) for endpoint in ENDPOINTS for method in endpoint.handlers}
    listed = {(path, method) for path, item in document["paths"].items() for method in item if method != "parameters"}
    assert listed == routes | {("/openapi.json", "get")}


def test_every_operation_is_described_where_its_route_is():
    bare = [
        f"{method} {endpoint.path}"
        for endpoint in ENDPOINTS
        for method, handler in endpoint.handlers.items()
        if not isinstance(handler, Operation) or not handler.summary
    ]
    assert not bare


def test_operations_have_unique_ids_and_path_parameters_are_declared(document):
    operations = [item[method] for item in document["paths"].values() for method in item if method != "parameters"]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    for path, item in document["paths"].items():
        assert re.findall(r"\{(\w+)}", path) == [parameter["name"] for parameter in item.get("parameters", [])]


def test_what_takes_a_body_says_so(document):
    for path, item in document["paths"].items():
        for method in item.keys() & {"put", "post", "patch"}:
            takes_one = (path.rpartition("/")[2], method) in {
                ("connectors", "post"),
                ("config", "put"),
                ("config", "patch"),
                ("offsets", "patch"),
                ("validate", "put"),
                ("{logger}", "put"),
                ("tasks", "post"),
                ("replays", "post"),
            }
            assert ("requestBody" in item[method]) == takes_one, (method, path)


def test_every_reference_leads_to_a_schema(document):
    references = set(re.findall(r"'#/components/schemas/(\w+)'", str(document)))
    assert references
    assert references <= set(document["components"]["schemas"])


def test_admin_and_the_rest_are_two_halves_of_the_routes():
    halves = [*endpoints_for(admin=False), *endpoints_for(admin=True)]
    assert sorted(endpoint.path for endpoint in halves) == sorted(endpoint.path for endpoint in ENDPOINTS)
    assert {endpoint.path.split("/")[1] for endpoint in endpoints_for(admin=True)} == {"admin"}

"""`ETag` and `If-Match` over REST."""

from __future__ import annotations

import pytest

from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder, file_source


@pytest.fixture
def caller():
    herder = MemoryHerder()
    herder.put_connector("a", {**file_source(), "name": "a"}, replace=False)
    caller = RestCaller(herder)
    yield caller
    caller.close()


def test_a_config_has_the_same_tag_wherever_it_is_shown_and_another_once_it_is_changed(caller):
    tag = caller.ask("GET", "/connectors/a/config").headers["etag"]
    assert caller.ask("GET", "/connectors/a").headers["etag"] == tag
    changed = caller.ask("PATCH", "/connectors/a/config", {"x": "1"}, headers={"if-match": tag})
    assert changed.status == 200
    assert changed.headers["etag"] != tag
    assert caller.ask("GET", "/connectors/a/config").headers["etag"] == changed.headers["etag"]


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("PUT", "/connectors/a/config", file_source()),
        ("PATCH", "/connectors/a/config", {"x": "1"}),
        ("DELETE", "/connectors/a", None),
        ("PATCH", "/connectors/a/offsets", {"offsets": [{"partition": {"f": 1}, "offset": {"p": 1}}]}),
        ("DELETE", "/connectors/a/offsets", None),
    ],
)
def test_a_change_of_another_version_is_412_with_the_current_tag_and_a_sentence(caller, method, target, body):
    caller.ask("PUT", "/connectors/a/stop")
    tag = caller.ask("GET", "/connectors/a").headers["etag"]
    refused = caller.ask(method, target, body, headers={"if-match": '"c-0", "c-1"'})
    assert (refused.status, refused.headers["etag"]) == (412, tag)
    assert "was changed in the meantime" in refused.message
    assert caller.ask(method, target, body, headers={"if-match": "a-tag"}).status == 400
    assert caller.ask(method, target, body, headers={"if-match": f'"c-0", {tag}'}).status < 300


def test_without_the_header_all_is_as_in_java_and_a_star_is_any_version(caller):
    assert caller.ask("PUT", "/connectors/a/config", file_source()).status == 200
    assert caller.ask("PUT", "/connectors/a/config", file_source(), headers={"if-match": "*"}).status == 200
    assert caller.ask("PUT", "/connectors/b/config", file_source(), headers={"if-match": "*"}).status == 412


def test_offsets_have_a_tag_of_their_own(caller):
    caller.ask("PUT", "/connectors/a/stop")
    tag = caller.ask("GET", "/connectors/a/offsets").headers["etag"]
    assert tag.startswith('"o-')
    body = {"offsets": [{"partition": {"f": 1}, "offset": {"p": 1}}]}
    assert caller.ask("PATCH", "/connectors/a/offsets", body, headers={"if-match": tag}).status == 200
    refused = caller.ask("DELETE", "/connectors/a/offsets", headers={"if-match": tag})
    assert refused.status == 412
    assert refused.headers["etag"] == caller.ask("GET", "/connectors/a/offsets").headers["etag"]

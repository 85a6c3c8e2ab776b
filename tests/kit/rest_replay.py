"""Requests that a real Java worker was asked, asked again of ours: the real herder, plugins, validation, offsets, REST.

Only tasks, consumer groups and the network of Kafka are in memory. Compared are status, Content-Type, Location and
body; masked is what differs from run to run (golden/README.md) and every documentation text, which are our own.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from kconnect.runtime.herder.standalone.herder import StandaloneHerder
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest import RestServer
from kconnect.runtime.storage import MemoryOffsetStore
from kit.herders import MemoryGroups
from kit.memory_launcher import MemoryLauncher
from kit.pace import ample_s
from kit.rest_parts import rest_parts

_EMBEDDED = re.compile(r"(?:key|value|header)\.converter\.(?!plugin)|(?:transforms|predicates)\.\w+\.(?!type|plugin)")
MOST_WAITED_FOR = 8
"""Differences after which a replay ends: an answer that never agrees is waited for for seconds."""
ANY = object()
"""A body that is not compared."""


@dataclass(frozen=True)
class Differs:
    """Where ours answers otherwise on purpose: what it answers, and why."""

    why: str
    status: int | None = None
    """None: the status is Java's."""
    message: str | None = None
    """The whole message of the error body; None: any text in one."""
    body: Any = None
    """The body when it is no error: JSON, or ANY."""


@dataclass
class World:
    """A worker, and what stands behind it."""

    url: str
    herder: StandaloneHerder
    launcher: MemoryLauncher
    offsets: MemoryOffsetStore
    groups: MemoryGroups
    plugins: PluginRegistry
    workers: frozenset[str] = frozenset()
    """Ids of the workers of a cluster: which of them it is where one is named is not compared."""

    @property
    def known_classes(self) -> set[str]:
        return {plugin.class_name for plugin in self.plugins.describe()}


@contextmanager
def world(worker_id: str, settings: Mapping[str, str], cluster_id: str = "cluster") -> Iterator[World]:
    """A worker that is not ready yet: call `herder.ready()`."""
    groups, offsets, launcher, plugins = MemoryGroups(), MemoryOffsetStore(), MemoryLauncher(), PluginRegistry.load()
    herder = StandaloneHerder(rest_parts(settings, plugins, launcher, offsets, groups))
    launcher.start(herder.events)
    herder.start(worker_id, cluster_id)
    try:
        with RestServer(herder, ["http://127.0.0.1:0"]) as server:
            yield World(server.urls[0], herder, launcher, offsets, groups, plugins)
    finally:
        herder.stop(5)
        launcher.stop(1)
        plugins.close()


def agrees(world: World, entry: Mapping[str, Any], differs: Differs | None = None, *, in_cluster: bool = False) -> bool:
    """Ask, and compare with what Java answered, or with the difference. Errors: AssertionError.

    `in_cluster`: Java's worker was one of a cluster, whose answers to changes come before their tasks are made.
    """
    status, headers, text = ask(
        world.url, entry["method"], entry["path"], entry["request_body"], entry["request_headers"]
    )
    where = f"{entry['name']}: {entry['method']} {entry['path']}"
    expected_status = entry["status"]
    if differs is not None and differs.status is not None:
        expected_status = differs.status
    assert status == expected_status, f"{where}: {status} {text[:500]}"
    ours = masked(world, entry, text)
    if differs is not None and differs.body is not ANY and differs.body is None:
        assert ours["error_code"] == status, where
        assert ours["message"], where
        assert differs.message in (None, ours["message"]), where
        return True
    theirs = masked(world, entry, entry["response_body"]) if differs is None else differs.body
    if (
        in_cluster
        and differs is None
        and entry["method"] in ("POST", "PUT")
        and status in (200, 201)
        and "config" in ours
    ):
        ours["tasks"] = theirs["tasks"] = "(made later)"
    if theirs is not ANY:
        assert _unordered(ours) == _unordered(theirs), where + difference(_unordered(ours), _unordered(theirs))
    if differs is None:
        _same_headers(world, entry, headers, where)
        _same_order(ours, theirs, entry, where)
    return True


def ask(
    url: str, method: str, path: str, body: str | None, headers: Mapping[str, str]
) -> tuple[int, dict[str, str], str]:
    """One request with the path as it stands; gives status, headers in lower case, body."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ample_s(20))
    try:
        connection.request(method, path, body.encode() if body else None, dict(headers))
        response = connection.getresponse()
        return response.status, {key.lower(): value for key, value in response.getheaders()}, response.read().decode()
    finally:
        connection.close()


def masked(world: World, entry: Mapping[str, Any], text: str) -> Any:
    """A body without what belongs to one run, one machine, or to plugins that are not shipped."""
    if not text or entry["method"] == "HEAD":
        return None
    try:
        body = json.loads(text)
    except ValueError:
        return text
    path = entry["path"].partition("?")[0].rstrip("/")
    if isinstance(body, dict) and "message" in body:
        body["message"] = body["message"].partition("PluginDesc{")[0]
    if path == "" and "commit" in body:
        body = {**body, "commit": "(masked)", "kafka_cluster_id": "(masked)"}
    if path == "/connector-plugins":
        body = [plugin for plugin in body if plugin["class"] in _java_classes(world)]
    return _tidied(world, body)


def _java_classes(world: World) -> set[str]:
    """Those that the recorded worker could have had: Kafka's tools were not on its class path."""
    kafka = {name for name in world.known_classes if name.startswith("org.apache.kafka.")}
    return {name for name in kafka if not name.startswith("org.apache.kafka.connect.tools.")}


def _tidied(world: World, value: Any) -> Any:
    if isinstance(value, list):
        return [_tidied(world, item) for item in value if not _is_ours_alone(item)]
    if not isinstance(value, dict):
        return value
    tidy = {key: _tidied(world, item) for key, item in value.items() if key != "documentation"}
    if isinstance(tidy.get("last_modified"), int):
        tidy["last_modified"] = "(when)"
    if isinstance(tidy.get("worker_id"), str) and tidy["worker_id"] in world.workers:
        tidy["worker_id"] = "(one of them)"
    if isinstance(tidy.get("trace"), str):
        tidy["trace"] = "(trace)"
    if "recommended_values" in tidy:
        known = _java_classes(world)
        tidy["recommended_values"] = [
            item for item in tidy["recommended_values"] if item in known or "." not in str(item) or item == "4.3.0"
        ]
    return tidy


def _is_ours_alone(item: Any) -> bool:
    """A setting of a converter that Java's has not: KIP-301 was never finished there."""
    definition = item.get("definition", item) if isinstance(item, dict) else None
    name = definition.get("name") if isinstance(definition, dict) else None
    return isinstance(name, str) and name.endswith("schemas.infer.enable")


def _unordered(value: Any) -> Any:
    """Without the orders that are those of a hash map in Java: names, offsets, tasks, settings in a message."""
    if isinstance(value, dict):
        return {
            key: sorted((_unordered(item) for item in inner), key=str)
            if key in ("offsets", "tasks", "topics") and isinstance(inner, list)
            else _unordered(_own_first(inner) if key == "configs" else inner)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return sorted(value) if all(isinstance(item, str) for item in value) else [_unordered(item) for item in value]
    if isinstance(value, str) and value.startswith("Connector config {"):
        return sorted(re.split(r"[{},] ?", value))
    return value


def _own_first(configs: list[Any]) -> list[Any]:
    """Settings of a report; those of embedded plugins, which Java has in the order of a hash map, last and sorted."""

    def name(config: Any) -> str:
        return str((config["definition"] or config["value"])["name"])

    embedded = [config for config in configs if _EMBEDDED.match(name(config))]
    return [config for config in configs if config not in embedded] + sorted(embedded, key=name)


def difference(ours: Any, theirs: Any, place: str = "") -> str:
    """The first place where two bodies differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        found = (difference(ours[key], theirs[key], f"{place}.{key}") for key in ours)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        found = (difference(*pair, f"{place}[{index}]") for index, pair in enumerate(zip(ours, theirs, strict=True)))
    else:
        return "" if ours == theirs else f" {place}: ours {str(ours)[:300]} theirs {str(theirs)[:300]}"
    return next((text for text in found if text), "")


def _same_headers(world: World, entry: Mapping[str, Any], headers: Mapping[str, str], where: str) -> None:
    recorded = {key.lower(): value for key, value in entry["response_headers"].items()}
    assert headers.get("content-type") == recorded.get("content-type"), where
    if "location" in recorded:
        assert urlsplit(headers["location"]).path == urlsplit(recorded["location"]).path, where
        assert headers["location"].startswith(world.url), where


def _same_order(ours: Any, theirs: Any, entry: Mapping[str, Any], where: str) -> None:
    """Fields come in Java's order, but for settings of a config: theirs is that of a hash map."""
    if isinstance(theirs, dict) and not entry["path"].endswith("/config") and "expand=" not in entry["path"]:
        assert list(ours) == list(theirs), f"{where}: order of fields"

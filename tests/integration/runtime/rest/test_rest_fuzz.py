"""Eight hundred malformed requests, made from the server's own OpenAPI document: no 5xx, no hang, nothing leaks.

The requests are the same each time; others with KCONNECT_FUZZ_ANEW=1 in the environment, by
`pytest tests/integration/runtime/rest/test_rest_fuzz.py --hypothesis-seed=N`.
"""

from __future__ import annotations

import errno
import http.client
import json
import os
import socket
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import psutil
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kit.memory_herder import file_source
from kit.pace import ample_s, now
from kit.rest_worker import rest_worker
from kit.waiting import eventually

REQUESTS = 800
RAW_REQUESTS = 200
OFFSET_REQUESTS = 400
# A request takes some 3 ms; one that takes a thousand times as long hangs
ANSWER_S = 5.0
QUICK = settings(
    database=None,
    deadline=None,
    derandomize="KCONNECT_FUZZ_ANEW" not in os.environ,
    phases=[Phase.generate],  # no shrinking: a failure names its request anyway
    suppress_health_check=list(HealthCheck),
)

NAMES = st.sampled_from(["fsrc", "fsnk", "FileStreamSource", "FileStreamSink", "root", "none"])
ODD_TEXTS = st.one_of(
    st.text(max_size=20),
    st.text(string.printable, max_size=20),
    st.sampled_from(
        ["", " ", "..", "a/b", "%", "\x00", "null", "-1", "1e400", "ü→😀", "x" * 3000, "${env:HOME}", "'\"<>"]
    ),
)
JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-(10**400), 10**400),
        st.floats(allow_nan=False, allow_infinity=False),
        ODD_TEXTS,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD_TEXTS, inner, max_size=3),
    max_leaves=8,
)
SETTING_NAMES = st.sampled_from(
    [
        "name",
        "connector.class",
        "tasks.max",
        "topic",
        "topics",
        "file",
        "transforms",
        "transforms.a.type",
        "errors.tolerance",
        "key.converter",
        "header.converter",
        "predicates",
        "batch.size",
        "topics.regex",
        "topic.creation.groups",
        "offsets",
    ]
)
SETTING_VALUES = st.sampled_from(
    [
        "fsrc",
        "FileStreamSource",
        "FileStreamSink",
        "1",
        "a",
        "a,a",
        "org.apache.kafka.connect.transforms.HoistField$Value",
        "JsonConverter",
        "none",
        "all",
        "*",
        "[",
        ".*",
        "/no/file",
        "true",
    ]
)
CONFIGS = st.dictionaries(SETTING_NAMES | ODD_TEXTS, SETTING_VALUES | ODD_TEXTS, max_size=6) | st.builds(
    lambda more: {**file_source(), **more}, st.dictionaries(SETTING_NAMES, SETTING_VALUES | JUNK, max_size=3)
)
BAD_BODIES = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"",
            b" ",
            b"{",
            b"[",
            b'{"name":',
            b"null",
            b"NaN",
            b'"\\ud800"',
            b"\xff\xfe",
            b'{"a":1}{"b":2}',
            b"[" * 20000,
            b'{"a":' * 5000,
            b'{"name":"a","name":"b","config":{}}',
            b"9" * 5000,
            b"\xef\xbb\xbf{}",
            b"{'a':1}",
            b'{"a":1e999}',
        ]
    ),
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["Accept", "Content-Type", "Authorization", "Origin", "Expect", "X-Forwarded-For", "Host", "Accept-Encoding"]
    ),
    st.sampled_from(
        [
            "application/json",
            "text/html",
            "*/*",
            ";q=",
            "application/json; charset=utf-16",
            "",
            "Basic !",
            "a" * 2000,
            "null",
        ]
    ),
    max_size=2,
)


@dataclass(frozen=True)
class Shot:
    """One request as it is sent."""

    method: str
    target: str
    body: bytes | None
    headers: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"{self.method} {self.target[:200]} {str(dict(self.headers))[:200]} {self.body and self.body[:200]!r}"


@dataclass(frozen=True)
class Raw:
    """Bytes that a peer sends."""

    sent: bytes

    def __repr__(self) -> str:
        return f"{self.sent[:200]!r} and {max(0, len(self.sent) - 200)} more"


def test_eight_hundred_malformed_requests_get_an_answer_that_is_no_5xx():
    with rest_worker() as server:
        url = server.urls[0]
        document = json.loads(_send(url, Shot("GET", "/openapi.json", None))[1])
        _send(url, Shot("PUT", "/connectors/fsrc/config", json.dumps(file_source()).encode()))
        sink = {"connector.class": "FileStreamSink", "topics": "t", "file": "/out"}
        _send(url, Shot("PUT", "/connectors/fsnk/config", json.dumps(sink).encode()))
        open_before = psutil.Process().num_fds()
        statuses: dict[int, int] = {}

        @settings(QUICK, max_examples=REQUESTS)
        @given(_shots(document))
        def attack(shot: Shot) -> None:
            status, body = _send(url, shot)
            statuses[status] = statuses.get(status, 0) + 1
            assert status < 500, f"{shot}: {status} {body[:500]!r}"
            if status >= 400 and body and shot.method != "HEAD":
                assert json.loads(body)["error_code"] == status, f"{shot}: {body[:500]!r}"

        attack()
        assert sum(statuses.values()) >= REQUESTS
        assert statuses.keys() >= {200, 400, 404, 405, 406, 415}, statuses
        assert _send(url, Shot("GET", "/health", None))[0] == 200
        eventually(
            lambda: psutil.Process().num_fds() <= open_before + 2, 5, f"no connection stays open ({open_before})"
        )


def test_whatever_offsets_a_stopped_connector_of_ours_is_given_is_no_5xx():
    connectors = {
        "src": {"connector.class": "FileStreamSource", "topic": "t", "file": "/in"},
        "stdin": {"connector.class": "FileStreamSource", "topic": "t"},
        "http": {"connector.class": "HttpJsonSource", "topic": "t", "url": "http://127.0.0.1:1/"},
        "snk": {"connector.class": "FileStreamSink", "topics": "t", "file": "/out"},
        "sql": {"connector.class": "SqlSink", "topics": "t", "connection.driver": "sqlite3"},
    }
    with rest_worker() as server:
        url, statuses = server.urls[0], set()
        for name, config in connectors.items():
            body = {"name": name, "config": config, "initial_state": "STOPPED"}
            status, text = _send(url, Shot("POST", "/connectors", json.dumps(body).encode()))
            assert status == 201, text

        @settings(QUICK, max_examples=OFFSET_REQUESTS)
        @given(st.sampled_from(list(connectors)), _offsets())
        def attack(name: str, offsets: list[Any]) -> None:
            shot = Shot("PATCH", f"/connectors/{name}/offsets", _json({"offsets": offsets}))
            status, body = _send(url, shot)
            statuses.add(status)
            assert status < 500, f"{shot}: {status} {body[:500]!r}"
            assert _send(url, Shot("GET", f"/connectors/{name}/offsets", None))[0] == 200, shot

        attack()
        assert statuses == {200, 400}
        for name in connectors:
            done = 400 if name == "stdin" else 200  # as Java: a source without file has none
            assert _send(url, Shot("DELETE", f"/connectors/{name}/offsets", None))[0] == done


def test_bytes_that_are_no_http_do_no_harm():
    with rest_worker() as server:
        address = (urlsplit(server.urls[0]).hostname, urlsplit(server.urls[0]).port)
        open_before = psutil.Process().num_fds()
        answers: list[bytes] = []

        @settings(QUICK, max_examples=RAW_REQUESTS)
        @given(_raw_requests().map(Raw))
        def attack(raw: Raw) -> None:
            started = now()
            answer = _exchange(address, raw.sent.replace(b"MANY", b"a" * 70_000))
            assert now() - started < ANSWER_S, raw
            assert not answer.startswith(b"HTTP/1.1 5"), (raw, answer[:300])
            answers.append(answer[:12])

        attack()
        assert set(answers) >= {b"HTTP/1.1 200", b"HTTP/1.1 400"}, set(answers)
        assert _send(server.urls[0], Shot("GET", "/health", None))[0] == 200
        eventually(
            lambda: psutil.Process().num_fds() <= open_before + 2, 5, f"no connection stays open ({open_before})"
        )


def _exchange(address: tuple[str | None, int | None], sent: bytes) -> bytes:
    """What comes back until the server closes; it may reset a connection whose bytes it does not want to read."""
    answer = b""
    with socket.create_connection(address, timeout=ample_s(ANSWER_S)) as sock:
        try:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            while chunk := sock.recv(65536):
                answer += chunk
        except OSError as err:
            if err.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):  # a hang is none of these
                raise
    return answer


def _send(url: str, shot: Shot) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=ample_s(ANSWER_S))
    headers = {"Content-Type": "application/json", **shot.headers}
    try:
        connection.request(shot.method, shot.target, shot.body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _shots(document: Mapping[str, Any]) -> st.SearchStrategy[Shot]:
    """Requests of every operation of the document, each part as it should be or not at all."""
    operations = [
        _shot(document, path, method, item)
        for path, item in document["paths"].items()
        for method in item
        if method != "parameters"
    ]
    assert len(operations) >= 20, "the document is read wrongly"
    return st.one_of(operations)


def _shot(document: Mapping[str, Any], path: str, method: str, item: Mapping[str, Any]) -> st.SearchStrategy[Shot]:
    operation = item[method]
    methods = st.just(method.upper())
    if path not in ("/", "/health"):
        methods = st.sampled_from([method.upper()] * 12 + ["PUT", "DELETE", "TRACE", "HEAD", "OPTIONS", "NONSENSE"])
    body: st.SearchStrategy[bytes | None] = st.none()
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        body = st.one_of(_of(schema, document).map(_json), JUNK.map(_json), BAD_BODIES, st.none())
    elif method in ("put", "post", "patch"):
        body = st.one_of(st.none(), BAD_BODIES)
    return st.builds(Shot, methods, _target(path, item, operation, document), body, HEADERS | st.just({}))


def _target(
    path: str, item: Mapping[str, Any], operation: Mapping[str, Any], document: Mapping[str, Any]
) -> st.SearchStrategy[str]:
    parts = [
        st.one_of(
            NAMES,
            st.integers(-1, 2).map(str),
            ODD_TEXTS.map(_quoted),
            st.sampled_from(["%2F", "%00", "%FF", "%", "%zz"]),
        )
        if part.startswith("{")
        else st.just(part)
        for part in path.split("/")[1:]
    ]
    known = {parameter["name"]: _of(parameter["schema"], document) for parameter in operation.get("parameters", [])}
    queries = [st.tuples(st.just(name), values.map(str) | ODD_TEXTS) for name, values in known.items()]
    pairs = st.lists(st.one_of(*queries, st.tuples(ODD_TEXTS, ODD_TEXTS)), max_size=2)
    return st.builds(_joined, st.tuples(*parts), pairs)


def _joined(parts: Sequence[str], pairs: Sequence[tuple[str, str]]) -> str:
    query = "&".join(f"{_quoted(name)}={_quoted(value)}" for name, value in pairs)
    return f"/{'/'.join(parts)}" + (f"?{query}" if query else "")


def _of(schema: Mapping[str, Any], document: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a schema, with a field wrong now and then."""
    if "$ref" in schema:
        return _of(document["components"]["schemas"][schema["$ref"].rpartition("/")[2]], document)
    if "enum" in schema:
        return st.sampled_from(schema["enum"]) | JUNK
    match schema.get("type"):
        case "object" if "properties" in schema:
            fields = {name: _of(inner, document) for name, inner in schema["properties"].items()}
            return st.fixed_dictionaries({}, optional=fields) | st.fixed_dictionaries(fields)
        case "object" if schema.get("additionalProperties") == {"type": "string"}:
            return CONFIGS
        case "object":
            return st.dictionaries(
                st.sampled_from(["filename", "position", "kafka_topic"]) | ODD_TEXTS, JUNK, max_size=3
            )
        case "array":
            return st.lists(_of(schema["items"], document), max_size=3)
        case "string":
            return NAMES | ODD_TEXTS
        case "integer":
            return st.integers()
        case "boolean":
            return st.booleans()
    return JUNK


def _offsets() -> st.SearchStrategy[list[Any]]:
    """Offsets as the connectors like them, with a field or a value wrong now and then."""
    keys = ["filename", "url", "kafka_topic", "kafka_partition"]
    numbers = st.one_of(st.integers(-2, 3), st.integers(), st.sampled_from(["0", "1", "-1", "+2", "1.0", 1.0, True]))
    texts = st.sampled_from(["/in", "t", "none", "", "."]) | ODD_TEXTS
    values = numbers | texts | JUNK
    sink = st.fixed_dictionaries({"kafka_topic": texts, "kafka_partition": numbers})
    source = st.fixed_dictionaries({"filename": texts})
    partitions = sink | source | st.dictionaries(st.sampled_from(keys) | ODD_TEXTS, values, max_size=3)
    good = st.fixed_dictionaries({"kafka_offset": numbers}) | st.fixed_dictionaries({"position": numbers})
    offsets = st.none() | good | st.dictionaries(st.sampled_from(["position", "kafka_offset"]), values) | JUNK
    items = st.fixed_dictionaries({"partition": partitions | JUNK, "offset": offsets})
    return st.lists(items, min_size=1, max_size=3)


def _raw_requests() -> st.SearchStrategy[bytes]:
    lines = st.sampled_from(
        [
            b"GET / HTTP/1.1",
            b"GET / HTTP/1.0",
            b"GET /",
            b"PUT /connectors/a/config HTTP/1.1",
            b"GET \x00 HTTP/1.1",
            b"\x16\x03\x01\x02",
            b"GET /\xff HTTP/1.1",
            b"GET http://[ HTTP/1.1",
            b"GET / HTTP/9.9",
            b"CONNECT a:1 HTTP/1.1",
            b"",
            b"GET  / HTTP/1.1",
        ]
    )
    headers = st.lists(
        st.sampled_from(
            [
                b"Host: x",
                b"Content-Length: 5",
                b"Content-Length: -1",
                b"Content-Length: 5, 6",
                b"Transfer-Encoding: chunked",
                b"Transfer-Encoding: gzip",
                b"Expect: 100-continue",
                b"Upgrade: websocket\r\nConnection: Upgrade",
                b"X: MANY",
                b"no colon",
                b": empty",
                b"Content-Length: 99999999999999999999",
                b"Connection: close",
                b" folded: 1",
            ]
        ),
        max_size=4,
    )
    bodies = st.sampled_from(
        [b"", b"{}", b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffff\r\n", b"-1\r\n", b"\x00" * 100]
    )
    return st.builds(
        lambda line, rest, body: b"\r\n".join([line, *rest, b"", body]), lines, headers, bodies
    ) | st.binary(max_size=60)


def _quoted(text: str) -> str:
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()

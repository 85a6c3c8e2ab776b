"""Schemathesis on a real worker's REST API, by its own OpenAPI document, and odd requests to every page below /ui.

No answer is a 5xx, and none breaks its schema; a page that asks Kafka, which is away here, is a 503 that says so. It
lasts KCONNECT_FUZZ_S seconds (`make fuzz` for long ones). What fails names a seed, an operation and a mode, with which
it fails again:
KCONNECT_FUZZ_SEED=N KCONNECT_FUZZ_ONLY='PUT /connectors/{name}/config' \\
  pytest tests/system/runtime/rest/test_rest_schema_fuzz.py
"""

from __future__ import annotations

import os
import string
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from urllib.parse import quote, urlencode

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from kconnect.admin.console.console import ROUTES, worker_console
from kit.memory_herder import file_source
from kit.pace import ample_s
from kit.ports import free_port
from kit.rest_worker import rest_worker

SECONDS = float(os.environ.get("KCONNECT_FUZZ_S", "60"))
ONLY = os.environ.get("KCONNECT_FUZZ_ONLY")
FIRST_SEED = int(os.environ.get("KCONNECT_FUZZ_SEED", "1"))
# A round of all operations takes some seconds: many rounds, so that the last ones get their turn too
CASES = 6
PAGE_CASES = 150
# A request takes some 5 ms; one that takes a thousand times as long hangs
ANSWER_S = 10.0
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
QUIET = settings(
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
KNOWN = ("fsrc", "fsnk")
LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "bad"}
CONFIGS = (
    file_source(**LETTERS),
    {"connector.class": "FileStreamSink", "topics": "t", "file": "/out", **LETTERS},
)
# A worker that runs alone says that it has no group, no trace and no session key: these are its answers
NOT_STANDALONE = {"/admin/herder-trace"}


@contextmanager
def server(console=worker_console) -> Iterator[str]:
    """A worker with two connectors, one of them stopped, as there is nothing to find otherwise."""
    with rest_worker(console) as running:
        url = running.urls[0]
        _create(url)
        yield url


def _create(url: str) -> None:
    """The connectors, as far as they are gone."""
    for name, config in zip(KNOWN, CONFIGS, strict=True):
        answer = requests.put(f"{url}/connectors/{name}/config", json=config, timeout=ANSWER_S)
        assert answer.status_code in (200, 201), answer.text
    assert requests.put(f"{url}/connectors/fsnk/stop", timeout=ANSWER_S).status_code == 204


@pytest.mark.timeout(SECONDS * 3 + 60)
def test_no_request_that_the_document_allows_or_forbids_is_a_5xx_or_breaks_a_schema(capsys):
    statuses: Counter[str] = Counter()
    with server() as url:
        document = requests.get(f"{url}/openapi.json", timeout=ANSWER_S).json()
        operations = [result.ok() for result in schemathesis.openapi.from_dict(document).get_all_operations()]
        chosen = [operation for operation in operations if ONLY in (None, operation.label)]
        assert chosen, f"There is no operation {ONLY}"
        strategies = [
            (operation, mode, operation.as_strategy(generation_mode=mode))
            for operation in chosen
            for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
        ]
        number, until = FIRST_SEED, time.monotonic() + SECONDS
        with requests.Session() as session:
            while True:
                for operation, mode, strategy in strategies:
                    if number == FIRST_SEED or time.monotonic() < until:  # each has one turn at least
                        _attack(operation, mode, strategy, number, url, session, statuses)
                number += 1
                if ONLY is not None or time.monotonic() >= until:
                    break
        assert requests.get(f"{url}/health", timeout=ANSWER_S).status_code == 200
    with capsys.disabled():
        reported = dict(statuses.most_common(8))
        sys.stdout.write(f"\n{statuses.total()} requests, seeds {FIRST_SEED} to {number - 1}: {reported}\n")
    if ONLY is None:
        assert statuses.keys() >= {"200", "400", "404"}, statuses


def _attack(operation, mode, strategy, number, url, session, statuses) -> None:
    """Some cases of one operation; the seed makes them, so that it makes them again."""
    _create(url)

    @seed(number)
    @settings(QUIET, max_examples=CASES)
    @given(strategy)
    def attack(case) -> None:
        if mode is GenerationMode.POSITIVE and "name" in (case.path_parameters or {}):
            case.path_parameters["name"] = KNOWN[number % 2]  # else nearly all are 404
        if case.query and str(case.query.get("wait_ms", "")).isdecimal():
            case.query["wait_ms"] = "20"  # it may be 25 s
        response = case.call(base_url=url, session=session, timeout=ample_s(ANSWER_S))
        statuses[str(response.status_code)] += 1
        if response.status_code == 404 and operation.path in NOT_STANDALONE:
            return
        case.validate_response(response, checks=CHECKS)

    try:
        attack()
    except Unsatisfiable:
        # what takes no parameter and no body cannot be asked wrongly
        assert mode is GenerationMode.NEGATIVE, operation.label
        assert not operation.definition.raw.keys() & {"parameters", "requestBody"}
    except BaseException as err:
        err.add_note(f"KCONNECT_FUZZ_SEED={number} KCONNECT_FUZZ_ONLY={operation.label!r}, {mode.name} cases")
        raise


ODD = st.one_of(
    st.text(max_size=15),
    st.text(string.printable, max_size=15),
    st.sampled_from(["", "..", "../../etc/passwd", "%00", "<script>alert(1)</script>", "{{7*7}}", "x" * 3000, "-1"]),
)
# Records, earlier configs, and where a sink is moved to are in Kafka: a 503 that names the brokers is right while these
# are away. No other page asks them
ASK_KAFKA = tuple(f"/connectors/{{name}}/{part}" for part in ("dead-letters", "history", "offsets"))
NAMES = st.sampled_from(["fsrc", "fsnk", "FileStreamSource", "root", "0", "none"]) | ODD
FIELDS = st.sampled_from(
    [
        "at",
        "patch",
        "through",
        "action",
        "to",
        "amount",
        "based",
        "base",
        "q",
        "sort",
        "state",
        "tab",
        "config",
        "connector.class",
        "topic",
        "offset",
        "level",
        "name",
    ]
)


def _ask_page(session: requests.Session, url: str, path: str, method: str, fields: str) -> requests.Response:
    return session.request(
        method,
        f"{url}/ui{path}" + (f"?{fields}" if method == "GET" and fields else ""),
        data=fields if method == "POST" else None,
        headers={
            "Content-Type": "application/x-www-form-urlencoded",
            "Origin": url,
            "Sec-Fetch-Site": "same-origin",
        },
        timeout=ample_s(ANSWER_S),
        allow_redirects=False,
    )


def test_no_page_of_the_console_is_a_5xx_whatever_it_is_asked_but_where_kafka_is_asked_which_is_away():
    seen: Counter[int] = Counter()
    brokers = f"127.0.0.1:{free_port()}"
    kafka = {"bootstrap.servers": brokers, "config.storage.topic": "configs"}
    with server(partial(worker_console, settings=kafka)) as url, requests.Session() as session:

        @settings(QUIET, max_examples=PAGE_CASES, derandomize=True)
        @given(st.sampled_from(ROUTES), st.data())
        def attack(route, data) -> None:
            parts = [
                quote(data.draw(NAMES), safe="") if part.startswith("{") else part for part in route.path.split("/")
            ]
            fields = urlencode(data.draw(st.lists(st.tuples(FIELDS | ODD, NAMES), max_size=3)), errors="surrogatepass")
            method = data.draw(st.sampled_from(["GET", "POST"]))
            response = _ask_page(session, url, "/".join(parts), method, fields)
            asked = (method, response.url, fields)
            seen[response.status_code] += 1
            if response.status_code >= 500:
                assert response.status_code == 503, (asked, response.text[-500:])
                assert route.path.startswith(ASK_KAFKA), asked
                assert f"No Kafka broker answers at {brokers}" in response.text, (asked, response.text[-500:])
            assert "content-security-policy" in response.headers, asked
            assert "<script>alert(1)" not in response.text, asked

        attack()
        away = {path: _ask_page(session, url, path.format(name="fsnk"), "GET", "") for path in ASK_KAFKA}
    assert {200, 404} <= seen.keys(), seen
    for path, answer in away.items():  # which the random requests need not reach
        assert f"No Kafka broker answers at {brokers}" in answer.text, (path, answer.status_code)
    assert 503 in {answer.status_code for answer in away.values()}

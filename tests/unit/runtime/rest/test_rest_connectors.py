"""What the handlers below /connectors make of requests."""

from __future__ import annotations

import pytest

from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConflictError,
    ConnectError,
    NotFoundError,
    TimedOutError,
)
from kconnect.model import PartitionLag, RunState, SinkLag, TargetState, TaskState
from kconnect.runtime.herder.interface import PluginDescription
from kconnect.runtime.rest.plugins_api import place_of
from kit.asgi import RestCaller
from kit.memory_herder import MemoryHerder, file_source


@pytest.fixture
def herder():
    herder = MemoryHerder()
    herder.put_connector("src", file_source(name="src"), replace=False)
    herder.calls.clear()
    return herder


@pytest.fixture
def rest(herder):
    caller = RestCaller(herder)
    yield caller
    caller.close()


def test_expansions_come_in_the_order_asked_for_and_unknown_ones_are_empty(rest):
    both = rest.ask("GET", "/connectors?expand=info&expand=status").json
    assert list(both["src"]) == ["info", "status"]
    assert rest.ask("GET", "/connectors?expand=foo").json == {"src": {}}
    assert rest.ask("GET", "/connectors?expand=info,status").json == {"src": {}}


def test_a_connector_that_goes_away_while_listed_is_left_out(rest, herder):
    herder.failures["connector_status"] = NotFoundError("No status found for connector src")
    assert rest.ask("GET", "/connectors?expand=status").json == {}


def test_create_appends_the_name_trims_it_and_gives_the_location(rest, herder):
    answer = rest.ask("POST", "/connectors", {"name": "  n 1 ", "config": file_source()})
    assert answer.status == 201
    assert answer.headers["location"] == "http://worker:8083/connectors/n%201"
    assert list(answer.json) == ["name", "config", "tasks", "type"]
    assert list(answer.json["config"].items())[-1] == ("name", "n 1")
    # as Java's String.trim, so that no name begins with what a terminal obeys
    assert rest.ask("POST", "/connectors", {"name": "\x1b[2J", "config": file_source()}).json["name"] == "[2J"


def test_numbers_and_booleans_become_the_text_the_caller_wrote(rest):
    body = b'{"connector.class":"FileStreamSource","topic":"t","a":1.50,"b":1e3,"c":true,"d":12345678901234567890}'
    config = rest.ask("PUT", "/connectors/x/config", body).json["config"]
    assert [config[key] for key in "abcd"] == ["1.50", "1e3", "true", "12345678901234567890"]


def test_a_sinks_lag_is_beside_its_offsets_when_it_is_asked_for(rest, herder):
    rest.ask("POST", "/connectors", {"name": "n", "config": file_source()})
    assert rest.ask("GET", "/connectors/n/offsets?lag=true").json == {"offsets": []}
    herder.lags["n"] = lag = SinkLag((PartitionLag("t", 0, None, 7, 7), PartitionLag("t", 1, 2, 3, 1)))
    assert rest.ask("GET", "/connectors/n/offsets").json == {"offsets": []}
    answer = rest.ask("GET", "/connectors/n/offsets?lag=true").json
    assert (answer["offsets"], answer["lag"]["total"]) == ([], 8)
    assert SinkLag.from_json(answer["lag"]) == lag


@pytest.mark.parametrize("field", ["offsets", "initial_offsets"])
def test_a_connector_is_created_with_offsets_whose_numbers_stay_numbers(rest, field):
    offsets = [{"partition": {"filename": "/ü"}, "offset": {"position": 9_007_199_254_740_993}}]
    answer = rest.ask("POST", "/connectors", {"name": "n", "config": file_source(), field: offsets})
    assert (answer.status, list(answer.json)) == (201, ["name", "config", "tasks", "type", "offsets_status"])
    assert rest.ask("GET", "/connectors/n/offsets").json == {"offsets": offsets}
    assert rest.ask("POST", "/connectors", {"name": "n", "config": file_source(), field: offsets}).status == 409


@pytest.mark.parametrize(
    "more", [{"offsets": {}}, {"offsets": [1]}, {"offsets": [{"a": 1}]}, {"offsets": [{}], "initial_offsets": [{}]}]
)
def test_first_offsets_of_a_wrong_shape_are_400(rest, herder, more):
    assert rest.ask("POST", "/connectors", {"name": "n", "config": file_source(), **more}).status == 400
    assert herder.calls == []


@pytest.mark.parametrize(
    ("state", "expected"), [("RUNNING", "RUNNING"), ("PAUSED", "PAUSED"), ("STOPPED", "STOPPED"), (None, "RUNNING")]
)
def test_initial_state_is_taken(rest, state, expected):
    rest.ask("POST", "/connectors", {"name": "n", "config": file_source(), "initial_state": state})
    assert rest.ask("GET", "/connectors/n/status").json["connector"]["state"] == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The request has no body"),
        (b"null", "The body is null; expected"),
        (b"[]", "The body is an array; expected"),
        (b'"x"', "The body is a text; expected"),
        (b'{"name": "a",', "The body is not JSON: "),
        (b"not json", "The body is not JSON: Expecting value at line 1, column 1"),
        (b'{"name": NaN}', "The body is not JSON: NaN is not a JSON value"),
        (b"\xff\xfe", "The body is not UTF-8 text"),
        (b"[" * 100_000, "The body is nested too deeply"),
        (b"{}", '"config" is missing'),
        (b'{"name": "a", "config": null}', "The connector config must be"),
        (b'{"name": "a", "config": []}', "The connector config must be"),
        (b'{"name": 1.5, "config": {}, "extra": 1}', 'Unknown field "extra"'),
        (b'{"name": {}, "config": {}}', '"name" must be a text'),
        (b'{"name": "a", "config": {"x": {}}}', 'The value of "x" must be a text, a number or a boolean'),
        (b'{"name": "a", "config": {"x": null}}', "Connector configuration is invalid and contains"),
        (b'{"name": "a", "config": {}, "initial_state": "banana"}', '"initial_state" must be one of RUNNING'),
        (b'{"name": "a", "config": {"name": "b"}}', "Connector name configuration (b) doesn't match"),
        # Of these the config topic would have records that no worker reads, or another name
        (b'{"name": "a", "config": {"x\\ud800": "y"}}', r"The name of the setting 'x\ud800' has half a surrogate pair"),
        (b'{"name": "a\\ud800", "config": {}}', r"The name of the connector 'a\ud800' has half a surrogate pair"),
    ],
)
def test_bodies_that_make_no_sense_are_400_with_a_sentence(rest, herder, body, message):
    answer = rest.ask("POST", "/connectors", body)
    assert answer.status == 400
    assert answer.message.startswith(message)
    assert answer.headers["content-type"] == "application/json"
    assert herder.calls == []


def test_put_config_creates_with_201_and_changes_with_200(rest):
    created = rest.ask("PUT", "/connectors/new/config", file_source())
    assert (created.status, created.headers["location"]) == (201, "http://worker:8083/connectors/new")
    changed = rest.ask("PUT", "/connectors/new/config", file_source(topic="u"))
    assert (changed.status, "location" in changed.headers) == (200, False)
    assert rest.ask("GET", "/connectors/new/config").json["topic"] == "u"


@pytest.mark.parametrize(
    ("verb", "state", "status"),
    [
        ("pause", TargetState.PAUSED, 202),
        ("resume", TargetState.STARTED, 202),
        ("stop", TargetState.STOPPED, 204),
    ],
)
def test_target_states_answer_without_a_body(rest, herder, verb, state, status):
    answer = rest.ask("PUT", f"/connectors/src/{verb}")
    assert (answer.status, answer.body) == (status, b"")
    assert "content-type" not in answer.headers
    assert herder.calls == [("set_target_state", "src", state)]


def test_plain_restart_leaves_the_tasks_alone(rest, herder):
    assert rest.ask("POST", "/connectors/src/restart?includeTasks=banana&onlyFailed=").status == 204
    assert herder.calls == [("restart_connector", "src")]


def test_restart_with_tasks_restarts_all_and_shows_them_restarting(rest, herder):
    answer = rest.ask("POST", "/connectors/src/restart?includeTasks=TRUE")
    assert answer.status == 202
    assert [answer.json["connector"]["state"], answer.json["tasks"][0]["state"]] == ["RESTARTING", "RESTARTING"]
    assert herder.calls[0] == ("restart_by_plan", "src", True, False)


def test_restart_of_what_failed_leaves_the_healthy_alone(rest, herder):
    answer = rest.ask("POST", "/connectors/src/restart?includeTasks=true&onlyFailed=true")
    assert (answer.status, answer.json["connector"]["state"]) == (202, "RUNNING")
    assert herder.calls[0] == ("restart_by_plan", "src", True, True)


def test_restart_of_an_unknown_connector_is_404_with_and_without_flags(rest):
    for query in ("", "?includeTasks=true"):
        answer = rest.ask("POST", f"/connectors/none/restart{query}")
        assert (answer.status, answer.message) == (404, "Unknown connector: none")


def test_a_task_number_that_is_none_is_404(rest):
    answer = rest.ask("GET", "/connectors/src/tasks/abc/status")
    assert (answer.status, answer.message) == (404, "HTTP 404 Not Found")
    assert answer.headers["content-type"] == "application/json"
    assert rest.ask("GET", "/connectors/src/tasks/-1/status").message == "No status found for task src--1"


@pytest.mark.parametrize("body", [{}, {"offsets": None}, {"offsets": []}])
def test_altering_no_offsets_is_400_in_javas_words(rest, body):
    answer = rest.ask("PATCH", "/connectors/src/offsets", body)
    assert answer.message == "Partitions / offsets need to be provided for an alter offsets request"


@pytest.mark.parametrize("offsets", [{}, "x", 0, [1], [None], [{"partition": "x", "offset": {}}]])
def test_offsets_of_a_wrong_shape_are_400(rest, herder, offsets):
    assert rest.ask("PATCH", "/connectors/src/offsets", {"offsets": offsets}).status == 400
    assert herder.calls == []


def test_offsets_that_get_gives_are_taken_by_patch(rest):
    rest.ask("PUT", "/connectors/src/stop")
    body = {"offsets": [{"partition": {"filename": "/ü"}, "offset": {"position": 9_007_199_254_740_993}}]}
    assert rest.ask("PATCH", "/connectors/src/offsets", body).status == 200
    assert rest.ask("GET", "/connectors/src/offsets").json == body
    assert rest.ask("DELETE", "/connectors/src/offsets").status == 200
    assert rest.ask("GET", "/connectors/src/offsets").json == {"offsets": []}


def test_plugins_are_connectors_unless_asked_for_all(rest):
    assert rest.ask("GET", "/connector-plugins").json == [
        {"class": "kconnect.FileStreamSource", "type": "source", "version": "4.3.0"}
    ]
    every = rest.ask("GET", "/connector-plugins?connectorsOnly=false").json
    assert every[1] == {"class": "kconnect.StringConverter", "type": "converter"}
    (placed,) = rest.ask("GET", "/connector-plugins?locations=true").json
    assert placed["location"] == "/plugins/files"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFoundError("m"), 404),
        (AlreadyExistsError("m"), 409),
        (ConflictError("m"), 409),
        (BadRequestError("m"), 400),
        (ConfigError("m"), 400),
        (TimedOutError("m"), 500),
        (ConnectError("m"), 500),
    ],
)
def test_each_error_has_its_status(rest, herder, error, status):
    herder.failures["connector_info"] = error
    answer = rest.ask("GET", "/connectors/src")
    assert (answer.status, answer.message) == (status, "m")


def test_a_failed_task_shows_version_before_trace_and_null_for_an_unknown_version(rest, herder, monkeypatch):
    failed = TaskState(0, RunState.FAILED, "w:1", trace="boom\n")
    monkeypatch.setattr(herder, "task_status", lambda _task: failed)
    answer = rest.ask("GET", "/connectors/src/tasks/0/status")
    assert answer.body == b'{"id":0,"state":"FAILED","worker_id":"w:1","version":null,"trace":"boom\\n"}'


def test_a_vendors_class_with_the_name_of_an_included_one_is_distinguished() -> None:
    def row(location: str) -> PluginDescription:
        return PluginDescription("io.confluent.connect.avro.AvroConverter", "converter", "1", location)

    ours, theirs = row("classpath"), row("/plugins/avro")
    assert place_of(ours, [ours, theirs]) == {"location": "classpath"}
    assert place_of(theirs, [ours, theirs]) == {"location": "/plugins/avro", "named": f"java:{theirs.class_name}"}
    assert place_of(theirs, [theirs]) == {"location": "/plugins/avro"}

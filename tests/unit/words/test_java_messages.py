"""Java's words for people, on what workers of Java answered (tests/golden) and what ours answer in their words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kconnect.logs.java_messages import log_words, plain_words, setting_problem
from kit.differences import hold_alike, numbered
from kit.places import GOLDEN

ENDPOINT = (
    "You can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"
)


def messages(tree: Any) -> Iterator[str]:
    """Every `message` of an error in a recording; bodies of answers are JSON in text."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key in ("message", "create_message") and isinstance(value, str):
                yield value
            elif key == "response_body" and isinstance(value, str) and value.startswith("{"):
                yield from messages(json.loads(value))
            else:
                yield from messages(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from messages(item)


RECORDED = sorted(
    {
        message
        for file in (*GOLDEN.glob("rest/*.json"), GOLDEN / "standalone" / "rest-transcript.json")
        for message in messages(json.loads(file.read_text()))
    }
)


def test_no_answer_of_java_keeps_lists_endpoints_or_requests() -> None:
    assert hold_alike(numbered(RECORDED), look_for_java_words) > 80


def look_for_java_words(message: str) -> None:
    reported = plain_words(message)
    for text in (reported.sentence, reported.hint or ""):
        assert not any(
            words in text
            for words in ("PluginDesc", "endpoint `", "issuing a", "Exception: ", "error(s)", "Class class", "type INT")
        )
    assert reported.sentence.strip()
    assert len(reported.sentence) < 600


@pytest.mark.parametrize(
    ("message", "sentence", "hint"),
    [
        (
            "org.apache.kafka.connect.runtime.rest.errors.BadRequestException: Connector config {} contains no "
            "connector type",
            "Connector config {} contains no connector type",
            None,
        ),
        (
            "Connectors must be in the STOPPED state before their offsets can be modified. This can be done for the "
            "specified connector by issuing a 'PUT' request to the '/connectors/my src/stop' endpoint",
            "Connector my src must be stopped before its offsets can be changed",
            "Stop it first: connect connectors stop my src",
        ),
        ("Failed to transition connector a b to state STARTED", "Connector a b could not be started", None),
        (
            "Connector configuration is invalid and contains the following 1 error(s):\nMissing required configuration "
            f'"topic" which has no default value.\n{ENDPOINT}',
            "The connector's settings are wrong: topic: is required",
            None,
        ),
        (
            "Connector configuration is invalid and contains the following 4 error(s):\n"
            "Invalid value -3 for configuration tasks.max: Value must be at least 1\n"
            "Invalid value no.Such for configuration key.converter: Class no.Such could not be found.\n"
            "Invalid value some for configuration errors.tolerance: String must be one of: none, all\n"
            f"Invalid value x for configuration batch.size: Not a number of type INT\n{ENDPOINT}",
            "The connector's settings are wrong:\n"
            "  tasks.max: must be at least 1, not -3\n"
            "  key.converter: unknown class no.Such.\n"
            "  errors.tolerance: must be one of none, all, not some\n"
            "  batch.size: must be a whole number, not x",
            None,
        ),
        (
            "Connector configuration is invalid and contains the following 2 error(s):\n"
            "Invalid value x for configuration tasks.max: Not a number of type INT\n"
            f"Invalid value null for configuration tasks.max: Value must be non-null\n{ENDPOINT}",
            "The connector's settings are wrong: tasks.max: must be a whole number, not x",
            None,
        ),
        (
            "Connector configuration is invalid and contains the following 2 error(s):\n"
            "Must configure one of topics or topics.regex\n"
            f"Must configure one of topics or topics.regex\n{ENDPOINT}",
            "The connector's settings are wrong: Must configure one of topics or topics.regex",
            None,
        ),
        (
            "Connector configuration is invalid and contains the following 1 error(s):\n"
            "Invalid value ([ for configuration topics.regex: Invalid regex: Unclosed character class near index 1\n"
            f"([\n ^\n{ENDPOINT}",
            "The connector's settings are wrong: topics.regex: Invalid regex: Unclosed character class near index 1\n"
            "([\n ^ (the value is ([)",
            None,
        ),
        (
            "Connector configuration is invalid and contains the following 2 error(s):\n"
            + 2
            * (
                "Plugin org.apache.kafka.connect.json.JsonConverter not found that matches the version range "
                "[9.9,9.9], available versions: [4.3.0, 4.3.0]\n"
            )
            + ENDPOINT,
            "The connector's settings are wrong: JsonConverter is not available in version 9.9; the worker has 4.3.0",
            None,
        ),
        (
            'Cannot invoke "java.util.List.stream()" because the return value of "org.apache.kafka.connect.runtime.'
            'isolation.VersionedPluginLoadingException.availableVersions()" is null',
            "The worker does not have the version that connector.plugin.version requires",
            "`connect plugins list` shows the available versions.",
        ),
        ("Connector src2 not found", "Connector src2 not found", None),
    ],
)
def test_an_answer_is_reported_in_a_persons_words(message: str, sentence: str, hint: str | None) -> None:
    reported = plain_words(message)
    assert (reported.sentence, reported.hint) == (sentence, hint)


LISTED = (
    "PluginDesc{klass=class org.apache.kafka.connect.file.FileStreamSinkConnector, name='x', location='file:/a/'}, "
    "PluginDesc{klass=class org.apache.kafka.connect.file.FileStreamSourceConnector, name='y', location='classpath'}"
)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("FileStreamSorce", "Did you mean FileStreamSource"),
        ("org.apache.kafka.connect.file.FileStreamSinkConector", "Did you mean FileStreamSink"),
        ("com.example.Zebra", "`connect plugins list` shows what the worker has"),
    ],
)
@pytest.mark.parametrize("prefix", ["", "org.apache.kafka.connect.errors.ConnectException: "])
def test_an_unknown_class_is_one_sentence_with_the_likely_name_and_where_to_look(
    prefix: str, name: str, hint: str
) -> None:
    lead = f"{prefix}Failed to find any class that implements Connector and which name matches {name}"
    reported = plain_words(f"{lead}, available connectors are: {LISTED}")
    assert reported.sentence == f"Unknown connector class: {name}"
    assert reported.hint is not None
    assert reported.hint.startswith(hint)
    assert "plugin.path" in reported.hint
    ours = plain_words(f"{lead}, available connectors are: {LISTED} Did you mean FileStreamSource?")
    assert ours.sentence == reported.sentence


@pytest.mark.parametrize(
    ("message", "reported"),
    [
        ("Invalid value  for configuration name: String may not be empty", "name: must not be empty"),
        ("Invalid value null for configuration topic: Value must be non-null", "topic: is required"),
        (
            "Invalid value class builtins.object for configuration key.converter: Class class builtins.object does not "
            "implement the Converter interface",
            "key.converter: builtins.object is a class, but not a Converter",
        ),
        (
            "Invalid value no.Such for configuration transforms.a.type: Class no.Such could not be found. "
            "Did you mean Flatten?",
            "transforms.a.type: unknown class no.Such. Did you mean Flatten?",
        ),
        (
            "Invalid value maybe for configuration exactly.once.support: String must be one of (case insensitive): "
            "REQUIRED, REQUESTED",
            "exactly.once.support: must be one of (case insensitive): REQUIRED, REQUESTED, not maybe",
        ),
    ],
)
def test_a_problem_of_a_setting_begins_with_its_name(message: str, reported: str) -> None:
    assert setting_problem(message) == reported


def test_a_log_line_has_neither_the_list_of_plugins_nor_the_endpoint() -> None:
    text = (
        "Traceback ..\nkconnect.errors.ConfigError: Failed to find any class that implements Connector and which name "
        f"matches X, available connectors are: {LISTED}\n  at\nwrong\n{ENDPOINT}\nmore"
    )
    assert log_words(text) == (
        "Traceback ..\nkconnect.errors.ConfigError: Failed to find any class that implements Connector and which name "
        "matches X\n  at\nwrong\nmore"
    )
    assert log_words("nothing of it") == "nothing of it"

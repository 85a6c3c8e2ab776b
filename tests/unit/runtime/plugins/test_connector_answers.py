"""What is no answer of a connector is named with its method, and without its text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kconnect.api import ConfigDef, SinkTask, SourceTask
from kconnect.errors import ConnectError
from kconnect.runtime.plugins.connector_answers import (
    checked_config,
    checked_definition,
    checked_task_class,
    checked_task_configs,
)
from kit.sample_connectors import SampleSource

SECRET = {"password": "s3cret"}


@pytest.mark.parametrize(
    ("checked", "given", "said"),
    [
        (checked_definition, None, "SampleSource.config() must return a ConfigDef that is not null."),
        (checked_definition, SECRET, "SampleSource.config() must return a ConfigDef, and gave a dict."),
        (checked_config, None, "SampleSource.validate() must return a Config that is not null."),
        (checked_config, [], "SampleSource.validate() must return a Config, and gave a list."),
        (checked_task_class, None, "task_class() of SampleSource gave None, not a class of tasks"),
        (checked_task_class, "Task", "task_class() of SampleSource gave a str, not a class of tasks"),
        (checked_task_class, dict, "task_class() of SampleSource gave the class dict, not a class of tasks"),
        (checked_task_configs, None, "task_configs() of SampleSource gave None, not a list"),
        (checked_task_configs, SECRET, "task_configs() of SampleSource gave a dict, not a list"),
        (checked_task_configs, iter([SECRET]), "task_configs() of SampleSource gave a list_iterator, not a list"),
        (checked_task_configs, [{}, "s3cret"], "task_configs() of SampleSource gave task 1 a str, not a dict"),
    ],
)
def test_what_is_no_answer_is_named(checked: Callable[..., Any], given: Any, said: str) -> None:
    with pytest.raises(ConnectError) as caught:
        checked(SampleSource(), given)
    assert str(caught.value) == said
    assert "s3cret" not in (caught.value.hint or "")


def test_an_answer_is_taken_as_it_is() -> None:
    connector, table = SampleSource(), ConfigDef()
    assert checked_definition(connector, table) is table
    for task in (SourceTask, SinkTask):
        assert checked_task_class(connector, task) is task
    assert checked_task_configs(connector, ({"a": "b"}, {})) == [{"a": "b"}, {}]
    assert checked_task_configs(connector, []) == []

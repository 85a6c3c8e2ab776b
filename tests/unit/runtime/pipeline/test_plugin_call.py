"""What a plugin raises gets the name of the call; also where its text cannot be made."""

from __future__ import annotations

import traceback

import pytest

from kconnect.errors import RetriableError
from kconnect.runtime.pipeline.error_texts import exception_trace
from kconnect.runtime.pipeline.plugin_call import PluginCallError, plugin_call


class Unsayable(Exception):
    def __str__(self) -> str:
        raise KeyError("message")


class Task:
    pass


def test_an_error_has_the_name_of_its_call() -> None:
    with pytest.raises(PluginCallError) as caught, plugin_call(Task(), "put", place="transforms.x"):
        raise OSError("full")
    assert str(caught.value) == "Task.put() of transforms.x raised OSError: full"
    assert (caught.value.plugin, caught.value.method) == (Task, "put")
    with pytest.raises(RetriableError, match="later"), plugin_call(Task(), "put"):
        raise RetriableError("later")


def test_an_error_whose_text_cannot_be_made_is_named_and_hides_no_other() -> None:
    """Whoever said something about it failed with the KeyError, far from the plugin."""
    with pytest.raises(PluginCallError) as caught, plugin_call(Task(), "poll"):
        raise Unsayable
    said = "Unsayable, whose text cannot be made: __str__() raised KeyError"
    assert str(caught.value) == f"Task.poll() raised ConnectError: {said}"
    assert said in exception_trace(caught.value)
    assert "raise Unsayable" in "".join(traceback.format_exception(caught.value))

"""Which line of a trace is the user's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kconnect.api import SinkRecord
from kconnect.builtin.python_function import PythonTransform
from kconnect.runtime.plugins.code_location import PluginCode

FUNCTIONS = """
import json

def in_itself(record):
    return record.value["gone"]

def in_a_library(record):
    return json.loads(record.value)
"""


@pytest.mark.parametrize(
    ("function", "line"),
    [("in_itself", 'return record.value["gone"]'), ("in_a_library", "return json.loads(record.value)")],
)
def test_of_a_shipped_plugin_it_is_the_line_of_the_function_that_it_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: str, line: str
) -> None:
    (tmp_path / "their_functions.py").write_text(FUNCTIONS)
    monkeypatch.syspath_prepend(str(tmp_path))
    transform = PythonTransform()
    transform.configure({"function": f"their_functions:{function}"})
    with pytest.raises((TypeError, json.JSONDecodeError)) as caught:
        transform.apply(SinkRecord("t", 0, None, None, None, "text", 0))
    # Where it was caught in a worker there is no frame of a test
    error = caught.value.with_traceback(caught.value.__traceback__ and caught.value.__traceback__.tb_next)
    place = PluginCode.of(PythonTransform).innermost(error)
    assert place is not None
    assert (Path(place.file).name, place.source) == ("their_functions.py", line)
    assert PluginCode.of(PythonTransform).outermost(error) is None


def test_an_error_of_a_shipped_plugin_itself_has_none() -> None:
    transform = PythonTransform()
    with pytest.raises(Exception, match="function") as caught:
        transform.configure({})
    error = caught.value.with_traceback(caught.value.__traceback__ and caught.value.__traceback__.tb_next)
    assert PluginCode.of(PythonTransform).innermost(error) is None

"""What a validation and a look at the metrics import: the plugins that configs name, and no others."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kit.pace import ample_s
from kit.places import TESTS

_VALIDATES = """
import sys
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.plugins import PluginRegistry
converters = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
config = {"name": "n", "connector.class": "FileStreamSource", "topic": "t"}
infos = ConnectorValidator(PluginRegistry.load(), converters).validate(config, offers=False)
assert infos.errors == []
assert {info.value.name: info.value.value for info in infos.configs}["connector.plugin.version"] == "4.3.0"
print(*(name for name in sys.modules if name.startswith("kconnect.builtin.")))
"""

_MEASURES = """
import sys
from kconnect.model import ConnectorState, ConnectorStatus, ConnectorType, RunState, TaskState
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.queries.worker_metrics import worker_readings
from kconnect.runtime.metrics import Startups, prometheus_text
from kconnect.runtime.plugins import PluginRegistry
from kit.memory_launcher import MemoryLauncher
class Status:
    connector_starts = task_starts = Startups()
    def find_connector(self, name, kind):
        state, worker = RunState.RUNNING, "w:8083"
        return ConnectorStatus(name, ConnectorState(state, worker), (TaskState(0, state, worker),), kind)
registry = PluginRegistry.load()
registry.connector_class("FileStreamSource")
converters = {"key.converter": "StringConverter", "value.converter": "org.apache.kafka.connect.json.JsonConverter"}
entry = ConnectorEntry("n", {"connector.class": "FileStreamSource", "topic": "t"})
text = prometheus_text(
    worker_readings({"n": ConnectorType.SOURCE}, [entry], Status(), MemoryLauncher(), registry, converters)
)
of_task = 'kafka_connect_connector_task_metrics_{}{{connector="n",task="0",value="{}"}} 1'
for line in (
    'kafka_connect_connector_metrics_connector_version{connector="n",value="4.3.0"} 1',
    of_task.format("key_converter_class", "org.apache.kafka.connect.storage.StringConverter"),
    of_task.format("key_converter_version", "4.3.0"),
    of_task.format("value_converter_version", "4.3.0"),
):
    assert line in text, text
print(*(name for name in sys.modules if name.startswith("kconnect.builtin.")))
"""


@pytest.mark.parametrize("program", [_VALIDATES, _MEASURES])
def test_no_plugin_is_imported_that_is_not_named(program: str) -> None:
    reported = subprocess.run(
        [sys.executable, "-c", program],
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=ample_s(60),
        check=False,
    )
    assert reported.returncode == 0, reported.stderr
    loaded = reported.stdout.split()
    assert "kconnect.builtin.connectors.file_source" in loaded
    others = (
        "schema_registry",
        "transforms",
        "connectors.sql",
        "connectors.objects",
        "connectors.tables",
        "predicates",
    )
    assert [name for name in loaded if name.startswith(tuple(f"kconnect.builtin.{part}" for part in others))] == []

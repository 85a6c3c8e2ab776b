"""What a validation imports: the plugins that the config names, and no others."""

from __future__ import annotations

import subprocess
import sys

from kit.pace import ample_s

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


def test_a_validation_that_offers_nothing_imports_no_plugin_that_is_not_named() -> None:
    reported = subprocess.run(
        [sys.executable, "-c", _VALIDATES], capture_output=True, text=True, timeout=ample_s(60), check=False
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

"""Plugins of others beside Java Connect on one broker, what takes no server: `make java-parity` runs all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kit.parity.sides import pair, plugin_folder
from kit.parity.table import Row
from kit.parity.transforms import COMMON, compare_transforms
from kit.third_party import third_party_path

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(300)]

_CHOSEN = (
    "ChangeCase$Key",
    "ChangeTopicCase",
    "ExtractNestedField$Value",
    "ExtractTimestamp$Value of a field that is not there",
    "ToJSON$Value as bytes",
    "BytesToString$Value of fields",
)


def test_transformations_of_others_do_here_what_they_do_in_java_connect(tmp_path: Path, broker: DevBroker) -> None:
    """Records with schemas and classes, states, causes of failures, settings and counts."""
    row = Row("jcustenborder", "kafka-connect-transform-common", "some")
    plugins = [plugin_folder(tmp_path / "plugins"), third_party_path("kafka-connect-transform-common")]
    with pair(tmp_path, broker.bootstrap, plugins) as both:
        compare_transforms(both, row, "common", {case: COMMON[case] for case in _CHOSEN})
    assert row.differences == []
    assert set(row.cells) == {"settings", "records", "statuses", "errors", "metrics"}

"""Connectors in custom resources of Kubernetes, as Strimzi and Confluent write them and kubectl prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kconnect.errors import ConfigError
from kconnect.model import TargetState
from kconnect.runtime.config.dropins import ConnectorFile, load_connector_file, load_connector_files

STRIMZI = """\
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnect
metadata: {name: my-connect}
spec: {replicas: 1, config: {group.id: x}}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnector
metadata:
  name: my-source
  labels: {strimzi.io/cluster: my-connect}
spec:
  class: FileStreamSource
  tasksMax: 2
  version: "[1.2,2)"
  autoRestart: {enabled: true}
  state: stopped
  config:
    file: /etc/motd
    batch.size: 010
status: {observedGeneration: 1}
---
"""
CONFLUENT = """\
apiVersion: platform.confluent.io/v1beta1
kind: Connector
metadata: {name: cfk-source, namespace: confluent}
spec:
  name: Cfk.Source
  class: FileStreamSource
  taskMax: 1
  configs: {file: /etc/motd}
  restartPolicy: {type: OnFailure}
"""


def resource(name: str, **spec: Any) -> dict[str, Any]:
    return {"kind": "KafkaConnector", "metadata": {"name": name}, "spec": {"class": "X", **spec}}


def read(folder: Path, text: str, file: str = "c.yaml") -> list[ConnectorFile]:
    path = folder / file
    path.write_text(text)
    return load_connector_files(path)


@pytest.mark.parametrize("file", ["c.yaml", "stdin"])
def test_a_connector_of_strimzis_has_its_name_class_tasks_version_config_and_state(tmp_path: Path, file: str) -> None:
    (found,) = read(tmp_path, STRIMZI, file)

    assert found.config == {
        "name": "my-source",
        "connector.class": "FileStreamSource",
        "tasks.max": "2",
        "connector.plugin.version": "[1.2,2)",
        "file": "/etc/motd",
        "batch.size": "010",
    }
    assert (found.initial_state, found.keeps_state) == (TargetState.STOPPED, True)
    assert found.labels == {"strimzi.io/cluster": "my-connect"}
    assert load_connector_file(tmp_path / file) == found


def test_a_connector_of_confluents_has_the_name_of_its_spec(tmp_path: Path) -> None:
    (found,) = read(tmp_path, CONFLUENT)
    blueprint = {"kind": "Connector", "metadata": {"name": "b"}, "spec": {"connectorConfigs": {"class": "X"}}}
    (other,) = read(tmp_path, json.dumps(blueprint), "c.json")

    assert found.config == {
        "name": "Cfk.Source",
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": "/etc/motd",
    }
    assert found.initial_state is None
    assert other.config == {"name": "b", "connector.class": "X"}


def test_a_list_has_the_connectors_of_its_items(tmp_path: Path) -> None:
    items = [resource("a", pause=True), {"kind": "KafkaTopic", "spec": {}}, resource("b", pause=False, tasksMax=3)]
    tree = {"apiVersion": "v1", "kind": "List", "items": items}

    a, b = read(tmp_path, json.dumps(tree), "c.json")

    assert (a.name, a.initial_state) == ("a", TargetState.PAUSED)
    assert (b.config, b.initial_state) == ({"name": "b", "connector.class": "X", "tasks.max": "3"}, None)
    assert read(tmp_path, json.dumps({"kind": "KafkaTopic", "spec": {}}), "c.json") == []


def test_what_only_looks_like_a_resource_is_a_connector(tmp_path: Path) -> None:
    (flat,) = read(tmp_path, "name: a\nconnector.class: X\nkind: Connector\nspec: y\n")
    (nested,) = read(tmp_path, "name: a\nkind: List\nspec: y\nconfig:\n  connector.class: X\n")

    assert flat.config == {"name": "a", "connector.class": "X", "kind": "Connector", "spec": "y"}
    assert nested.config == {"name": "a", "connector.class": "X"}


@pytest.mark.parametrize(
    ("tree", "said", "hint"),
    [
        (resource("a", taskMax=1), "KafkaConnector a: Unknown field: spec.taskMax", "Did you mean tasksMax?"),
        (resource("a", cofig={}), "KafkaConnector a: Unknown field: spec.cofig", "Did you mean config?"),
        ({**resource("a"), "kind": "KafkaConector"}, "Unknown kind: KafkaConector", "Did you mean KafkaConnector"),
        (resource("a", config="x"), "KafkaConnector a: `config` is not a mapping", "below it"),
        (
            resource("a", config={"connector.class": "Y"}),
            "spec.class is X, connector.class in spec.config is Y",
            "Keep",
        ),
        (resource("a", config={"x": None}), "'x' is null", "Give it a value"),
        (resource("a", state="gone"), "'gone' is unknown", "PAUSED"),
        ({"kind": "KafkaConnector", "spec": {}}, "is missing the mandatory 'name'", "name"),
    ],
)
def test_a_resource_that_means_something_else_is_refused(
    tmp_path: Path, tree: dict[str, Any], said: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, json.dumps(tree), "c.json")

    assert said in str(refused.value)
    assert "c.json" in str(refused.value)
    assert hint in str(refused.value.hint)

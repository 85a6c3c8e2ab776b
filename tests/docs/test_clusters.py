"""docs/clusters.md, as far as it can be checked without a cluster: image, manifests and how they hang together."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from kconnect.config.properties import parse_properties
from kconnect.config.worker_config import DistributedConfig
from kconnect.spark.settings import SparkSettings
from kit.documents import blocks_of

_ROOT = Path(__file__).parents[2]
_BLOCKS = blocks_of(_ROOT / "docs" / "clusters.md")
_PORTS = {"driver": "spark.driver.port", "blocks": "spark.driver.blockManager.port", "link": "kconnect.link.port"}


def _manifest(kind: str) -> dict[str, Any]:
    found = [yaml.safe_load(block.text) for block in _BLOCKS if block.language == "yaml"]
    (manifest,) = [manifest for manifest in found if manifest["kind"] == kind]
    assert isinstance(manifest, dict)
    return manifest


def _worker() -> dict[str, str]:
    return parse_properties(_manifest("ConfigMap")["data"]["worker.properties"], "worker.properties")


def test_each_manifest_is_of_the_namespace_and_has_the_version_of_its_kind():
    versions = {
        "ServiceAccount": "v1",
        "Role": "rbac.authorization.k8s.io/v1",
        "RoleBinding": "rbac.authorization.k8s.io/v1",
        "Service": "v1",
        "ConfigMap": "v1",
        "Deployment": "apps/v1",
    }
    for kind, version in versions.items():
        manifest = _manifest(kind)
        assert manifest["apiVersion"] == version
        assert manifest["metadata"]["namespace"] == _worker()["spark.kubernetes.namespace"]


def test_the_worker_file_of_the_manifest_is_that_of_a_worker_on_kubernetes():
    config = DistributedConfig.parse(_worker())
    settings = SparkSettings.parse(_worker())

    assert config.unknown_keys() == []
    assert not settings.is_local
    assert settings.link_port == 7080
    assert settings.link_advertised_host == _worker()["spark.driver.host"]


def test_the_deployment_the_service_and_the_worker_file_name_the_same_things():
    worker, service, deployment = _worker(), _manifest("Service"), _manifest("Deployment")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    names = service["metadata"]

    assert worker["spark.driver.host"] == f"{names['name']}.{names['namespace']}.svc"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    ports = {port["name"]: port["port"] for port in service["spec"]["ports"]}
    assert ports == {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {name: str(ports[name]) for name in _PORTS} == {name: worker[key] for name, key in _PORTS.items()}
    assert container["image"] == worker["spark.kubernetes.container.image"]
    assert container["readinessProbe"]["httpGet"]["port"] in ports
    (volume,) = pod["spec"]["volumes"]
    assert volume["configMap"]["name"] == _manifest("ConfigMap")["metadata"]["name"]
    assert container["volumeMounts"] == [{"name": volume["name"], "mountPath": "/etc/connect"}]
    assert container["args"][-1] == "/etc/connect/worker.properties"


def test_the_service_account_may_do_what_spark_does_with_executor_pods():
    account, binding, role = _manifest("ServiceAccount"), _manifest("RoleBinding"), _manifest("Role")
    name = account["metadata"]["name"]

    assert _worker()["spark.kubernetes.authenticate.driver.serviceAccountName"] == name
    assert _manifest("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == name
    assert binding["subjects"][0]["name"] == name
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    (rule,) = role["rules"]
    assert {"pods", "configmaps"} <= set(rule["resources"])
    assert {"get", "list", "watch", "create", "delete", "deletecollection"} <= set(rule["verbs"])


def test_the_image_is_made_of_files_that_are_there_and_of_the_spark_of_the_lock():
    (image,) = [block.text for block in _BLOCKS if block.language == "dockerfile"]
    lines = image.strip().splitlines()
    known = {"FROM", "RUN", "COPY", "ENV", "WORKDIR", "USER", "ENTRYPOINT", "CMD"}
    assert {line.split()[0] for line in lines} == known
    for line in lines:
        if line.startswith("COPY ") and "--from" not in line:
            sources = shlex.split(line)[1:-1]
            assert all((_ROOT / source).exists() for source in sources), line
    locked = re.search(r"^pyspark==(\S+)", (_ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None
    assert f"FROM apache/spark:{locked[1]} AS spark" in lines

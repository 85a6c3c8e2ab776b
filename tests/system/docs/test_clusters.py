"""docs/clusters.md, as far as it can be checked without a cluster: image, manifests and how they hang together."""

from __future__ import annotations

import copy
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kconnect.java.compat.properties import parse_properties
from kconnect.runtime.config.worker_config import DistributedConfig
from kconnect.spark.settings import SparkSettings, spark_conf
from kit.documents import blocks_of
from kit.places import ROOT
from kit.spark_classes import SparkClasses, spark_classes

_PAGE = ROOT / "docs" / "clusters.md"
_BLOCKS = blocks_of(_PAGE)
# What Spark reads by these names, and declares nowhere
_UNDECLARED = {"spark.master"}
_PORTS = {"driver": "spark.driver.port", "blocks": "spark.driver.blockManager.port", "link": "kconnect.link.port"}


_MANIFESTS = [yaml.safe_load(block.text) for block in _BLOCKS if block.language == "yaml"]


def _manifest(kind: str) -> dict[str, Any]:
    (manifest,) = [manifest for manifest in _MANIFESTS if manifest["kind"] == kind]
    assert isinstance(manifest, dict)
    return manifest


def _worker() -> dict[str, str]:
    return parse_properties(_manifest("ConfigMap")["data"]["worker.properties"], "worker.properties")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkClasses]:
    with spark_classes(tmp_path_factory.mktemp("spark-classes")) as running:
        yield running


@pytest.mark.spark
def test_every_setting_of_spark_on_the_page_is_one_and_every_value_is_read(spark):
    """A key that Spark does not know would have no effect, and nobody would say so."""
    named = set(re.findall(r"(?<![\w.])spark\.[a-z][A-Za-z0-9.]*[A-Za-z]", _PAGE.read_text())) - _UNDECLARED
    given = [parse_properties(block.text, str(block)) for block in _BLOCKS if block.language == "properties"]

    assert len(named) > 20
    assert [key for key in sorted(named) if not spark.has_setting(key)] == []
    for settings in [*given, _worker()]:
        for key, value in settings.items():
            if key in named:
                assert spark.value(key, value) is not None


@pytest.mark.spark
@pytest.mark.parametrize("manifest", _MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_a_manifest_has_no_field_that_kubernetes_lacks_and_values_of_its_types(spark, manifest):
    assert spark.read_manifest(manifest) == (manifest, [])


@pytest.mark.spark
def test_what_is_wrong_in_a_manifest_is_seen(spark):
    """The check above is one of ours: Kubernetes' classes alone keep unknown fields, and make a number of a text."""
    manifest = copy.deepcopy(_manifest("Deployment"))
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["volumeMount"] = container.pop("volumeMounts")
    manifest["spec"]["replicas"] = "2"

    read, unknown = spark.read_manifest(manifest)

    assert unknown == ["Deployment.spec.template.spec.containers[0].volumeMount"]
    assert read["spec"]["replicas"] == 2


@pytest.mark.spark
def test_the_executors_that_spark_makes_of_the_worker_file_find_their_worker_and_have_its_memory(spark):
    """With the address 0.0.0.0 to bind to, Spark would hand executors that one."""
    reported = {"POD_NAME": "connect-7", "POD_IP": "10.1.2.3"}
    worker = {
        key: re.sub(r"\$\{env:(\w+)\}", lambda match: reported[match[1]], value) for key, value in _worker().items()
    }
    pod = spark.executor_pod(spark_conf(SparkSettings.parse(worker), Path("folder")))
    (container,) = pod["spec"]["containers"]
    env = {variable["name"]: variable.get("value") for variable in container["env"]}

    assert env["SPARK_DRIVER_URL"] == "spark://CoarseGrainedScheduler@10.1.2.3:7078"
    assert env["PYTHONPATH"] == "kconnect-lib"
    assert container["args"] == ["executor"]  # for the entrypoint of the image
    assert container["image"] == worker["spark.kubernetes.container.image"]
    assert container["resources"]["requests"] == {"cpu": "2", "memory": "2048Mi"}  # half of it is for Python
    assert pod["spec"]["serviceAccountName"] == _manifest("ServiceAccount")["metadata"]["name"]
    assert env.keys() >= {"SPARK_EXECUTOR_POD_IP"}


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
    assert (settings.link_bind_host, settings.link_advertised_host) == ("0.0.0.0", None)  # as the driver: its pod's


def test_the_deployment_the_service_and_the_worker_file_name_the_same_things():
    worker, service, deployment = _worker(), _manifest("Service"), _manifest("Deployment")
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    env = {variable["name"]: variable["valueFrom"]["fieldRef"]["fieldPath"] for variable in container["env"]}

    assert env == {"POD_NAME": "metadata.name", "POD_IP": "status.podIP"}
    for key in ("spark.driver.host", "spark.driver.bindAddress", "rest.advertised.host.name"):
        assert worker[key] == "${env:POD_IP}"
    assert worker["spark.kubernetes.driver.pod.name"] == "${env:POD_NAME}"
    assert service["spec"]["selector"] == pod["metadata"]["labels"] == deployment["spec"]["selector"]["matchLabels"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["rest"]
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
            assert all((ROOT / source).exists() for source in sources), line
    locked = re.search(r"^pyspark==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked is not None
    assert f"FROM apache/spark:{locked[1]} AS spark" in lines

"""Image, manifests and unit as files: by their own tools' rules, and how they hang together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kconnect.runtime.config.environment import worker_of
from kconnect.runtime.config.worker_config import DistributedConfig
from kit.dockerfiles import instructions_of
from kit.pace import ample_s
from kit.places import ROOT

KUBERNETES = ROOT / "deploy" / "kubernetes"
UNIT = ROOT / "deploy" / "systemd" / "kconnect.service"
IMAGE = instructions_of(ROOT / "Dockerfile")
MANIFESTS = [
    (path.name, manifest)
    for path in sorted(KUBERNETES.glob("*.yaml"))
    if path.name != "kustomization.yaml"
    for manifest in yaml.safe_load_all(path.read_text("utf-8"))
]


def manifest(kind: str, name: str) -> dict[str, Any]:
    (found,) = [one for _, one in MANIFESTS if one["kind"] == kind and one["metadata"]["name"] == name]
    return found


def only(name: str, stage: int = 1) -> Any:
    (found,) = [one for one in IMAGE if one.name == name and one.stage == stage]
    return found


def test_the_linter_of_dockerfiles_finds_nothing() -> None:
    command = [str(Path(sys.executable).with_name("hadolint")), str(ROOT / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ample_s(30), check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_as_nobody_special_by_exec_forms_and_is_asked_for_its_health() -> None:
    assert only("USER").words == "10001"
    assert only("STOPSIGNAL").words == "SIGTERM"
    assert only("ENTRYPOINT").command == ["tini", "--", "connect"]
    assert only("CMD").command == ["distributed"]
    assert "/health" in only("HEALTHCHECK").command[-1]
    assert not [one for one in IMAGE if one.name in ("ADD", "ARG") and one.stage > 0]
    assert any("--require-hashes" in one.words for one in IMAGE if one.name == "RUN" and one.stage == 0)


def test_what_the_image_copies_is_what_the_context_lets_through() -> None:
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_through = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied = [part for one in IMAGE if one.name == "COPY" and one.stage == 0 for part in one.words.split()[:-1]]
    assert "*" in lines
    assert set(copied) == let_through
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.parametrize(("file", "manifest"), MANIFESTS, ids=[f"{file}-{one['kind']}" for file, one in MANIFESTS])
def test_a_manifest_fits_the_schemas_of_kubernetes(file: str, manifest: dict[str, Any]) -> None:
    assert kubernetes_validate.validate(manifest, "1.31", strict=True) is not False


def test_a_field_that_kubernetes_lacks_is_noticed() -> None:
    wrong = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}, "spec": {"prts": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.31", strict=True)


def test_kustomization_names_every_manifest_but_the_examples() -> None:
    named = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text("utf-8"))["resources"]
    assert {*named, "check.job.yaml", "secret.example.yaml"} == {file for file, _ in MANIFESTS}


def test_the_manifests_name_the_same_things() -> None:
    stateful = manifest("StatefulSet", "connect")
    pod = stateful["spec"]["template"]["spec"]
    (worker,) = pod["containers"]
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert stateful["spec"]["selector"]["matchLabels"] == labels
    assert manifest("PodDisruptionBudget", "connect")["spec"]["selector"]["matchLabels"] == labels
    for name in ("connect", stateful["spec"]["serviceName"]):
        service = manifest("Service", name)
        assert service["spec"]["selector"] == labels
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= {port["name"] for port in worker["ports"]}
    assert {mount["name"] for mount in worker["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    (check,) = manifest("Job", "connect-check")["spec"]["template"]["spec"]["containers"]
    assert (check["image"], check["envFrom"]) == (worker["image"], worker["envFrom"])
    assert worker["envFrom"][0]["configMapRef"]["name"] == manifest("ConfigMap", "connect-worker")["metadata"]["name"]
    secret = next(volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume)
    assert manifest("Secret", secret)
    assert str(pod["securityContext"]["runAsUser"]) == only("USER").words
    assert any(mount["mountPath"] == only("WORKDIR").words for mount in worker["volumeMounts"])


def test_the_variables_of_the_manifests_are_a_worker_without_unknown_settings_that_stops_in_time() -> None:
    given = manifest("ConfigMap", "connect-worker")["data"]
    pod = manifest("StatefulSet", "connect")["spec"]["template"]["spec"]
    env = {one["name"]: one.get("value", "connect-0") for one in pod["containers"][0]["env"]}
    config = DistributedConfig.parse(worker_of(given | env).properties)
    assert config.unknown_keys() == []
    assert config.values["rest.advertised.host.name"] == "$(POD_NAME).connect-workers"
    assert config.listeners == [f"http://:{pod['containers'][0]['ports'][0]['containerPort']}"]
    # 8 s for Spark's end, 2 s for requests, and the stores
    assert pod["terminationGracePeriodSeconds"] >= config.task_shutdown_graceful_timeout_ms / 1000 + 15


def test_a_secret_of_the_example_is_what_the_variable_in_the_comment_names() -> None:
    (key,) = manifest("Secret", "connect-secrets")["stringData"]
    text = (KUBERNETES / "statefulset.yaml").read_text("utf-8")
    assert f"{{name: CONNECT_SASL_JAAS_CONFIG_FILE, value: /etc/connect/secrets/{key}}}" in text


def test_systemd_accepts_the_unit_and_calls_it_well_shut(tmp_path: Path) -> None:
    """With the `connect` of these tests: systemd looks whether it can be executed."""
    unit = tmp_path / UNIT.name
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/kconnect/bin", str(Path(sys.executable).parent)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=ample_s(30),
        check=False,
    )
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (0, [])
    shut = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(unit)]
    done = subprocess.run(shut, capture_output=True, text=True, timeout=ample_s(30), check=False)
    assert done.returncode == 0, done.stdout

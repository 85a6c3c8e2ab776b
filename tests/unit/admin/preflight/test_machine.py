"""What `connect check` reads of this machine, without a network."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from kconnect.admin.preflight.machine import _kubernetes_address, _limit_of_container, machine_probes
from kconnect.admin.preflight.results import Verdict


@pytest.mark.parametrize(
    ("master", "address"),
    [
        ("k8s://https://kubernetes.default.svc:443", [("kubernetes.default.svc", 443)]),
        ("k8s://http://127.0.0.1:8001", [("127.0.0.1", 8001)]),
        ("k8s://cluster.example.com", [("cluster.example.com", 443)]),
        ("k8s://https://x:port", []),
        ("yarn", []),
    ],
)
def test_the_api_server_of_kubernetes_is_asked_too(master: str, address: list[tuple[str, int]]) -> None:
    assert _kubernetes_address(master) == address


def test_a_container_has_what_its_limit_leaves(tmp_path: Path) -> None:
    assert _limit_of_container(tmp_path) is None
    (tmp_path / "memory.current").write_text("300\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert _limit_of_container(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000\n")
    assert _limit_of_container(tmp_path) == (1000, 700)


@pytest.mark.parametrize(
    ("most", "is_enough"), [(90, False), (399, False), (400, True), (resource.RLIM_INFINITY, True)]
)
def test_a_limit_of_open_files_that_ends_sparks_jvm_is_found(
    monkeypatch: pytest.MonkeyPatch, most: int, is_enough: bool
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (most, most))
    spark = next(probe for probe in machine_probes({}) if probe.check == "spark")
    (found,) = spark.look(1.0)
    assert (found.verdict is Verdict.OK) == is_enough
    assert is_enough or found.message == f"only {most} files may be open at once, and Spark's JVM needs 400"

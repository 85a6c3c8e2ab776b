"""What `connect check` reads of this machine, without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.admin.preflight.machine import _kubernetes_address, _limit_of_container


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

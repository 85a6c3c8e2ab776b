"""A cluster of one distributed Java worker, and the command that works on its topics."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect_cli.app import run
from kit.cli import CliResult
from kit.java_connect import JavaConnect
from kit.topics import create_topic

__all__ = ["JavaCluster"]


class JavaCluster:
    """A distributed Java worker, its properties for --worker, and the command. `more`: settings of the worker."""

    def __init__(self, broker: DevBroker, folder: Path, more: Mapping[str, str] | None = None) -> None:
        self.java = JavaConnect(
            folder / "java",
            broker.bootstrap,
            mode="distributed",
            worker={
                "offset.flush.interval.ms": "300",
                "scheduled.rebalance.max.delay.ms": "0",
                "status.storage.partitions": "2",
                "offset.storage.partitions": "3",
                **(more or {}),
            },
        )
        self.topic = f"direct-{self.java.port}"
        self.lines = folder / "lines.txt"
        self.lines.write_text("one\ntwo\nthree\n")
        create_topic(broker.bootstrap, self.topic)

    @property
    def file(self) -> Path:
        return self.java.folder / "worker.properties"

    def connect(self, *args: str, expect: int = 0, stdin: str = "") -> CliResult:
        """Run the command in this process. Errors: AssertionError when it ends with another code."""
        with pytest.MonkeyPatch.context() as patch:
            out, err = io.StringIO(), io.StringIO()
            for name, stream in (("stdin", io.StringIO(stdin)), ("stdout", out), ("stderr", err)):
                patch.setattr(sys, name, stream)
            patch.setenv("KCONNECT_URL", self.java.url)
            patch.setenv("XDG_CONFIG_HOME", str(self.java.folder / "config"))
            code = run(args)
        assert code == expect, f"connect {' '.join(args)} ended with {code}\n{out.getvalue()}\n{err.getvalue()}"
        return CliResult(code, out.getvalue(), err.getvalue())

    def direct(self, *args: str, expect: int = 0, stdin: str = "") -> CliResult:
        """With --direct, on the worker's file."""
        return self.connect(*args, "--direct", "--worker", str(self.file), expect=expect, stdin=stdin)

    def create(self, name: str, config: Mapping[str, str]) -> None:
        self.java.order("POST", "/connectors", {"name": name, "config": config}, expect=201)

    def source(self, **more: str) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSource",
            "tasks.max": "1",
            "file": str(self.lines),
            "topic": self.topic,
            **more,
        }

    def offsets(self, name: str) -> Any:
        return self.java.request("GET", f"/connectors/{name}/offsets")[1].get("offsets")

    def sink(self, **more: str) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "tasks.max": "1",
            "file": str(self.java.folder / "out.txt"),
            "topics": self.topic,
            **more,
        }

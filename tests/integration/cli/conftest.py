"""Commands against a REST server over a herder in memory."""

from __future__ import annotations

import io
import sys

import pytest

from kconnect.runtime.rest import RestServer
from kconnect_cli.app import run
from kconnect_cli.options import cluster as cluster_options
from kit.cli import without_waits
from kit.memory_herder import MemoryHerder, file_source


@pytest.fixture(autouse=True)
def patient_brokers(monkeypatch):
    """A broker on a busy machine answers late: commands here wait longer for it than a user is asked to."""
    monkeypatch.setattr(cluster_options, "DEFAULT_TIMEOUT", "60s")


@pytest.fixture
def herder():
    herder = MemoryHerder()
    for name in ("orders", "lines"):
        herder.put_connector(name, file_source(name=name), replace=False)
    return herder


@pytest.fixture
def url(herder):
    with RestServer(herder, ["http://127.0.0.1:0"]) as server:
        yield server.urls[0]


@pytest.fixture
def connect(url, monkeypatch, capsys, tmp_path):
    """Run `connect ARGS` with a config folder of its own; gives code, stdout, stderr."""
    monkeypatch.setenv("KCONNECT_URL", url)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    def call(*args):
        code = run(args)
        out, err = capsys.readouterr()
        return code, out, without_waits(err)

    return call

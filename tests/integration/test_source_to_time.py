"""A source is moved to a time, and back, on the topics of a cluster."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kconnect.model import RunState, TargetState
from kconnect_cli.app import run
from kit.written_cluster import WrittenCluster

pytestmark = pytest.mark.broker

CONFIG = {"connector.class": "HttpJsonSource", "url": "http://localhost:1/", "topic": "t", "cursor.field": "at"}


@pytest.fixture(scope="module")
def cluster(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WrittenCluster]:
    with WrittenCluster(broker.bootstrap, tmp_path_factory.mktemp("to-time")) as running:
        stopped = {"target": TargetState.STOPPED, "state": RunState.STOPPED}
        running.add_connector("web", CONFIG, **stopped)
        running.commit_offsets("web", [({"url": "u"}, {"cursor": "2026-11-23T10:00:00Z", "page": "2"})])
        running.add_connector("file", {"connector.class": "FileStreamSource", "file": "f", "topic": "t"}, **stopped)
        running.commit_offsets("file", [({"filename": "f"}, {"position": 5})])
        yield running


def test_a_source_that_knows_times_goes_to_one_and_back_and_another_says_why_not(
    cluster: WrittenCluster, monkeypatch, capsys, tmp_path: Path
) -> None:
    monkeypatch.setenv("KCONNECT_WORKER", str(cluster.worker_file))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))

    def connect(*args: str) -> tuple[int, str, str]:
        code = run([*args, "--direct"])
        out, err = capsys.readouterr()
        return code, out, err

    def offset_of(name: str) -> object:
        (found,) = json.loads(connect("offsets", "show", name, "-o", "json")[1])["offsets"]
        return found["offset"]

    code, _, err = connect("offsets", "reset", "web", "--to-time", "2026-11-22T03:00:00Z", "--yes")
    assert code == 0, err
    assert offset_of("web") == {"cursor": "2026-11-22T02:59:59Z"}
    assert connect("offsets", "undo", "web", "--yes")[0] == 0
    assert offset_of("web") == {"cursor": "2026-11-23T10:00:00Z", "page": "2"}
    code, _, err = connect("offsets", "reset", "file", "--to-time", "2h", "--yes")
    assert code == 1
    assert "FileStreamSource cannot say where it was at a time" in err

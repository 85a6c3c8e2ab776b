"""A worker whose connectors are Python's starts no JVM of plugins and compiles nothing, whatever jars it has."""

from __future__ import annotations

import os
import shutil
import urllib.request
from pathlib import Path

import pytest

from kconnect.files.folders import cache_folder
from kconnect.java.devbroker import DevBroker
from kconnect.java.kafka_jars import JarSet
from kit.java_worker import texts
from kit.pace import ample_s
from kit.processes import below, named
from kit.standalone import Standalone

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(180)]

_JAVA = {
    "source": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "sink": "org.apache.kafka.connect.file.FileStreamSinkConnector",
}
_STRING = "org.apache.kafka.connect.storage.StringConverter"


def test_a_class_that_has_a_counterpart_here_is_not_asked_for_in_java(
    tmp_path: Path, broker: DevBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    for kept in ("jars", "jvm"):  # a new machine whose only lack is what Java's plugins take
        (cache_folder() / kept).mkdir(parents=True, exist_ok=True)
        cache.mkdir(exist_ok=True)
        os.symlink(cache_folder() / kept, cache / kept)
    (jar,) = (found for found in JarSet("connect").fetch() if found.name.startswith("connect-file-"))
    (tmp_path / "plugins" / "file").mkdir(parents=True)
    shutil.copy(jar, tmp_path / "plugins" / "file")
    monkeypatch.setenv("KCONNECT_CACHE", str(cache))
    lines = tmp_path / "in.txt"
    lines.write_text("one\ntwo\n")
    settings = {"plugin.path": str(tmp_path / "plugins"), "value.converter": _STRING, "key.converter": _STRING}
    source = {"connector.class": _JAVA["source"], "file": str(lines), "topic": topic}
    with Standalone(tmp_path, broker.bootstrap, {"lines": source}, settings) as worker:
        worker.start()
        assert texts(broker, topic, 2) == ["one", "two"]
        with worker.client() as client:
            client.create_connector(
                "copy", {"connector.class": _JAVA["sink"], "topics": topic, "file": str(tmp_path / "out.txt")}
            )
        metrics = urllib.request.urlopen(f"{worker.url}/metrics", timeout=ample_s(10)).read()
        assert b'value="org.apache.kafka.connect.file.FileStreamSourceConnector"' in metrics
        assert worker.process is not None
        hosts = [java for java in named(below(worker.process.pid), "java") if "kconnect.host.Main" in java.cmdline()]
        assert hosts == []
        assert "runs plugins" not in worker.log_text()
        worker.stop()
    assert [path.name for path in (cache / "java").glob("host-*")] == []

"""FileStreamSink on a disk that is full: after room was made and a restart the file has each line whole, once."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.model import RunState
from kit.pipeline_host import FILE_SINK, PipelineHost
from kit.topics import produce_lines, topic_for
from kit.waiting import eventually

pytestmark = pytest.mark.broker

_LINES = 2_000
_LINE = "line %06d of a topic that does not fit"


@pytest.fixture
def disk_of() -> Iterator[object]:
    """Makes this process unable to write files beyond a size, as a disk without room; undone behind the test."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size: int | None) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before[0] if size is None else size, before[1]))

    yield limit
    limit(None)


@pytest.mark.parametrize("converter", ["StringConverter", "JsonConverter"], ids=["columns", "records"])
def test_no_line_is_torn_lost_or_there_twice(
    broker: DevBroker, topic: str, tmp_path: Path, disk_of, request: pytest.FixtureRequest, converter: str
) -> None:
    name, out = topic_for(request), tmp_path / "out.txt"
    quote = '"' if converter == "JsonConverter" else ""
    lines = [_LINE % number for number in range(_LINES)]
    produce_lines(broker.bootstrap, topic, (f"{quote}{line}{quote}" for line in lines))
    settings = {
        "topics": topic,
        "file": str(out),
        "value_converter": converter,
        "value_converter_schemas_enable": "false",
        "consumer_override_max_poll_records": "300",
    }
    with PipelineHost(broker.bootstrap) as host:
        disk_of(len(_LINE % 0) * 1_000 + 17)
        spec = host.start_sink(name, FILE_SINK, **settings)
        eventually(lambda: host.states(spec)[-1:] == [RunState.FAILED], 30, "the disk is full")

        reported = host.trace(spec).splitlines()[0]
        assert f"Cannot write to {out}: File too large" in reported
        assert f"Root cause: OSError: [Errno 27] File too large: '{out}'" in reported, "as the screens show it"
        assert "was cut off again" in reported
        during = out.read_text().splitlines(keepends=True)
        assert 0 < len(during) < _LINES
        assert all(line.endswith("does not fit\n") for line in during)

        disk_of(None)
        host.stop(spec)
        again = host.start_sink(name, FILE_SINK, **settings)
        host.await_count(again, "records_put", _LINES - len(during))
        host.stop(again)
    assert out.read_text().splitlines() == lines

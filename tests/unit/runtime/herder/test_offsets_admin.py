"""Changes of offsets by a caller that cannot keep the connector stopped while its plugin is asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import pytest

from kconnect.errors import ConflictError, TimedOutError
from kconnect.model import ConnectorOffset, ConnectorType, TopicPartition
from kconnect.runtime.herder.offsets.offsets_admin import OffsetsAdmin
from kconnect.runtime.storage import commit_source_offsets
from kconnect.runtime.storage.offset_store import MemoryOffsetStore
from kit.herders import MemoryGroups
from kit.sample_connectors import Journal, SampleSink, SampleSource, fresh_journal

BEFORE = ConnectorOffset({"f": "x"}, {"n": 1})
NOW = ConnectorOffset({"f": "x"}, {"n": 9})
AT = TopicPartition("t", 0)


@pytest.fixture
def journal() -> Journal:
    return fresh_journal()


@pytest.fixture
def groups() -> MemoryGroups:
    made = MemoryGroups()
    made.offsets["connect-snk"] = {AT: 1}
    return made


@pytest.fixture
def admin(groups: MemoryGroups) -> OffsetsAdmin:
    @contextmanager
    def opened(_: Mapping[str, str]) -> Iterator[MemoryGroups]:
        yield groups

    store = MemoryOffsetStore()
    commit_source_offsets(store, "src", [BEFORE])
    return OffsetsAdmin(store, opened, 5)


def resumed() -> None:
    raise ConflictError("it was resumed")


@pytest.mark.parametrize("reset", [False, True], ids=["alter", "reset"])
def test_a_source_that_was_resumed_while_its_plugin_was_asked_keeps_its_offsets(
    admin: OffsetsAdmin, journal: Journal, reset: bool
) -> None:
    change = admin.reset if reset else partial(admin.alter, offsets=[NOW])
    with pytest.raises(ConflictError, match="it was resumed"):
        change("src", ConnectorType.SOURCE, {}, make=SampleSource, before_write=resumed)
    assert len(journal.altered) == 1, "the plugin was asked before"
    assert admin.read("src", ConnectorType.SOURCE, {}) == [BEFORE]


@pytest.mark.parametrize("reset", [False, True], ids=["alter", "reset"])
def test_a_sink_that_was_resumed_while_its_plugin_was_asked_keeps_its_offsets(
    admin: OffsetsAdmin, groups: MemoryGroups, journal: Journal, reset: bool
) -> None:
    offset = ConnectorOffset({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 9})
    change = admin.reset if reset else partial(admin.alter, offsets=[offset])
    with pytest.raises(ConflictError, match="it was resumed"):
        change("snk", ConnectorType.SINK, {}, make=SampleSink, before_write=resumed)
    assert len(journal.altered) == 1, "the plugin was asked before"
    assert groups.offsets == {"connect-snk": {AT: 1}}


def test_a_hook_that_hangs_in_java_is_named_by_its_line_there(groups: MemoryGroups) -> None:
    asked: list[tuple[str, int | None]] = []

    def java_stack(connector: str, task: int | None) -> list[str]:
        asked.append((connector, task))
        return ["java.lang.Thread.sleep(Native Method)", "kit.Slow$Source.alterOffsets(Slow.java:41)"]

    @contextmanager
    def opened(_: Mapping[str, str]) -> Iterator[MemoryGroups]:
        yield groups

    admin = OffsetsAdmin(MemoryOffsetStore(), opened, 0.1, java_stack)
    gate = threading.Event()

    def make() -> SampleSource:
        gate.wait(30)
        return SampleSource()

    with pytest.raises(TimedOutError, match=r"it is at kit\.Slow\$Source\.alterOffsets\(Slow\.java:41\)"):
        admin.alter("src", ConnectorType.SOURCE, {}, [NOW], make)
    gate.set()
    assert set(asked) == {("src", None)}

"""What fails on records is blamed, kept and counted as by Java's worker with the same plugins on the same broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.logs.traces import root_cause
from kit.java_plugin_folder import java_plugin_folder
from kit.java_worker import MISBEHAVES
from kit.parity.sides import Pair, Side, causes, pair
from kit.topics import create_topic, produce_lines, topic_for
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(300)]

_COUNT, _BAD = 20, 7
_STRINGS = {f"{kind}.converter": "org.apache.kafka.connect.storage.StringConverter" for kind in ("key", "value")}
_PREDICATE = {
    "says": "odd",
    "transforms": "i",
    "transforms.i.type": "kit.TestPlugins$Identity",
    "transforms.i.predicate": "ends",
    "predicates": "ends",
    "predicates.ends.type": "kit.TestPlugins$Ends",
    "predicates.ends.end": "x",
}
_CONVERTER = {"value.converter": "org.apache.kafka.connect.converters.LongConverter"}
# A step of Python makes the chain of ours a mixed one; it changes nothing, and Java's worker goes without it
_PYTHON = {"transforms.z.type": "WithSchema", "transforms.z.schema": "string"}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, broker: DevBroker) -> Iterator[Pair]:
    plugins = java_plugin_folder(tmp_path_factory.mktemp("plugins"))
    with pair(tmp_path_factory.mktemp("blame"), broker.bootstrap, [plugins]) as running:
        yield running


def given(both: Pair, side: Side, config: Mapping[str, str], *, mixed: bool) -> Mapping[str, str]:
    """The config for a side: ours is not restarted, as Java's tasks are not."""
    if side is both.java:
        return config
    own = {**config, "errors.restart.max": "0", "value.converter": f"java:{config['value.converter']}"}
    steps = ",".join(filter(None, (config.get("transforms", ""), "z")))
    return {**own, **_PYTHON, "transforms": steps} if mixed else own


def numbers(side: Side, name: str, more: Mapping[str, str]) -> Mapping[str, str]:
    return {
        "connector.class": "kit.TestPlugins$Numbers",
        "topic": f"{side.token}.{name}",
        "count": str(_COUNT),
        "bad": str(_BAD),
        **_STRINGS,
        **more,
    }


def traced(side: Side, name: str) -> str:
    def reported() -> str:
        assert side.states(name).get("task 0") == "FAILED", f"{side.states(name)}"
        return side.trace(name)

    return eventually(reported, 60, f"the task of {name} has failed at {side.name}")


@pytest.mark.parametrize("mixed", [False, True], ids=["of Java", "mixed"])
@pytest.mark.parametrize(
    ("case", "more", "sent", "blamed"),
    [
        ("step", MISBEHAVES, _BAD, "TRANSFORMATION of TestPlugins$Misbehaves (transforms.bad)"),
        ("guard", _PREDICATE, _BAD, "TRANSFORMATION of TestPlugins$Identity (transforms.i, in its predicate "),
        ("form", _CONVERTER, 0, "VALUE_CONVERTER of LongConverter"),
    ],
)
def test_what_fails_on_a_record_of_a_source_is_blamed_where_java_fails(
    both: Pair, case: str, more: Mapping[str, str], sent: int, blamed: str, mixed: bool
) -> None:
    """The cause is Java's, the records before it are there, and the offsets say so."""
    name = f"{case}-{mixed}"
    for side in both.sides:
        assert side.create(name, given(both, side, numbers(side, name, more), mixed=mixed)) == ""
    java, ours = both.each(lambda side: traced(side, name))
    theirs, same = causes(java, ours)
    assert same == theirs, ours[:2000]
    assert blamed in ours.partition("\n")[0], ours[:600]
    assert theirs.partition(": ")[2] in root_cause(ours)
    records = both.each(lambda side: [(one.key, one.value) for one in side.records(name, sent)])
    assert records[0] == records[1] == [(b"k%d" % number, b"number %d" % number) for number in range(sent)]
    kept = both.each(lambda side: committed(side, name, sent))
    assert kept[0] == kept[1]
    both.each(lambda side: side.delete(name))


@pytest.mark.parametrize("mixed", [False, True], ids=["of Java", "mixed"])
def test_a_class_that_a_step_lacks_is_no_records_error_and_fails_the_task_as_in_java(both: Pair, mixed: bool) -> None:
    """Tolerated, it would drop one record after the other."""
    name = f"lacking-{mixed}"
    more = {**MISBEHAVES, "transforms.bad.does": "missing", "errors.tolerance": "all"}
    for side in both.sides:
        assert side.create(name, given(both, side, numbers(side, name, more), mixed=mixed)) == ""
    java, ours = both.each(lambda side: traced(side, name))
    assert "NoClassDefFoundError: kit/Missing" in java
    assert "the class kit.Missing, which kit.jar needs, is missing" in ours.partition("\n")[0]
    assert "TRANSFORMATION of TestPlugins$Misbehaves (transforms.bad)" in ours.partition("\n")[0]
    keys = both.each(lambda side: [one.key for one in side.records(name, _BAD)])
    assert keys[0] == keys[1] == [b"k%d" % number for number in range(_BAD)]
    both.each(lambda side: side.delete(name))


def committed(side: Side, name: str, sent: int) -> Any:
    def there() -> Any:
        found = side.offsets(name)
        assert [one["offset"] for one in found] == ([{"next": sent}] if sent else []), f"{found}"
        return (found,)

    return eventually(there, 30, f"{side.name} has committed {sent}")[0]


@pytest.mark.parametrize("mixed", [False, True], ids=["of Java", "mixed"])
@pytest.mark.parametrize(
    ("case", "more"),
    [("step", MISBEHAVES), ("guard", _PREDICATE), ("checked", {**MISBEHAVES, "transforms.bad.does": "checked"})],
)
def test_what_is_tolerated_of_a_source_is_counted_as_in_java(
    both: Pair, case: str, more: Mapping[str, str], mixed: bool
) -> None:
    name = f"tolerated-{case}-{mixed}"
    more = {**more, "errors.tolerance": "all", "errors.log.enable": "true"}
    for side in both.sides:
        assert side.create(name, given(both, side, numbers(side, name, more), mixed=mixed)) == ""
    records = both.each(lambda side: [one.value for one in side.records(name, _COUNT - 1)])
    assert records[0] == records[1] == [b"number %d" % number for number in range(_COUNT) if number != _BAD]
    totals = counted(both, name, "source-record-write-total", _COUNT - 1)
    assert totals["total-record-failures"] == totals["total-records-skipped"] == totals["total-errors-logged"] == 1
    both.each(lambda side: side.delete(name))


@pytest.mark.parametrize("mixed", [False, True], ids=["of Java", "mixed"])
def test_a_value_that_is_not_of_its_schema_is_the_error_of_its_record_as_in_java(both: Pair, mixed: bool) -> None:
    """As columns it cannot leave Java: it fails alone all the same, and a message says where in it what is wrong."""
    json = {"misfit": "true", "value.converter": "org.apache.kafka.connect.json.JsonConverter"}
    fails, skips = f"misfit-{mixed}", f"skipped-{mixed}"
    for side in both.sides:
        assert side.create(fails, given(both, side, numbers(side, fails, json), mixed=mixed)) == ""
        more = {**json, "errors.tolerance": "all"}
        assert side.create(skips, given(both, side, numbers(side, skips, more), mixed=mixed)) == ""
    java, ours = both.each(lambda side: traced(side, fails))
    theirs, same = causes(java, ours)
    assert (
        same
        == theirs
        == "org.apache.kafka.connect.errors.DataException: Invalid type for INT32: class java.lang.String"
    )
    assert "source offset {'next': 8}" in ours.partition("\n")[0]
    for name, count in ((fails, _BAD), (skips, _COUNT - 1)):
        keys = both.each(lambda side, name=name, count=count: [one.key for one in side.records(name, count)])
        assert keys[0] == keys[1] == [b"k%d" % number for number in range(count + 1) if number != _BAD]
    assert both.each(lambda side: committed(side, fails, _BAD))[1]
    totals = counted(both, skips, "source-record-write-total", _COUNT - 1)
    assert totals["total-record-failures"] == totals["total-records-skipped"] == 1
    both.each(lambda side: [side.delete(name) for name in (fails, skips)])


@pytest.mark.parametrize("mixed", [False, True], ids=["of Java", "mixed"])
def test_an_offset_that_cannot_be_stored_keeps_no_record_back_and_commits_nothing_as_in_java(
    both: Pair, mixed: bool
) -> None:
    name = f"odd-{mixed}"
    for side in both.sides:
        more = {"odd": "true", "bad": str(_COUNT - 1)}
        assert side.create(name, given(both, side, numbers(side, name, more), mixed=mixed)) == ""
    assert [len(found) for found in both.each(lambda side: side.records(name, _COUNT))] == [_COUNT] * 2

    def named() -> bool:
        log = (both.ours.folder / "worker.log").read_text()
        assert f"Offsets of {both.ours.named(name)}-0 could not be committed" in log
        assert "field next contains class java.util.Date" in log
        return True

    eventually(named, 30, "the log says which field of the offset cannot be stored")
    assert both.each(lambda side: side.offsets(name)) == ([], [])
    assert both.ours.states(name)["task 0"] == both.java.states(name)["task 0"] == "RUNNING"
    both.each(lambda side: side.delete(name))


def counted(both: Pair, name: str, key: str, wanted: int) -> Mapping[str, float]:
    """What both have counted, once one count is as wanted; the same."""

    def same() -> Mapping[str, float]:
        java, ours = both.each(lambda side: side.totals([name])[name])
        assert java[key] == wanted, f"{java}"
        assert ours == java
        return java

    return eventually(same, 30, "both have counted the same", pause_s=0.5)


@pytest.mark.parametrize(("restarts", "times"), [("0", 1), ("2", 3)])
def test_a_sink_that_throws_after_it_wrote_has_rows_once_without_restarts_and_again_with_each(
    both: Pair, broker: DevBroker, request: pytest.FixtureRequest, restarts: str, times: int
) -> None:
    """`errors.restart.max=0` is Java's: its task is FAILED with each row written once."""
    topic, name = topic_for(request), f"wrote-{restarts}"
    create_topic(broker.bootstrap, topic)
    produce_lines(broker.bootstrap, topic, ["one", "two", "three"])

    def config(side: Side) -> Mapping[str, str]:
        when = side.folder / f"now-{restarts}"
        when.touch()
        bad = {"connector.class": "kit.Faulty$Sink", "does": "fail", "in": "put after it wrote", "when": str(when)}
        own = {"errors.restart.max": restarts, "errors.restart.backoff.ms": "10"} if side is both.ours else {}
        reset = {"consumer.override.auto.offset.reset": "earliest"}
        return {**bad, "topics": topic, "journal": str(side.folder / name), **_STRINGS, **reset, **own}

    for side in both.sides:
        assert side.create(name, config(side)) == ""

    def rows(side: Side) -> list[str]:
        wanted = 3 * (times if side is both.ours else 1)
        journal = side.folder / name

        def written() -> list[str]:
            found = [line.split(" ")[0] for line in journal.read_text().splitlines()] if journal.exists() else []
            assert len(found) >= wanted, f"{found}"
            return found

        return eventually(written, 60, f"{side.name} has written {wanted} rows", pause_s=0.2)

    java, ours = both.each(rows)
    theirs, same = causes(*both.each(lambda side: traced(side, name)))
    assert same == theirs
    java, ours = both.each(rows)  # nothing more came until it was FAILED for good
    assert java == ["one", "two", "three"]
    assert ours == java * times
    both.each(lambda side: side.delete(name))

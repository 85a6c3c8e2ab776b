"""The transformation chain: columnar while it can be, exact about the record that fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kconnect.api import ConfigDef, ConnectRecord, DataError, Predicate, RecordBatch, Schema, Transformation
from kconnect.api.stages import PartlyAppliedError
from kconnect.builtin.predicates import TopicNameMatches
from kconnect.builtin.transforms.hoist_field import HoistFieldValue
from kconnect.builtin.transforms.regex_router import RegexRouter
from kconnect.runtime.pipeline.stages import DROPPED, Stage, StageError, TransformStep
from kconnect.runtime.pipeline.transform_chain import TransformChain


class Upper(Transformation):
    """Upper-cases string values; counts how it was called; `fails_at` raises for one value, `drops` drops one."""

    def __init__(self, columnar: bool = True, fails_at: str | None = None, drops: str | None = None) -> None:
        self.supports_batches = columnar
        self.fails_at, self.drops = fails_at, drops
        self.batches, self.records, self.closed = 0, 0, 0

    def configure(self, configs: Mapping[str, Any]) -> None:
        pass

    def config(self) -> ConfigDef:
        return ConfigDef()

    def apply(self, record: Any) -> Any:
        self.records += 1
        if record.value == self.fails_at:
            raise DataError(f"cannot take {record.value}")
        return None if record.value == self.drops else record.new_record(value=record.value.upper())

    def apply_batch(self, batch: RecordBatch) -> Any:
        self.batches += 1
        if self.fails_at in batch.value.to_pylist():
            raise DataError("somewhere in this batch")
        if self.drops is not None:
            batch = batch.filter(pc.not_equal(batch.value, self.drops))
        return batch.with_(value=pc.utf8_upper(batch.value))

    def close(self) -> None:
        self.closed += 1


class EachOther(Predicate):
    """True for values in the set; `as_mask` answers by columns."""

    def __init__(self, values: set[str], as_mask: bool = True) -> None:
        self.values, self.as_mask = values, as_mask

    def configure(self, configs: Mapping[str, Any]) -> None:
        pass

    def config(self) -> ConfigDef:
        return ConfigDef()

    def test(self, record: ConnectRecord) -> bool:
        return record.value in self.values

    def test_batch(self, batch: RecordBatch) -> Any:
        return pc.is_in(batch.value, pa.array(sorted(self.values), pa.string())) if self.as_mask else NotImplemented


class Tolerant:
    """A policy that drops what fails and remembers it, or tries again `retries` times."""

    def __init__(self, retries: int = 0) -> None:
        self.failures: list[StageError] = []
        self.retries = retries

    def on_failure(self, failure: StageError, retry: Callable[[], Any]) -> Any:
        self.failures.append(failure)
        for _ in range(self.retries):
            try:
                return retry()
            except DataError:
                continue
        return DROPPED


def batch_of(*values: str, topic: str = "t") -> RecordBatch:
    return RecordBatch(
        topic,
        value=pa.array(values, pa.string()),
        value_schema=Schema.STRING_SCHEMA,
        source_partition={"p": 1},
        source_offsets={"o": pa.array(range(len(values)), pa.int64())},
    )


def values_of(result: Any) -> list[Any]:
    if result is None:
        return []
    records = result.to_records() if isinstance(result, RecordBatch) else result
    return [record.value for record in records]


def test_columnar_steps_see_batches_only() -> None:
    steps = [Upper(), Upper()]
    result = TransformChain([TransformStep(step) for step in steps]).apply_batch(batch_of("a", "b"))
    assert isinstance(result, RecordBatch)
    assert values_of(result) == ["A", "B"]
    assert [(step.batches, step.records) for step in steps] == [(1, 0), (1, 0)]


def test_a_chain_without_steps_gives_the_very_batch() -> None:
    batch = batch_of("a")
    assert TransformChain([]).apply_batch(batch) is batch


def test_a_step_without_columns_takes_records_and_the_next_one_columns_again() -> None:
    first, middle, last = Upper(), Upper(columnar=False), Upper()
    result = TransformChain([TransformStep(step) for step in (first, middle, last)]).apply_batch(batch_of("a", "b"))
    assert isinstance(result, RecordBatch)
    assert [(step.batches, step.records) for step in (first, middle, last)] == [(1, 0), (0, 2), (1, 0)]
    assert result.last_source_offset() == {"o": 1}


def test_records_stay_records_when_no_later_step_can_take_columns() -> None:
    result = TransformChain([TransformStep(Upper()), TransformStep(Upper(columnar=False))]).apply_batch(batch_of("a"))
    assert isinstance(result, list)
    assert values_of(result) == ["A"]


def test_a_failing_batch_is_replayed_and_names_the_record() -> None:
    first, failing = Upper(), Upper(fails_at="B")
    chain = TransformChain([TransformStep(first), TransformStep(failing), TransformStep(Upper())])
    with pytest.raises(StageError) as caught:
        chain.apply_batch(batch_of("a", "b", "c"))
    failure = caught.value
    assert (failure.stage, failure.plugin, failure.record.source_offset) == (Stage.TRANSFORMATION, Upper, {"o": 1})
    assert str(failure) == (
        "Record of topic 't' (source partition {'p': 1}, source offset {'o': 1}) "
        "failed in TRANSFORMATION of Upper: cannot take B"
    )
    assert isinstance(failure.__cause__, DataError)
    assert values_of(failure.done) == ["A"]  # what was before it went through all steps
    assert first.batches == 1
    assert first.records == 0  # only from the failing step on


def test_a_tolerated_failure_drops_that_record_only() -> None:
    policy = Tolerant()
    chain = TransformChain([TransformStep(Upper(fails_at="b")), TransformStep(Upper())], policy)
    assert values_of(chain.apply_batch(batch_of("a", "b", "c"))) == ["A", "C"]
    assert [failure.record.value for failure in policy.failures] == ["b"]


def test_a_retry_that_succeeds_keeps_the_record_in_its_place() -> None:
    step = Upper(fails_at="b")

    class Heals(Tolerant):
        def on_failure(self, failure: StageError, retry: Callable[[], Any]) -> Any:
            step.fails_at = None
            return retry()

    chain = TransformChain([TransformStep(step), TransformStep(Upper())], Heals())
    assert values_of(chain.apply_records(batch_of("a", "b", "c").to_records())) == ["A", "B", "C"]


@pytest.mark.parametrize("columnar", [True, False])
def test_dropped_records_are_left_out(columnar: bool) -> None:
    chain = TransformChain([TransformStep(Upper(columnar, drops="b")), TransformStep(Upper())])
    assert values_of(chain.apply_batch(batch_of("a", "b", "c"))) == ["A", "C"]
    assert chain.apply_batch(batch_of("b", "b")) is None
    assert chain.apply_records(batch_of("b").to_records()) == []
    assert chain.apply_record(batch_of("b").to_records()[0]) is None


@pytest.mark.parametrize("as_mask", [True, False])
@pytest.mark.parametrize("negate", [True, False])
@pytest.mark.parametrize("columnar", [True, False])
def test_a_predicate_guards_each_record(as_mask: bool, negate: bool, columnar: bool) -> None:
    chain = TransformChain([TransformStep(Upper(columnar), EachOther({"a", "c"}, as_mask), negate)])
    expected = ["a", "B", "c", "D"] if negate else ["A", "b", "C", "d"]
    assert values_of(chain.apply_batch(batch_of("a", "b", "c", "d"))) == expected
    assert values_of(chain.apply_records(batch_of("a", "b", "c", "d").to_records())) == expected


def test_a_predicate_that_says_the_same_for_all_rows_keeps_the_batch() -> None:
    step = Upper()
    chain = TransformChain([TransformStep(step, EachOther({"a", "b"}))])
    assert isinstance(chain.apply_batch(batch_of("a", "b")), RecordBatch)
    assert step.batches == 1
    untouched = batch_of("x", "y")
    assert chain.apply_batch(untouched) is untouched


def test_shipped_steps_stay_columnar_behind_a_topic_predicate() -> None:
    hoist, route, matches = HoistFieldValue(), RegexRouter(), TopicNameMatches()
    hoist.configure({"field": "line"})
    route.configure({"regex": "(.*)", "replacement": "$1-out"})
    matches.configure({"pattern": "t"})
    chain = TransformChain(
        [TransformStep(route), TransformStep(hoist, matches), TransformStep(hoist, matches, negate=True)]
    )
    result = chain.apply_batch(batch_of("a", "b"))
    assert isinstance(result, RecordBatch)
    assert result.topic == "t-out"
    assert [str(value) for value in values_of(result)] == ["Struct{line=a}", "Struct{line=b}"]


def test_records_of_different_topics_go_on_as_records() -> None:
    class ByValue(Upper):
        def apply(self, record: Any) -> Any:
            return record.new_record(topic=record.value)

    last = Upper()
    chain = TransformChain([TransformStep(ByValue(columnar=False)), TransformStep(last)])
    result = chain.apply_batch(batch_of("a", "b"))
    assert isinstance(result, list)
    assert [(record.topic, record.value) for record in result] == [("a", "A"), ("b", "B")]
    assert last.records == 2


def test_every_step_is_closed_also_when_one_raises() -> None:
    class Stubborn(Upper):
        def close(self) -> None:
            raise OSError("stuck")

    last = Upper()
    with pytest.raises(OSError, match="stuck"):
        TransformChain([TransformStep(Stubborn()), TransformStep(last)]).close()
    assert last.closed == 1


def test_a_columnar_form_that_gives_what_is_no_batch_is_reported() -> None:
    class GivesText(Transformation):
        supports_batches = True

        def configure(self, configs: Mapping[str, Any]) -> None: ...

        def apply(self, record: Any) -> Any:
            return record

        def apply_batch(self, batch: RecordBatch) -> Any:
            return "no batch"

        def config(self) -> ConfigDef:
            return ConfigDef()

    batch = RecordBatch("t", value=pa.array(["a"]), value_schema=Schema.STRING_SCHEMA)
    with pytest.raises(DataError, match=r"GivesText\.apply_batch\(\) returned a str; it must return a RecordBatch"):
        TransformChain([TransformStep(GivesText())]).apply_batch(batch)


class Twice(Upper):
    """Makes two of each record but of "none", of which it makes nothing, and "bad", at which it fails."""

    makes_several = True

    def expand(self, record: Any) -> Any:
        if record.value == "bad":
            raise DataError("a bad record")
        return [record.new_record(value=f"{record.value}{n}") for n in range(0 if record.value == "none" else 2)]


@pytest.mark.parametrize("later", [[], [Upper(columnar=False)], [Upper()]])
def test_a_step_that_makes_several_of_one_gives_them_in_order(later: list[Upper]) -> None:
    chain = TransformChain([TransformStep(step) for step in (Upper(), Twice(columnar=False), *later)])
    assert chain.expands
    result = chain.apply_batch(batch_of("a", "b"))
    assert values_of(result) == ["A0", "A1", "B0", "B1"]
    assert values_of(chain.apply_records(batch_of("a", "b").to_records())) == ["A0", "A1", "B0", "B1"]
    (record,) = batch_of("a").to_records()
    assert values_of(chain.apply_each(record)) == ["A0", "A1"]
    with pytest.raises(DataError, match=r"becomes several records \(2\)"):
        chain.apply_record(record)


def test_a_record_of_which_nothing_is_made_is_dropped_and_one_that_fails_is_named() -> None:
    tolerant = Tolerant()
    chain = TransformChain([TransformStep(Twice(columnar=False)), TransformStep(Upper(fails_at="b0"))], tolerant)
    records = batch_of("a", "none", "bad", "b").to_records()
    assert values_of(chain.apply_records(records)) == ["A0", "A1", "B1"]
    assert [failure.record.source_offset for failure in tolerant.failures] == [{"o": 2}, {"o": 3}]


def test_a_step_that_gives_no_list_of_records_is_reported_so() -> None:
    class Wrong(Twice):
        def expand(self, record: Any) -> Any:
            return record

    with pytest.raises(StageError, match=r"Wrong.expand\(\) returned a SourceRecord; it must return a list of records"):
        TransformChain([TransformStep(Wrong())]).apply_records(batch_of("a").to_records())


# --- steps that keep in mind what they were given, as Java's may ---


class Once(Upper):
    """Drops what it has seen before, and fails at values that begin with `!`; in batches as Java's steps do."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def apply(self, record: Any) -> Any:
        is_known = record.value in self.seen
        self.seen.append(record.value)
        if record.value.startswith("!"):
            raise DataError(record.value)
        return None if is_known else record.new_record(topic=record.value[0])

    def apply_batch(self, batch: RecordBatch) -> Any:
        self.batches += 1
        done = []
        for row, record in enumerate(batch.to_records()):
            try:
                after = self.apply(record)
            except DataError as error:
                raise PartlyAppliedError(done, row, error) from error
            done += [] if after is None else [after]
        return done


@pytest.mark.parametrize("later", [[], [Upper()], [Upper(columnar=False)]], ids=["last", "columns", "records"])
def test_no_record_is_given_twice_to_a_step_whose_records_are_no_batch_any_more(later: list[Upper]) -> None:
    once = Once()
    chain = TransformChain([TransformStep(step) for step in (once, *later)])
    made = []
    for values in ("aba", "bc"):
        after = chain.apply_batch(batch_of(*values))
        made += after.to_records() if isinstance(after, RecordBatch) else after or []
    assert [record.value.lower() for record in made] == ["a", "b", "c"]
    assert [record.topic for record in made] == ["a", "b", "c"]
    assert once.seen == ["a", "b", "a", "b", "c"]


@pytest.mark.parametrize("failing", [1, 40])
def test_no_record_is_given_twice_to_a_step_beside_records_that_fail_in_it(failing: int) -> None:
    once, tolerant = Once(), Tolerant()
    values = ["a", "b", *(f"!{n}" for n in range(failing)), "c", "b", "d"]
    made = TransformChain([TransformStep(once), TransformStep(Upper())], tolerant).apply_batch(batch_of(*values))
    assert values_of(made) == ["A", "B", "C", "D"]
    assert [failure.record.value for failure in tolerant.failures] == values[2:-3]
    assert [one for one in once.seen if not one.startswith("!")] == ["a", "b", "c", "b", "d"]


def test_what_was_made_before_a_record_that_fails_the_task_goes_on() -> None:
    once = Once()
    with pytest.raises(StageError) as caught:
        TransformChain([TransformStep(once), TransformStep(Upper())]).apply_batch(batch_of("a", "b", "!", "c"))
    assert caught.value.record.value == "!"
    assert [record.value for record in caught.value.done] == ["A", "B"]
    assert once.seen == ["a", "b", "!"]


class Second(EachOther):
    """True for each second record that it is asked of."""

    def __init__(self) -> None:
        super().__init__(set())
        self.asked = 0

    def test(self, record: ConnectRecord) -> bool:
        self.asked += 1
        return self.asked % 2 == 0

    def test_batch(self, batch: RecordBatch) -> Any:
        return pa.array([self.test(record) for record in batch.to_records()])


@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("later", [[], [Upper()]], ids=["last", "columns"])
def test_a_predicate_is_asked_once_of_each_record(negate: bool, later: list[Upper]) -> None:
    predicate = Second()
    steps = [TransformStep(Upper(), predicate, negate), *(TransformStep(HoistFieldValue()) for _ in later)]
    for step in steps[1:]:
        step.transformation.configure({"field": "f"})
    chain = TransformChain(steps)
    found = []
    for values in ("abc", "def"):
        found += values_of(chain.apply_batch(batch_of(*values)))
    texts = [one.get("f") if later else one for one in found]
    assert "".join(texts) == ("AbCdEf" if negate else "aBcDeF")
    assert predicate.asked == 6


def test_a_record_that_fails_among_the_chosen_ones_is_named_and_what_came_before_it_goes_on() -> None:
    steps = [TransformStep(Upper(fails_at="b"), EachOther({"a", "b"})), TransformStep(Upper())]
    with pytest.raises(StageError) as caught:
        TransformChain(steps).apply_batch(batch_of("a", "x", "b", "c"))
    assert caught.value.record.value == "b"
    assert [record.value for record in caught.value.done] == ["A", "X"]

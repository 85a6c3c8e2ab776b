"""Rounds of fencing and the starts behind them: over a config topic in memory, with a broker that the test plays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from kconnect.errors import ConflictError, ConnectError, FencedError, ForbiddenError, NotFoundError, NotReadyError
from kconnect.model import TaskId
from kconnect.runtime.herder.cluster.fenced_starts import FencedStarts, FencingPlan, FencingRounds, fencing_plan
from kconnect.runtime.herder.cluster.performer import carry_out
from kconnect.runtime.herder.decisions.request_signatures import KeyForm
from kconnect.runtime.herder.decisions.writes import PutTaskCount
from kconnect.runtime.storage.config_store import TopicConfigStore
from kconnect.runtime.storage.record_log import MemoryRecordLog, MemoryTopic
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kit.waiting import eventually


@pytest.fixture
def configs() -> Iterator[TopicConfigStore]:
    store = TopicConfigStore(MemoryRecordLog(MemoryTopic("configs")))
    store.start()
    store.put_connector_config("c", {"name": "c"})
    yield store
    store.stop()


def tasks(store: TopicConfigStore, count: int) -> None:
    store.put_task_configs("c", [{"n": str(number)} for number in range(count)])


class Broker:
    """Notes what is fenced; `then` happens meanwhile, `before_record` behind it."""

    def __init__(self) -> None:
        self.fenced: list[tuple[str, int]] = []
        self.then: Callable[[], None] = lambda: None
        self.before_record: Callable[[], None] = lambda: None

    def __call__(self, connector: str, count: int) -> None:
        self.fenced.append((connector, count))
        self.then()


def rounds(store: TopicConfigStore, broker: Broker) -> FencingRounds:
    def record(connector: str, count: int, generation: int | None) -> None:  # as the herder's thread does
        broker.before_record()
        carry_out(PutTaskCount(connector, count, generation), store, KeyForm(), 1.0)

    return FencingRounds(store, broker, record, sync_timeout_s=1, round_timeout_s=5)


@pytest.mark.parametrize(
    ("before", "now", "fenced"),
    [
        pytest.param(None, 3, 0, id="the first tasks follow nobody"),
        pytest.param(1, 1, 0, id="a single task fences off a single one by itself"),
        pytest.param(1, 2, 1, id="one becomes two"),
        pytest.param(3, 1, 3, id="three become one"),
        pytest.param(2, 0, 2, id="a stopped connector"),
        pytest.param(0, 2, 0, id="nobody is left of a stopped one"),
    ],
)
def test_what_a_round_fences_and_records(configs: TopicConfigStore, before: int | None, now: int, fenced: int) -> None:
    if before is not None:
        tasks(configs, before)
        configs.put_task_count_record("c", before)
    tasks(configs, now)
    plan = fencing_plan(configs.snapshot(), "c")
    assert (plan.tasks_to_fence, plan.count_to_record) == (fenced, now)
    broker = Broker()
    rounds(configs, broker).run("c")
    assert broker.fenced == ([("c", fenced)] if fenced else [])
    assert configs.snapshot().task_count_record("c") == now
    assert fencing_plan(configs.snapshot(), "c") == FencingPlan(), "it is done once"


def test_a_round_for_tasks_that_were_replaced_meanwhile_records_nothing(configs: TopicConfigStore) -> None:
    tasks(configs, 2)
    configs.put_task_count_record("c", 2)
    tasks(configs, 3)
    broker = Broker()
    broker.then = lambda: tasks(configs, 4)
    with pytest.raises(ConflictError, match="new task configurations were generated"):
        rounds(configs, broker).run("c")
    assert configs.snapshot().task_count_record("c") == 2
    broker.then = lambda: None
    rounds(configs, broker).run("c")
    assert configs.snapshot().task_count_record("c") == 4
    assert broker.fenced == [("c", 2), ("c", 2)], "those of before are fenced off again"


@pytest.mark.parametrize("before", [None, 2], ids=["the first tasks follow nobody", "two were fenced off"])
def test_task_configs_that_come_just_before_the_record_of_a_round_still_wait_for_one(
    configs: TopicConfigStore, before: int | None
) -> None:
    if before is not None:
        tasks(configs, before)
        configs.put_task_count_record("c", before)
    tasks(configs, 1)
    broker = Broker()
    broker.before_record = lambda: tasks(configs, 4)
    with pytest.raises(ConflictError, match="new task configurations were generated"):
        rounds(configs, broker).run("c")
    assert configs.snapshot().is_pending_fencing("c")
    assert configs.snapshot().task_count_record("c") == before


def test_who_asks_while_a_round_goes_on_shares_it(configs: TopicConfigStore) -> None:
    tasks(configs, 2)
    configs.put_task_count_record("c", 2)
    tasks(configs, 3)
    broker, gate = Broker(), threading.Event()
    broker.then = lambda: None if gate.wait(10) else pytest.fail("the gate stays shut")
    made = rounds(configs, broker)
    asking = [threading.Thread(target=made.run, args=("c",)) for _ in range(3)]
    for thread in asking:
        thread.start()
    eventually(lambda: broker.fenced, 5, "the round began")
    gate.set()
    for thread in asking:
        thread.join(10)
    assert broker.fenced == [("c", 2)]


def test_rounds_of_different_connectors_go_on_side_by_side_one_for_each(configs: TopicConfigStore) -> None:
    names = ["a", "b", "c"]
    for name in names:
        configs.put_connector_config(name, {"name": name})
        configs.put_task_configs(name, [{}, {}])
        configs.put_task_count_record(name, 2)
        configs.put_task_configs(name, [{}, {}, {}])
    broker, all_here = Broker(), threading.Barrier(len(names), timeout=10)

    def meet() -> None:
        all_here.wait()

    broker.then = meet
    made = rounds(configs, broker)
    asking = [threading.Thread(target=made.run, args=(name,)) for name in names * 4]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(10)
    assert sorted(broker.fenced) == [(name, 2) for name in names]
    assert not configs.snapshot().pending_fencing


def test_what_the_broker_refuses_is_reported_and_recorded_nowhere(configs: TopicConfigStore) -> None:
    tasks(configs, 2)
    configs.put_task_count_record("c", 2)
    tasks(configs, 3)
    broker = Broker()

    def refuse() -> None:
        raise ConnectError("not authorized")

    broker.then = refuse
    made = rounds(configs, broker)
    for _ in range(2):
        with pytest.raises(ConnectError, match="not authorized"):
            made.run("c")
    assert len(broker.fenced) == 2, "the next one who asks has it tried again"
    assert configs.snapshot().is_pending_fencing("c")


def test_a_producer_that_comes_back_while_it_is_fenced_is_no_loss_of_leadership(configs: TopicConfigStore) -> None:
    tasks(configs, 2)
    configs.put_task_count_record("c", 2)
    tasks(configs, 3)
    broker = Broker()

    def comes_back() -> None:
        raise FencedError("a newer one")

    broker.then = comes_back
    with pytest.raises(ConflictError) as err:
        rounds(configs, broker).run("c")
    assert not isinstance(err.value, FencedError)


def test_a_connector_that_is_gone_is_not_fenced(configs: TopicConfigStore) -> None:
    with pytest.raises(NotFoundError):
        rounds(configs, Broker()).run("gone")


class Starts:
    """FencedStarts with a leader that the test plays."""

    def __init__(self, configs: TopicConfigStore) -> None:
        self.asked = 0
        self.answers: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()
        self.started: list[TaskId] = []
        self.failed: list[str] = []
        self.configs = configs
        self.starts = FencedStarts(configs, self._ask, timeout_s=30)

    def _ask(self, connector: str) -> None:
        self.asked += 1
        assert self.gate.wait(10)
        if self.answers:
            raise self.answers.pop(0)
        self.configs.put_task_count_record(connector, self.configs.snapshot().task_count(connector))

    def begin(self, ids: Sequence[TaskId], snapshot: ClusterSnapshot | None = None) -> None:
        """Start tasks with the configs of a snapshot, by default what was read last."""
        generation = (snapshot or self.configs.snapshot()).task_config_generation("c")
        self.starts.begin("c", ids, generation, self.started.extend, lambda ids, error: self.failed.append(str(error)))


@pytest.fixture
def starts(configs: TopicConfigStore) -> Iterator[Starts]:
    made = Starts(configs)
    yield made
    made.gate.set()
    made.starts.close()


IDS = [TaskId("c", 0), TaskId("c", 1)]


def test_tasks_start_behind_the_round_and_without_one_at_once(configs: TopicConfigStore, starts: Starts) -> None:
    tasks(configs, 2)
    starts.begin(IDS)
    eventually(lambda: starts.started == IDS, 5, "started")
    assert starts.asked == 1
    starts.begin(IDS)
    assert starts.started == IDS * 2
    assert starts.asked == 1, "there was nothing left to fence off"


def test_a_stop_that_overtakes_its_start_wins(configs: TopicConfigStore, starts: Starts) -> None:
    tasks(configs, 2)
    starts.gate.clear()
    starts.begin(IDS)
    eventually(lambda: starts.asked == 1, 5, "asked")
    starts.starts.cancel(IDS[:1])
    starts.gate.set()
    eventually(lambda: starts.started == IDS[1:], 5, "the other one starts")


def test_a_leader_that_is_just_changing_is_asked_again_and_a_refusal_fails_the_tasks(
    configs: TopicConfigStore, starts: Starts
) -> None:
    tasks(configs, 2)
    starts.answers = [ConflictError("no leader"), ConflictError("no leader")]
    starts.begin(IDS)
    eventually(lambda: starts.started == IDS, 5, "started")
    assert starts.asked == 3
    tasks(configs, 3)
    starts.answers = [ConnectError("no rights")]
    starts.begin(IDS)
    eventually(lambda: starts.failed, 5, "failed")
    assert starts.failed == ["Failed to perform round of zombie fencing: no rights"]
    assert starts.started == IDS


def test_a_leader_that_refuses_the_signature_or_has_no_key_yet_is_asked_again(
    configs: TopicConfigStore, starts: Starts
) -> None:
    tasks(configs, 2)
    starts.answers = [
        ForbiddenError("Internal request contained invalid signature."),
        NotReadyError("This worker is still starting up and has not been able to read a session key"),
    ]
    starts.begin(IDS)
    eventually(lambda: starts.started == IDS, 5, "started, once the new session key was read")
    assert (starts.asked, starts.failed) == (3, [])


def test_a_task_that_starts_with_configs_that_were_replaced_meanwhile_may_not_write(
    configs: TopicConfigStore, starts: Starts
) -> None:
    tasks(configs, 2)
    then = configs.snapshot()
    tasks(configs, 3)
    starts.begin(IDS, then)
    eventually(lambda: starts.started == IDS, 5, "started")
    with pytest.raises(ConflictError, match=r"new task configurations \(generation 1\).*\(generation 0\)"):
        starts.starts.verify(IDS[0])


def test_a_round_that_breaks_fails_the_tasks_that_wait_for_it(configs: TopicConfigStore, starts: Starts) -> None:
    tasks(configs, 2)
    starts.answers = [ValueError("a bug")]
    starts.begin(IDS)
    eventually(lambda: starts.failed, 5, "failed")
    assert starts.failed == ["Failed to perform round of zombie fencing: ValueError: a bug"]
    assert starts.started == []


def test_a_task_that_is_not_here_may_not_write(configs: TopicConfigStore, starts: Starts) -> None:
    tasks(configs, 2)
    with pytest.raises(ConflictError, match="no longer assigned to this worker"):
        starts.starts.verify(IDS[0])


def test_a_task_may_write_while_its_generation_is_the_present_one(configs: TopicConfigStore, starts: Starts) -> None:
    tasks(configs, 2)
    starts.begin(IDS)
    starts.starts.verify(IDS[0])
    tasks(configs, 3)
    with pytest.raises(ConflictError, match="new task configurations"):
        starts.starts.verify(IDS[0])
    starts.starts.cancel(IDS)
    with pytest.raises(ConflictError, match="no longer assigned to this worker"):
        starts.starts.verify(IDS[1])

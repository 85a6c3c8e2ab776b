"""Hundreds of connectors in one worker: what one more costs does not grow with those there are."""

from __future__ import annotations

from kconnect.model import RunState
from kit.counting import instructions
from kit.herders import herder_bench


def test_three_hundred_connectors_start_and_the_last_is_as_much_work_as_the_first() -> None:
    with herder_bench() as bench:

        def create(first: int, count: int) -> None:
            for number in range(first, first + count):
                bench.create(f"c{number}")

        create(0, 10)  # what is done once only
        early = instructions(lambda: create(10, 30))
        create(40, 230)
        late = instructions(lambda: create(270, 30))

        statuses = [bench.herder.connector_status(name) for name in bench.herder.connectors()]
        assert len(statuses) == 300
        assert all(task.state is RunState.RUNNING for status in statuses for task in status.tasks)
        assert late < early * 1.2


def test_listing_three_times_as_many_connectors_is_three_times_the_work() -> None:
    with herder_bench() as bench:

        def listed() -> None:
            for name in bench.herder.connectors():
                bench.herder.connector_status(name)
                bench.herder.connector_info(name)

        for number in range(50):
            bench.create(f"c{number}")
        few = instructions(listed)
        for number in range(50, 150):
            bench.create(f"c{number}")
        assert instructions(listed) < few * 3.3

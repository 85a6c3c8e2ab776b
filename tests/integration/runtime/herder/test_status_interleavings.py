"""What the status topic says, on the way and once nothing is on its way any more, in a thousand interleavings."""

from __future__ import annotations

import logging

import pytest

from kit.status_simulation import MOST_RECORDS, Simulation

ROUNDS, EACH = 12, 100


@pytest.mark.parametrize("first", range(0, ROUNDS * EACH, EACH))
def test_no_status_covers_a_newer_one_and_in_the_end_each_is_that_of_the_worker_which_runs_it(first: int) -> None:
    logging.disable(logging.ERROR)
    try:
        for seed in range(first, first + EACH):
            simulation = Simulation(seed)
            simulation.run()
            assert not simulation.problems(), "\n".join([f"seed {seed}", *simulation.problems(), *simulation.story])
            before = len(simulation.records)
            for worker in simulation.workers:  # nobody has anything left to say
                worker.keeper.look()
                assert not worker.log.queue
            assert len(simulation.records) == before < MOST_RECORDS
    finally:
        logging.disable(logging.NOTSET)

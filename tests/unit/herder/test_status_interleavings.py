"""What the status topic says once nothing is on its way any more, after a thousand ways in which it may have come."""

from __future__ import annotations

import logging

import pytest

from kit.status_simulation import SUBJECTS, Simulation

ROUNDS, EACH = 12, 100


@pytest.mark.parametrize("first", range(0, ROUNDS * EACH, EACH))
def test_in_the_end_each_status_is_that_of_the_worker_which_runs_it_whoever_reads(first: int) -> None:
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
            assert len(simulation.records) == before < 120 * len(SUBJECTS)
    finally:
        logging.disable(logging.NOTSET)

"""Exactly once at the moments at which a transaction must not be committed: refused offsets."""

from __future__ import annotations

from kconnect.pipeline.boundaries import PollBoundary
from kit.source_bench import OFFSETS_TOPIC, Numbers, SourceBench


def test_a_transaction_whose_offsets_the_client_itself_refuses_is_never_committed() -> None:
    bench, polls = SourceBench(), [2]

    def script() -> int:
        if polls:
            return polls.pop()
        run.control.stop()
        return 0

    run = bench.exactly_once(Numbers(script), PollBoundary())
    run.producer.refused_topics.add(OFFSETS_TOPIC)
    assert f"topic '{OFFSETS_TOPIC}'" in str(run())
    assert (bench.committed, bench.log) == (0, [])

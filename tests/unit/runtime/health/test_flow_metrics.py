"""What tasks move: of several together."""

from __future__ import annotations

from kconnect.runtime.health.flow_metrics import FlowMetrics, summed


def test_metrics_add_up_and_what_nobody_tells_stays_unknown():
    assert summed([FlowMetrics(5.0, 10, 1), FlowMetrics(None, 20, None, 7), FlowMetrics()]) == FlowMetrics(
        5.0, 30, 1, 7
    )
    assert summed([]) == FlowMetrics()

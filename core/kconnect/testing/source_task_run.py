"""One source task in a harness, and the worker's way from its poll() to Kafka's records."""

from __future__ import annotations

from typing import Any

from kconnect.clock import Pauses
from kconnect.model import ConnectorOffset
from kconnect.runtime.pipeline.health import HealthSettings, TaskHealth
from kconnect.runtime.pipeline.inflight import InFlight
from kconnect.runtime.pipeline.offset_updates import updates_offsets
from kconnect.runtime.pipeline.polled import SourceConversion
from kconnect.runtime.pipeline.source_context import SourceCalls
from kconnect.testing.connector_run import TaskStages


class SourceTaskRun:
    """One task and what belongs to it."""

    def __init__(self, calls: SourceCalls, stages: TaskStages, pauses: Pauses) -> None:
        self.calls = calls
        self.task = task = calls.task
        self.config = calls.config
        self.stages = stages
        self.pauses = pauses
        """Paces a poll() that fails."""
        health = TaskHealth(HealthSettings(), 0.0, 0.0)
        self.conversion = SourceConversion(
            task, stages.transforms, stages.converters, health, sends_before_failure=True
        )
        self.inflight = InFlight()
        self.uncommitted: dict[frozenset[tuple[str, Any]], ConnectorOffset] = {}
        self.updates_offsets = updates_offsets(type(task))
        self.is_whole = True
        """Whether everything that was polled is in the log."""

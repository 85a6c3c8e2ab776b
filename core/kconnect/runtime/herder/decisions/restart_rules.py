"""Rules for restarts: those requested of the whole cluster by a record, where each worker does its part (KIP-745), and
those of a worker whose connectors and tasks run with outdated values.

Source: DistributedHerder#onRestartRequest, #processRestartRequests, RestartRequest#compareTo (Kafka 4.3).
"""

from __future__ import annotations

from dataclasses import replace

from kconnect.runtime.herder.decisions.events import ValuesChanged
from kconnect.runtime.herder.decisions.facts import HerderFacts
from kconnect.runtime.herder.decisions.instructions import Instruction, RestartByPlan, RestartHere
from kconnect.runtime.storage.config_topic import RestartRequested


class RestartRules:
    """Part of a HerderState: requests wait until the group has settled; of two, the one with the larger effect is
    kept.
    """

    def __init__(self, facts: HerderFacts) -> None:
        self._facts = facts
        self._wanted: dict[str, RestartRequested] = {}
        self._changed: dict[str, str] = {}

    def want(self, request: RestartRequested) -> None:
        known = self._wanted.get(request.connector)
        if known is not None and known.automatic is not None and request.automatic is not None:
            parts = tuple(sorted({*known.automatic.parts, *request.automatic.parts}))
            request = replace(request, automatic=replace(request.automatic, parts=parts))
            self._wanted[request.connector] = request
        elif known is None or impact(request) > impact(known):
            self._wanted[request.connector] = request

    def values_changed(self, event: ValuesChanged) -> None:
        """Each worker sees this for itself, so that each restarts its own."""
        self._changed[event.connector] = event.what

    def due(self) -> list[Instruction]:
        """Restart the parts that run here; a deleted connector, or one without parts here, needs nothing."""
        facts = self._facts
        wanted, self._wanted = self._wanted, {}
        instructions: list[Instruction] = []
        for name, request in wanted.items():
            here = facts.running_of(name)
            if here and facts.snapshot.contains(name):
                instructions.append(RestartByPlan(request, here, facts.snapshot))
        changed, self._changed = self._changed, {}
        for name, what in changed.items():
            here = facts.running_of(name)
            if here and facts.snapshot.contains(name):
                instructions.append(RestartHere(name, what, here, facts.snapshot))
        return instructions


def impact(request: RestartRequested) -> tuple[bool, bool, bool]:
    """How much a request touches: all before only failed, with tasks before without, all parts before some."""
    return (not request.only_failed, request.include_tasks, request.automatic is None)

"""The distributed herder as a state machine without I/O: `step` takes an event and returns the resulting instructions.

A member of the group is in one of these phases; requests and changes of configs are acted on in STABLE, and wait
elsewhere:

        Started            Placed               settled: its configs are read, work is started
    NEW ───────► JOINING ─────────► SETTLING ──────────────────────────────────────────► STABLE
                 ▲  ▲  ▲              │  │                                                 │
                 │  │  └──────────────┘  │ CatchUp was too slow                            │
                 │  │   rejoin: failed,  │ for worker.sync.timeout.ms:                     │
                 │  │   other configs    ▼ leave, stop everything                          │
                 │  └─────────────── UNREAD                                                │
                 │   read after a back-off                                                 │
                 └─────────────────────────────────────────────────────────────────────────┘
                   Joining (another member), changes that reassign work, a delay that is over,
                   work that was revoked and is free now; Lost: stop everything, then join again

    StopAsked leads from each of them to STOPPED: everything stops, pending requests are refused.

Each module of this package has the rules of one topic; all share one `HerderFacts`.
Source: DistributedHerder#tick (Kafka 4.3).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from kconnect.errors import FencedError
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.herder.assignment.protocol import Assignment
from kconnect.runtime.herder.decisions.auto_restarts import AutoRestarts
from kconnect.runtime.herder.decisions.config_rules import ConfigRules, TaskRules
from kconnect.runtime.herder.decisions.events import (
    Asked,
    CaughtUp,
    Claimed,
    ConfigsChanged,
    CutOff,
    Event,
    FirstOffsetsWritten,
    GivenUp,
    Placed,
    Reconfigure,
    Started,
    StatusesRead,
    StopAsked,
    TaskConfigsFailed,
    TaskConfigsForwarded,
    TaskConfigsGiven,
    Tick,
    ValuesChanged,
    Written,
)
from kconnect.runtime.herder.decisions.facts import HerderFacts, HerderTimes, Phase
from kconnect.runtime.herder.decisions.instructions import Instruction, Write
from kconnect.runtime.herder.decisions.membership_rules import MembershipRules, MismatchRules, OwnSettings
from kconnect.runtime.herder.decisions.rebalances import Rebalances
from kconnect.runtime.herder.decisions.request_rules import RequestRules
from kconnect.runtime.herder.decisions.request_signatures import KeyForm
from kconnect.runtime.herder.decisions.restart_rules import AutoRestartRules, RestartRules
from kconnect.runtime.herder.decisions.trace import HerderTrace
from kconnect.runtime.herder.decisions.writes import ForAutoRestart, ForKey, ForRequest, ForTasks, NewSessionKey
from kconnect.runtime.herder.membership import Joining, Lost
from kconnect.runtime.storage.status_topic import Subject

log = logging.getLogger(__name__)


class HerderState:
    """Threads: one. Ticks precede the events of their time, and trigger what is due by time alone."""

    def __init__(
        self,
        times: HerderTimes | None = None,
        key_form: KeyForm | None = None,
        own: OwnSettings | None = None,
        restarts: RestartSettings | None = None,
    ) -> None:
        self.facts = HerderFacts(times or HerderTimes())
        self._restarts = RestartRules(self.facts)
        self._configs = ConfigRules(self.facts, self._restarts)
        self._membership = MembershipRules(self.facts, self._configs)
        self._requests = RequestRules(self.facts, self._configs)
        self._tasks = TaskRules(self.facts)
        self._keys = _KeyRules(self.facts, key_form or KeyForm())
        self._mismatch = MismatchRules(self.facts, own or OwnSettings())
        self._auto_restarts = AutoRestarts()
        self._automatic = AutoRestartRules(self.facts, restarts or RestartSettings(), self._auto_restarts)
        self._settings = {
            "times": self.facts.times,
            "key_form": key_form or KeyForm(),
            "own": own or OwnSettings(),
            "restarts": restarts or RestartSettings(),
        }
        self._trace = HerderTrace()
        self.rebalances = Rebalances()

    def step(self, event: Event) -> list[Instruction]:
        """Take an event; returns what to do, in order."""
        entry = self._trace.begin(event, self.facts.now_ms, self.parts)
        try:
            instructions = [*self._take(event), *self._due()]
        except Exception as error:
            self._trace.end(entry, (), error)
            raise
        self.rebalances.note(event, instructions, self.facts.now_ms)
        if instructions or not isinstance(event, Tick):
            self._trace.end(entry, instructions)
            log.debug("%s -> %s", event, instructions)
        return instructions

    def trace(self, since: int | None = None, clean: Callable[[str], str] = str) -> dict[str, Any]:
        """The latest events and the resulting instructions, as `HerderTrace.document`. Threads: any.

        Ticks without an effect are omitted.
        """
        return self._trace.document(since, self._settings, clean)

    def parts(self) -> dict[str, object]:
        """All that the machine remembers, by name: its facts and its rules."""
        return {
            "facts": self.facts,
            "restarts": self._restarts,
            "configs": self._configs,
            "membership": self._membership,
            "requests": self._requests,
            "tasks": self._tasks,
            "keys": self._keys,
            "mismatch": self._mismatch,
            "auto-restarts": self._auto_restarts,
        }

    @property
    def automatic_restarts(self) -> int:
        """Connectors and tasks that this member has restarted by itself. Threads: any."""
        return self._auto_restarts.restarted

    def failed_ms(self, subject: Subject) -> int | None:
        """Works as that of `AutoRestarts`. Threads: any."""
        return self._auto_restarts.failed_ms(subject)

    def held_until_ms(self, subject: Subject) -> int | None:
        """Until when the group holds back this part, because its worker left; None: it does not. Threads: any."""
        facts = self.facts
        return facts.held_until_ms if subject in facts.held else None

    def last_said(self, subject: Subject) -> str | None:
        """Works as that of `AutoRestarts`. Threads: any."""
        return self._auto_restarts.last_said(subject)

    @property
    def wants_group(self) -> bool:
        """Whether to poll the group membership: it is in the group or wants to join."""
        return self.facts.phase in (Phase.JOINING, Phase.SETTLING, Phase.STABLE)

    @property
    def owned_assignment(self) -> Assignment | None:
        """The work that the member reports to the group."""
        return self._membership.owned_assignment

    def next_due_ms(self) -> int | None:
        """When a tick will next have an effect; None: only an event will."""
        times = [self._membership.next_due_ms()]
        if self.facts.phase is Phase.STABLE:
            times += [self._tasks.next_due_ms(), self._mismatch.next_due_ms(), self._automatic.next_due_ms()]
            if self.facts.may_write:
                times.append(self._keys.next_due_ms())
        return min((when for when in times if when is not None), default=None)

    def _take(self, event: Event) -> list[Instruction]:
        match event:
            case Tick(now_ms):
                self.facts.now_ms = now_ms
                return []
            case ConfigsChanged():
                return [*self._configs.take(event), *self._mismatch.changed(event)]
            case Written():
                return self._written(event)
            case Asked():
                self._requests.take(event)
                return self._requests.refuse_all() if self.facts.phase is Phase.STOPPED else []
            case GivenUp():
                self._requests.give_up(event)
                return []
            case FirstOffsetsWritten():
                return self._requests.first_offsets_written(event)
            case ValuesChanged():
                self._restarts.values_changed(event)
                return []
            case StatusesRead():
                return self._automatic.read(event)
            case StopAsked():
                return [*self._membership.stop(event), *self._requests.refuse_all()]
            case Reconfigure() | TaskConfigsGiven() | TaskConfigsFailed() | TaskConfigsForwarded():
                return self._task_configs(event)
            case _:
                return self._group(event)

    def _group(self, event: Started | Joining | Placed | Lost | CutOff | CaughtUp | Claimed) -> list[Instruction]:
        match event:
            case Started(snapshot):
                return [*self._membership.begin(event), *self._mismatch.read(snapshot)]
            case Joining():
                return self._membership.join(event)
            case Placed():
                return [*self._membership.place(event), *self._mismatch.placed(event)]
            case Lost():
                self._mismatch.lost()
                return self._membership.lose(event)
            case CutOff():
                self._mismatch.lost()
                return self._membership.cut_off(event)
            case CaughtUp():
                instructions = self._membership.catch_up(event)
                if self.facts.phase is Phase.UNREAD:
                    self._mismatch.lost()
                return instructions
            case Claimed():
                return self._membership.claimed(event)

    def _task_configs(
        self, event: Reconfigure | TaskConfigsGiven | TaskConfigsFailed | TaskConfigsForwarded
    ) -> list[Instruction]:
        match event:
            case Reconfigure(connector):
                self._tasks.want(connector)
            case TaskConfigsGiven():
                self._tasks.take(event)
            case TaskConfigsFailed():
                self._tasks.refused(event)
            case TaskConfigsForwarded():
                self._tasks.forwarded(event)
        return []

    def _written(self, event: Written) -> list[Instruction]:
        facts = self.facts
        facts.is_writing = False
        if event.snapshot.offset >= facts.snapshot.offset:
            facts.snapshot = event.snapshot
        if isinstance(event.error, FencedError):
            self._membership.fenced()
        instructions = self._mismatch.read(facts.snapshot)
        match event.target:
            case ForRequest() as target:
                instructions += self._requests.written(event, target)
            case ForTasks(connector):
                self._tasks.written(event, connector)
            case ForAutoRestart(connector):
                self._automatic.written(event, connector)
            case ForKey() if event.error is not None and facts.is_leader:
                # It may have been written all the same: only the end of the topic shows that
                instructions += self._membership.read_again()
            case _:
                pass
        return instructions

    def _due(self) -> list[Instruction]:
        """What time and phase allow now, in the order of Java's tick."""
        facts = self.facts
        if facts.phase is not Phase.STABLE:
            return self._membership.due()
        instructions = [*self._membership.overtaken(), *self._configs.due(), *self._keys.due(), *self._requests.due()]
        instructions += [*self._restarts.due(), *self._tasks.due(), *self._mismatch.due(), *self._automatic.due()]
        instructions += self._membership.due()
        return instructions


class _KeyRules:
    """The leader creates a session key when there is none, or when it is too old or of another form.

    Source: DistributedHerder#checkForKeyRotation, #onSessionKeyUpdate (Kafka 4.3; KIP-507).
    """

    def __init__(self, facts: HerderFacts, form: KeyForm) -> None:
        self._facts = facts
        self._form = form

    def due(self) -> list[Instruction]:
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > self._facts.now_ms or not self._facts.may_write:
            return []
        self._facts.is_writing = True
        return [Write(ForKey(), NewSessionKey(self._facts.now_ms))]

    def next_due_ms(self) -> int | None:
        """When this worker must write a new key; None: not this worker, or never."""
        facts = self._facts
        if not facts.is_leader or not facts.signs_requests:
            return None
        key = facts.snapshot.session_key
        if key is None or key.algorithm != self._form.algorithm or len(key.key) != self._form.size_bytes:
            return facts.now_ms
        return key.created_ms + facts.times.key_ttl_ms if facts.times.key_ttl_ms > 0 else None

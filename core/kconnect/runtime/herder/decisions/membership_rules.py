"""Rules of membership: what an assignment starts and stops, catching up before it, leaving, coming back.

Source: DistributedHerder.RebalanceListener, #handleRebalanceCompleted, WorkerCoordinator (Kafka 4.3; KIP-415).

MismatchRules detect workers with mismatched topics, clocks or settings, which are reported, not fixed.
Differs: Java finds only the downgrade of `connect.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kconnect.runtime.herder.assignment.protocol import Assignment, Work
from kconnect.runtime.herder.decisions.config_rules import ConfigRules
from kconnect.runtime.herder.decisions.events import (
    CaughtUp,
    Claimed,
    ConfigsChanged,
    CutOff,
    Placed,
    Started,
    StopAsked,
)
from kconnect.runtime.herder.decisions.facts import HerderFacts, Phase
from kconnect.runtime.herder.decisions.instructions import (
    CatchUp,
    Claim,
    CleanUp,
    Instruction,
    LeaveGroup,
    RequestRejoin,
    StartWork,
    StopWork,
    TakeGeneration,
    Tell,
    WithholdStops,
)
from kconnect.runtime.herder.decisions.mismatches import (
    ConfigTopicEnds,
    ConfigTopicUnread,
    ExactlyOnceElsewhere,
    HeldBack,
    KeyFromFuture,
    Mismatch,
    ProtocolDowngraded,
    WrittenByOther,
)
from kconnect.runtime.herder.membership import Joining, Lost
from kconnect.runtime.storage.config_topic import ForeignRecord
from kconnect.runtime.storage.snapshot import ClusterSnapshot

# As Java's BACKOFF_RETRIES
_BACK_OFFS = 5


class MembershipRules:
    """Part of a HerderState. Times are None if nothing is due."""

    def __init__(self, facts: HerderFacts, configs: ConfigRules) -> None:
        self._facts = facts
        self._configs = configs
        self._read_again_at_ms: int | None = None  # while UNREAD
        self._scheduled_at_ms: int | None = None  # work of lost workers is delayed until then
        self._claim_at_ms: int | None = None
        self._was_eager = False  # the last sub-protocol of the group
        self._failed_reads = 0  # since the configs were read to their end last
        self._has_settled = False  # the work of the present assignment was started

    @property
    def owned_assignment(self) -> Assignment | None:
        """The work that the member reports to the group, None if it has none."""
        facts = self._facts
        return facts.assignment and replace(facts.assignment, work=facts.owned, revoked=Work())

    def begin(self, event: Started) -> list[Instruction]:
        self._facts.snapshot = event.snapshot
        self._facts.phase = Phase.JOINING
        return []

    def stop(self, _event: StopAsked) -> list[Instruction]:
        instructions = self._stop_all("the worker stops")
        self._facts.phase = Phase.STOPPED
        return instructions

    def join(self, _event: Joining) -> list[Instruction]:
        """Give up what must not keep running: everything with the eager protocol, else only tasks with other
        configs.
        """
        facts = self._facts
        if facts.phase is Phase.STABLE:
            facts.phase = Phase.JOINING
        if facts.is_eager:
            return self._stop(facts.all_running(), "an eager rebalance begins")
        return self._configs.stop_reconfigured()

    def lose(self, event: Lost) -> list[Instruction]:
        """Stop everything: other workers will soon start it. Nothing is owned when the worker joins again."""
        facts = self._facts
        instructions: list[Instruction] = [WithholdStops(), *self._stop_all(event.why, is_cut_off=True)]
        if facts.phase in (Phase.STABLE, Phase.SETTLING):
            facts.phase = Phase.JOINING
        return instructions

    def cut_off(self, _event: CutOff) -> list[Instruction]:
        """Works as `lose`; the membership may not have noticed, so it must join again."""
        instructions: list[Instruction] = [
            WithholdStops(),
            *self._stop_all("the group was out of reach", is_cut_off=True),
        ]
        if self._facts.phase in (Phase.STABLE, Phase.SETTLING, Phase.JOINING):
            instructions += self._rejoin("the group was out of reach")
        return instructions

    def place(self, event: Placed) -> list[Instruction]:
        """Take an assignment: stop what is revoked; start the rest once the configs it was made with are read."""
        facts, assignment = self._facts, event.assignment
        facts.assignment, facts.generation, facts.member_id = assignment, event.generation, event.member_id
        facts.workers = event.workers
        facts.javas = event.javas if facts.is_leader else assignment.javas or ()
        facts.phase = Phase.SETTLING
        self._was_eager, self._has_settled = assignment.version == 0, False
        self._scheduled_at_ms = facts.now_ms + assignment.delay_ms if assignment.delay_ms > 0 else None
        held = assignment.held if assignment.delay_ms > 0 else Work()
        known, facts.held = facts.held, frozenset((*held.connectors, *held.tasks))
        facts.held_until_ms = self._scheduled_at_ms or 0
        is_news = bool(facts.held - known)
        instructions: list[Instruction] = [Tell(HeldBack(held, assignment.delay_ms))] if is_news else []
        if assignment.version == 0:
            facts.connectors.clear()
            facts.tasks.clear()
        else:
            instructions += self._stop(
                facts.running(assignment.revoked.connectors, assignment.revoked.tasks), "revoked by the leader"
            )
        for name in assignment.revoked.connectors:
            facts.connectors.pop(name, None)
        for task in assignment.revoked.tasks:
            facts.tasks.pop(task, None)
        facts.connectors.update(dict.fromkeys(assignment.work.connectors))
        facts.tasks.update(dict.fromkeys(assignment.work.tasks))
        instructions.append(TakeGeneration(event.generation, facts.is_leader))
        facts.needs_claim = facts.is_leader
        facts.unclaimed = facts.unclaimed if facts.is_leader else None
        self._claim_at_ms = facts.now_ms if facts.is_leader else None
        lags = event.snapshot.offset < assignment.offset
        if lags or (assignment.error and facts.is_leader):
            return [*instructions, CatchUp(facts.times.sync_timeout_ms, assignment.offset)]
        return [*instructions, *self._settle(event.snapshot)]

    def catch_up(self, event: CaughtUp) -> list[Instruction]:
        """Continue with the assignment, or stay away for a while: the others must not wait for this worker repeatedly.

        Differs: all work stops when the worker leaves; Java's keeps running for a while, though others may be assigned
        to it. Java's worker joins again and again when its config topic ends before that of the others.
        """
        facts, assignment = self._facts, self._facts.assignment
        if event.problem is not None:
            away = ConfigTopicUnread(event.problem)
            return self._stay_away(away, "taking too long to read the config topic", self._next_back_off_ms())
        self._read_again_at_ms, self._failed_reads = None, 0
        if facts.phase is Phase.UNREAD or (facts.phase is Phase.SETTLING and self._has_settled):
            facts.phase = Phase.JOINING if facts.phase is Phase.UNREAD else Phase.STABLE
            facts.snapshot = event.snapshot
            return []
        if facts.phase is not Phase.SETTLING:
            return []
        if assignment is not None and event.snapshot.offset < assignment.offset:
            ends = ConfigTopicEnds(event.snapshot.offset, assignment.offset)
            why = "its config topic is not the group's"
            return [Tell(ends), *self._stay_away(ends, why, facts.times.unsync_backoff_ms)]
        return self._settle(event.snapshot)

    def _next_back_off_ms(self) -> int:
        """While the group delays a lost worker's work: often enough to be back before the delay ends.

        Source: DistributedHerder#backoff.
        """
        times = self._facts.times
        if self._was_eager:
            return times.unsync_backoff_ms
        tries_left = _BACK_OFFS - self._failed_reads % (_BACK_OFFS + 1)
        self._failed_reads += 1
        # A moment at least: a stop has to get in between
        return max(1, times.max_delay_ms // 10 // tries_left) if tries_left else 1

    def _stay_away(self, away: ConfigTopicEnds | ConfigTopicUnread, why: str, back_off_ms: int) -> list[Instruction]:
        facts = self._facts
        instructions = self._stop_all(why) if facts.assignment else []
        facts.away_since_ms = facts.now_ms if facts.away is None else facts.away_since_ms
        facts.phase, facts.away = Phase.UNREAD, away
        self._read_again_at_ms = facts.now_ms + back_off_ms
        return [*instructions, LeaveGroup(why)]

    def claimed(self, event: Claimed) -> list[Instruction]:
        facts = self._facts
        facts.needs_claim = event.problem is not None and facts.is_leader
        self._claim_at_ms = facts.now_ms + facts.times.claim_backoff_ms if facts.needs_claim else None
        if facts.unclaimed is None:
            facts.unclaimed_since_ms = facts.now_ms
        facts.unclaimed, facts.unclaimed_hint = (event.problem if facts.needs_claim else None), event.hint
        return []

    def fenced(self) -> None:
        """Another worker wrote as leader: claim write privileges again, if this one still leads."""
        self._facts.needs_claim = self._facts.is_leader
        self._claim_at_ms = self._facts.now_ms if self._facts.is_leader else None

    def read_again(self) -> list[Instruction]:
        """The configs must be read to their end before anything else: their contents are uncertain.

        The work continues as it was assigned.
        """
        self._facts.phase = Phase.SETTLING
        return [CatchUp(self._facts.times.sync_timeout_ms)]

    def due(self) -> list[Instruction]:
        """Act on what is due by now."""
        facts, now_ms = self._facts, self._facts.now_ms
        if facts.phase is Phase.UNREAD and self._read_again_at_ms is not None and self._read_again_at_ms <= now_ms:
            self._read_again_at_ms = None  # until it is known how that went
            return [CatchUp(facts.times.sync_timeout_ms)]
        if facts.phase is not Phase.STABLE:
            return []
        instructions: list[Instruction] = []
        if facts.needs_claim and self._claim_at_ms is not None and self._claim_at_ms <= now_ms:
            self._claim_at_ms = None
            instructions.append(Claim())
        if self._scheduled_at_ms is not None and self._scheduled_at_ms <= now_ms:
            self._scheduled_at_ms = None
            instructions += self._rejoin("the delay for lost workers is over")
        elif self._configs.is_rebalance_due():
            instructions += [*self._configs.stop_reconfigured(), *self._rejoin("connectors or tasks have changed")]
        return instructions

    def overtaken(self) -> list[Instruction]:
        """Act on changes that arrive after the assignment that already includes them, as if they had arrived before
        it.
        """
        return self._run_assigned() if self._configs.has_overtaken else []

    def next_due_ms(self) -> int | None:
        """When `due` has something to say, as far as time alone decides."""
        if self._facts.phase is Phase.UNREAD:
            return self._read_again_at_ms
        if self._facts.phase is not Phase.STABLE:
            return None
        times = [self._scheduled_at_ms, self._claim_at_ms, self._configs.rebalance_due_ms()]
        return min((when for when in times if when is not None), default=None)

    def _settle(self, snapshot: ClusterSnapshot) -> list[Instruction]:
        """Start the work, if there is an assignment and it was made with just the configs that were read."""
        facts, assignment = self._facts, self._facts.assignment
        if assignment is None:
            return self._rejoin("the worker was out of the group")
        if snapshot.offset > facts.snapshot.offset:
            facts.snapshot = snapshot
        if assignment.error:
            return self._rejoin("the leader had not read the configs that others have")
        if snapshot.offset != assignment.offset:
            return self._rejoin(f"configs are read up to {snapshot.offset}, work was assigned at {assignment.offset}")
        facts.placed, facts.away = snapshot, None
        facts.settled_rebalances += 1
        self._has_settled = True
        instructions = self._run_assigned()
        if facts.is_leader:
            instructions.append(CleanUp(snapshot))
        facts.phase = Phase.STABLE
        if assignment.revoked:
            instructions += self._rejoin("revoked work has to be handed out")
        return instructions

    def _run_assigned(self) -> list[Instruction]:
        """Stop work that is not this worker's or has other configs, start its work that does not run."""
        facts = self._facts
        instructions = [*self._configs.settle(), *self._stop(self._unowned(), "not assigned to this worker")]
        fresh = Work(
            tuple(name for name in facts.connectors if name not in facts.running_connectors),
            tuple(task for task in facts.tasks if task not in facts.running_tasks),
        )
        if fresh:
            facts.started(fresh, facts.placed)
            instructions.append(StartWork(fresh, facts.placed))
        return instructions

    def _unowned(self) -> Work:
        facts = self._facts
        return Work(
            tuple(sorted(facts.running_connectors.keys() - facts.connectors.keys())),
            tuple(sorted(facts.running_tasks.keys() - facts.tasks.keys())),
        )

    def _rejoin(self, why: str) -> list[Instruction]:
        self._facts.phase = Phase.JOINING
        return [RequestRejoin(why)]

    def _stop(self, work: Work, why: str, *, is_cut_off: bool = False) -> list[Instruction]:
        if not work:
            return []
        self._facts.stopped(work)
        return [StopWork(work, why, is_cut_off)]

    def _stop_all(self, why: str, *, is_cut_off: bool = False) -> list[Instruction]:
        facts = self._facts
        instructions = self._stop(facts.all_running(), why, is_cut_off=is_cut_off)
        facts.assignment, facts.member_id, facts.needs_claim, facts.unclaimed = None, "", False, None
        facts.connectors.clear()
        facts.tasks.clear()
        facts.held, facts.held_until_ms = frozenset(), 0
        self._scheduled_at_ms = self._claim_at_ms = None
        return instructions


# The first sub-protocol with a session key (KIP-507)
_SIGNED = 2
# Clocks set over the network agree within a second; one that is off by this much is not synchronized
_CLOCKS_AGREE_MS = 10_000
# As often as a key is replaced by default: once in each log that an operator reads, not with each write
_LOG_AGAIN_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """Settings of this worker, compared with what its group shows."""

    exactly_once: str = "disabled"
    """exactly.once.source.support"""
    protocol_version: int = 2
    """The highest of connect.protocol."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    record: ForeignRecord
    generation: int
    noted_ms: int


class MismatchRules:
    """Part of a HerderState."""

    def __init__(self, facts: HerderFacts, own: OwnSettings) -> None:
        self._facts = facts
        self._has_exactly_once_off = own.exactly_once == "disabled"
        self._version = own.protocol_version
        self._seen_offset = -1
        self._suspect: _Suspect | None = None
        self._strangers_logged_ms: int | None = None
        self._key_ms = -1
        self._exactly_once: set[str] = set()

    def read(self, snapshot: ClusterSnapshot) -> list[Instruction]:
        """Findings from the configs themselves, whoever wrote them; task counts mean nothing to a herder by
        themselves.
        """
        found: list[Mismatch] = []
        key, now_ms = snapshot.session_key, self._facts.now_ms
        if key is not None and key.created_ms != self._key_ms:
            self._key_ms = key.created_ms
            if key.created_ms > now_ms + _CLOCKS_AGREE_MS:
                found.append(KeyFromFuture(key.created_ms, now_ms))
        if self._has_exactly_once_off:
            # Only a worker with exactly-once support has the leader write these
            others = [name for name, count in snapshot.task_count_records.items() if count and snapshot.contains(name)]
            if fresh := tuple(sorted(set(others) - self._exactly_once)):
                self._exactly_once.update(fresh)
                found.append(ExactlyOnceElsewhere(fresh))
        return [Tell(one) for one in found]

    def changed(self, event: ConfigsChanged) -> list[Instruction]:
        """Suspect any other worker that wrote as leader. A leader that lost its group does not know that at once."""
        facts, record = self._facts, event.foreign
        if record is not None and record.offset > self._seen_offset:
            self._seen_offset = record.offset
            logged_ms = self._strangers_logged_ms
            is_due = self._suspect is None and (logged_ms is None or logged_ms + _LOG_AGAIN_MS <= facts.now_ms)
            if is_due and facts.is_leader and record.offset >= facts.placed.offset:
                self._suspect = _Suspect(record, facts.generation, facts.now_ms)
        return self.read(event.snapshot)

    def lost(self) -> None:
        """Out of the group: another member may have led it meanwhile."""
        self._suspect = None

    def placed(self, event: Placed) -> list[Instruction]:
        if not self._facts.is_leader:
            self._suspect = None
        before, self._version = self._version, event.assignment.version
        instructions = self.read(event.snapshot)
        return (
            [*instructions, Tell(ProtocolDowngraded(before, self._version))]
            if before >= _SIGNED > self._version
            else instructions
        )

    def due(self) -> list[Instruction]:
        """Report another leader once it is certain that this worker led throughout: it is still the same member, in a
        later generation or after a session's time, within which it would have learned otherwise.
        """
        due_ms = self.next_due_ms()
        if due_ms is None or due_ms > self._facts.now_ms or self._suspect is None:
            return []
        record, self._suspect = self._suspect.record, None
        self._strangers_logged_ms = self._facts.now_ms
        return [Tell(WrittenByOther(record.key, record.offset))]

    def next_due_ms(self) -> int | None:
        suspect, facts = self._suspect, self._facts
        if suspect is None or not facts.is_leader:
            return None
        is_sure = facts.generation != suspect.generation
        return facts.now_ms if is_sure else suspect.noted_ms + facts.times.session_timeout_ms

"""Which FAILED connectors and tasks are restarted by themselves, when, and when they are given up.

Pure: statuses and time go in, restarts and notices come out; a cluster's leader and a standalone worker decide by the
same rules. What counts against a budget is not kept here but given (`Budgets.restarts`): in a cluster it is in the
config topic, so that a new leader continues where the old one ended.

        FAILED ──► waiting (back-off) ──► asked (restart written) ──► runs ──► recovered
                     ▲     │                    │
                     │     │ budget used up     │ FAILED again
                     │     ▼                    ▼
                   refilled ◄── given up      waiting
                   (window over)

A failure that a restart does not help (`failures.NoHelp`) stays where it is. One that another connector's plugin caused
is followed by a restart that costs nothing.

Each failure is weighed once, and again when something that decides about it has changed: with a thousand that fail,
an event costs what it changes.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from kconnect.model import AutoRestart, Condition, ConnectorState, Restarts, RunState, TaskCondition, TaskId, TaskState
from kconnect.runtime.config.restart_keys import RESTARTS_BY_DEFAULT, RestartSettings
from kconnect.runtime.herder.decisions.failures import Failure, NoHelp, failure_of
from kconnect.runtime.storage.config_topic import CONNECTOR_ITSELF, PartRestarts
from kconnect.runtime.storage.status_topic import Subject

# A start of a connector may take kconnect.connector.start.timeout.ms, one minute; after that nobody carried it out
_ASKED_FOR_MS: Final = 60_000
# What a worker takes to read that it shall restart a task and to write that it does; until then the status is that of
# the failure before, and whoever believed it would call that one the last
_UNDER_WAY_MS: Final = 2_000
# Spread so that a hundred tasks that failed at once do not come back at once
_SPREAD: Final = 0.2
# Restarts after which what failed has failed again
_AGAIN: Final = 2
# Starting a task costs its slot some 50 ms and a broker a few requests: eight at once leave room for the others
AT_ONCE: Final = 8


class NoticeKind(StrEnum):
    """What has happened to a connector or task."""

    FAILED = "failed"
    RECOVERED = "recovered"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that an operator wants to know."""

    kind: NoticeKind
    subject: Subject
    worker_id: str
    said: str = ""
    """What it failed with; empty when it has recovered."""
    restarts: int = 0
    """By itself, within the window."""
    most: int = 0
    """errors.restart.max"""
    restart_in_ms: int | None = None
    """It is None where it is not restarted."""
    no_help: NoHelp | None = None


@dataclass(frozen=True, slots=True)
class RestartParts:
    """Restart these parts of a connector; `restarts` is what counts against its budget from then on."""

    connector: str
    parts: tuple[int, ...]
    restarts: tuple[PartRestarts, ...]


class Budgets(Protocol):
    """What the rules know of connectors."""

    def settings(self, connector: str) -> RestartSettings: ...

    def most(self, connector: str) -> int:
        """errors.restart.max, with its default."""
        ...

    def why_none(self, connector: str) -> NoHelp | None:
        """Why nothing of it is restarted by itself; None where that is done."""
        ...

    def restarts(self, connector: str) -> Sequence[PartRestarts]:
        """What counts against its budget, however old."""
        ...

    def may_run(self, subject: Subject) -> bool:
        """Whether it exists, and is neither paused nor stopped."""
        ...

    def is_here(self, worker_id: str) -> bool:
        """Whether that worker is there to restart what has failed on it."""
        ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a failure: restarted at `due_ms`, or (`is_given_up`) not before then, or (None) not at all."""

    count: int
    due_ms: int | None
    is_given_up: bool = False
    no_help: NoHelp | None = None


class AutoRestarts:
    """Threads: one. Times are milliseconds since the epoch."""

    def __init__(self) -> None:
        self._failures: dict[Subject, Failure] = {}
        self._failed_ms: dict[Subject, int] = {}
        self._said: dict[Subject, str] = {}  # what each failed with last, also while it runs again
        self._unweighed: dict[Subject, None] = {}  # those of _failures whose verdict may be another by now
        self._unsaid: dict[Subject, NoticeKind] = {}  # weighed since the last notices, and what they may report
        self._due_ms: dict[Subject, int] = {}  # of what was weighed and is not asked for
        self._counted_until_ms: dict[Subject, int] = {}  # what counts against them does until then
        self._asked_ms: dict[Subject, int] = {}
        self._reported: dict[Subject, NoticeKind] = {}  # the last notice about a failure, until it has recovered
        self._runs_since_ms: dict[Subject, int] = {}  # those that had failed
        self._forgiven_ms: dict[Subject, int] = {}  # restarts until then do not count: somebody else restarted it
        self._own_ms: dict[Subject, int] = {}  # the last restart of each that was asked for here
        self._leads = False
        self.restarted = 0
        """Parts restarted since the process began."""

    # -- what is known ------------------------------------------------------------------------------------------------

    def fails(self, subject: Subject, failure: Failure, now_ms: int) -> None:
        """A status FAILED was read."""
        if self._failures.get(subject) == failure and subject not in self._asked_ms:
            return
        self._failures[subject] = failure
        self._said[subject] = failure.said
        # Not when it was read here: all workers, and the next leader, say the same then
        self._failed_ms[subject] = now_ms if failure.at_ms is None else min(failure.at_ms, now_ms)
        self._unweighed[subject] = None
        for known in (self._runs_since_ms, self._asked_ms, self._due_ms, self._reported):
            known.pop(subject, None)

    def stands(self, subject: Subject, state: RunState | None, now_ms: int, budgets: Budgets) -> None:
        """A status other than FAILED was read; None: it was deleted."""
        was_failed = self._failures.pop(subject, None) is not None
        self._drop_verdict(subject)
        if was_failed and subject not in self._asked_ms and not self._was_restarted_lately(subject, now_ms, budgets):
            self._forgiven_ms[subject] = now_ms
        if state is None:
            self.forget(subject)
        elif state is RunState.RUNNING and (was_failed or subject in self._failed_ms):
            self._asked_ms.pop(subject, None)
            self._runs_since_ms.setdefault(subject, now_ms)

    def forget(self, subject: Subject) -> None:
        self._drop_verdict(subject)
        for known in (self._failures, self._failed_ms, self._asked_ms, self._reported, self._said):
            known.pop(subject, None)
        for times in (self._runs_since_ms, self._forgiven_ms, self._own_ms):
            times.pop(subject, None)

    def only(self, subjects: Iterable[Subject]) -> None:
        """All statuses were read, and these alone are FAILED."""
        for subject in self._failures.keys() - set(subjects):
            self.forget(subject)

    def refused(self, connector: str, now_ms: int) -> None:
        """The restart that was decided last could not be written: decided again after a back-off."""
        for subject in [each for each in self._asked_ms if name_of(each) == connector and each in self._failures]:
            del self._asked_ms[subject]
            self._failed_ms[subject] = now_ms
            self._unweighed[subject] = None

    def weigh_again(self, has_changed: Callable[[str], bool] = lambda name: True) -> None:
        """What `Budgets` say of these connectors, by default all, may have changed."""
        self._unweighed.update((subject, None) for subject in self._failures if has_changed(name_of(subject)))

    def lead(self, since_ms: int) -> None:
        """Decide from now on: if this worker did not before, older failures were reported by another."""
        if self._leads:
            return
        self._leads = True
        for subject, failed_ms in self._failed_ms.items():
            if failed_ms < since_ms and subject in self._failures:
                self._reported.setdefault(subject, NoticeKind.FAILED)

    def follow(self) -> None:
        """Another worker leads."""
        self._leads = False

    # -- what follows -------------------------------------------------------------------------------------------------

    def notices(self, now_ms: int, budgets: Budgets) -> list[Notice]:
        """News not reported yet; each is reported once."""
        self._weigh(now_ms, budgets)
        found = []
        unsaid, self._unsaid = self._unsaid, {}
        for subject, kind in unsaid.items():
            if self._reported.get(subject) not in (kind, NoticeKind.GIVEN_UP):
                self._reported[subject] = kind
                found.append(self._notice(kind, subject, now_ms, budgets))
        for subject, since_ms in list(self._runs_since_ms.items()):
            if since_ms + budgets.settings(name_of(subject)).backoff_ms <= now_ms:
                del self._runs_since_ms[subject]
                del self._failed_ms[subject]
                counted = self._counted(subject, now_ms, budgets)
                count = 0 if counted is None else counted.count
                found.append(Notice(NoticeKind.RECOVERED, subject, "", restarts=count))
        return found

    def restart(self, now_ms: int, budgets: Budgets) -> RestartParts | None:
        """The restart that is due; one connector at a time. The caller carries it out, or reports it `refused`."""
        self._weigh(now_ms, budgets)
        room = AT_ONCE - len(self._asked_ms)
        due = [subject for subject, due_ms in self._due_ms.items() if due_ms <= now_ms]
        if not due or room <= 0:
            return None
        busy = Counter(name_of(subject) for subject in self._asked_ms)  # many of one connector let others pass
        name = name_of(min(due, key=lambda subject: (busy[name_of(subject)], self._due_ms[subject], str(subject))))
        chosen = [subject for subject in due if name_of(subject) == name][:room]
        counts = {each.part: each for each in budgets.restarts(name) if self._counts(name, each, now_ms, budgets)}
        for subject in chosen:
            part, failure = part_of(subject), self._failures[subject]
            known = counts.get(part)
            count = (known.count if known else 0) + (not failure.is_of_others(name))
            counts[part] = PartRestarts(part, count, now_ms, failure.record)
            self._asked_ms[subject] = self._own_ms[subject] = now_ms
            self._drop_verdict(subject)
        self.restarted += len(chosen)
        parts = tuple(sorted(part_of(subject) for subject in chosen))
        return RestartParts(name, parts, tuple(counts[part] for part in sorted(counts)))

    def next_due_ms(self, now_ms: int, budgets: Budgets, *, may_restart: bool = True) -> int | None:
        """When there will be news by time alone."""
        times = [asked_ms + _ASKED_FOR_MS for asked_ms in self._asked_ms.values()]
        times += [
            since_ms + budgets.settings(name_of(subject)).backoff_ms
            for subject, since_ms in self._runs_since_ms.items()
        ]
        if may_restart and len(self._asked_ms) < AT_ONCE:
            self._weigh(now_ms, budgets)
            times += self._due_ms.values()
        return min(times, default=None)

    def verdict(self, subject: Subject, now_ms: int, budgets: Budgets) -> Verdict:
        """What becomes of a part that is FAILED now."""
        name, failure = name_of(subject), self._failures[subject]
        known = self._counted(subject, now_ms, budgets)
        budget = Budget(budgets.settings(name), budgets.most(name), budgets.why_none(name))
        return verdict_on(subject, failure, known, self._failed_ms[subject], budget)

    def failed_ms(self, subject: Subject) -> int | None:
        """Returns since when a FAILED one waits for its restart; None for one that is not FAILED. Threads: any."""
        return self._failed_ms.get(subject) if subject in self._failures else None

    def last_said(self, subject: Subject) -> str | None:
        """What it failed with last; None if this process has not seen it fail. Threads: any."""
        return self._said.get(subject)

    def failing(self) -> tuple[Subject, ...]:
        """What is FAILED now."""
        return tuple(self._failures)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _weigh(self, now_ms: int, budgets: Budgets) -> None:
        """Bring `_due_ms` and `_unsaid` up to date."""
        self._expire(now_ms)
        self._unweighed.update((each, None) for each, until_ms in self._counted_until_ms.items() if until_ms <= now_ms)
        unweighed, self._unweighed = self._unweighed, {}
        for subject in unweighed:
            self._drop_verdict(subject)
            failure = self._failures.get(subject)
            if failure is None or subject in self._asked_ms or not budgets.may_run(subject):
                continue
            if (known := self._counted(subject, now_ms, budgets)) is not None:
                self._counted_until_ms[subject] = known.last_ms + budgets.settings(name_of(subject)).window_ms
            verdict = self.verdict(subject, now_ms, budgets)
            self._unsaid[subject] = NoticeKind.GIVEN_UP if verdict.is_given_up else NoticeKind.FAILED
            if verdict.due_ms is not None and failure.no_help is None and budgets.is_here(failure.worker_id):
                self._due_ms[subject] = verdict.due_ms

    def _drop_verdict(self, subject: Subject) -> None:
        for known in (self._unweighed, self._unsaid, self._due_ms, self._counted_until_ms):
            known.pop(subject, None)

    def _expire(self, now_ms: int) -> None:
        """Restarts that nobody carried out, such as a worker that left meanwhile: decided again."""
        for subject in [each for each, asked_ms in self._asked_ms.items() if asked_ms + _ASKED_FOR_MS <= now_ms]:
            del self._asked_ms[subject]
            if subject in self._failures:
                self._failed_ms[subject] = now_ms
                self._unweighed[subject] = None

    def _counts(self, name: str, each: PartRestarts, now_ms: int, budgets: Budgets) -> bool:
        subject: Subject = name if each.part == CONNECTOR_ITSELF else TaskId(name, each.part)
        is_forgiven = each.last_ms <= self._forgiven_ms.get(subject, -1)
        return not is_forgiven and now_ms < min(each.last_ms, now_ms) + budgets.settings(name).window_ms

    def _counted(self, subject: Subject, now_ms: int, budgets: Budgets) -> PartRestarts | None:
        """What counts against its budget."""
        name, part = name_of(subject), part_of(subject)
        known = next((each for each in budgets.restarts(name) if each.part == part), None)
        return known if known is not None and self._counts(name, known, now_ms, budgets) else None

    def _was_restarted_lately(self, subject: Subject, now_ms: int, budgets: Budgets) -> bool:
        """By a leader before this one: its restart is not somebody's own."""
        return any(
            each.part == part_of(subject)
            and each.last_ms != self._own_ms.get(subject)
            and now_ms < each.last_ms + _ASKED_FOR_MS
            for each in budgets.restarts(name_of(subject))
        )

    def _notice(self, kind: NoticeKind, subject: Subject, now_ms: int, budgets: Budgets) -> Notice:
        failure, verdict = self._failures[subject], self.verdict(subject, now_ms, budgets)
        due_ms = verdict.due_ms
        return Notice(
            kind,
            subject,
            failure.worker_id,
            failure.said,
            verdict.count,
            budgets.most(name_of(subject)),
            None if due_ms is None else max(0, due_ms - now_ms),
            verdict.no_help,
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """What a connector's parts may cost in restarts. `why_none`: as of `Budgets`."""

    settings: RestartSettings
    most: int
    why_none: NoHelp | None = None


def budget_of(settings: RestartSettings, in_group: NoHelp | None = None) -> Budget:
    """`in_group`: JAVA_MEMBER or JAVA_LEADS, where that is so.

    Java's workers restart all FAILED parts of a connector at once: with one in the group somebody has to want it.
    """
    if in_group is NoHelp.JAVA_LEADS:
        return Budget(settings, 0, in_group)
    if settings.max_restarts is not None:
        return Budget(settings, settings.max_restarts, None if settings.max_restarts else NoHelp.OFF)
    return Budget(settings, RESTARTS_BY_DEFAULT if in_group is None else 0, in_group)


def verdict_on(
    subject: Subject, failure: Failure, known: PartRestarts | None, failed_ms: int, budget: Budget
) -> Verdict:
    """What becomes of a failure; `known`: what counts against the budget of the part."""
    settings, most = budget.settings, budget.most
    count = 0 if known is None else known.count
    no_help = failure.no_help
    if no_help is None and known is not None and failure.record and failure.record == known.record:
        no_help = NoHelp.RECORD
    if most <= 0 or no_help is not None:
        return Verdict(count, None, no_help=no_help or budget.why_none)
    is_of_others = failure.is_of_others(name_of(subject))
    if known is not None and count >= most and not is_of_others:
        return Verdict(count, known.last_ms + settings.window_ms, is_given_up=True)
    most_ms = max(settings.backoff_max_ms, settings.backoff_ms)
    pause_ms = settings.backoff_ms if is_of_others else min(settings.backoff_ms << min(count, 30), most_ms)
    return Verdict(count, failed_ms + min(_spread(pause_ms, subject, count), most_ms))


def restarts_of(
    subject: Subject,
    status: ConnectorState | TaskState,
    known: PartRestarts | None,
    budget: Budget,
    now_ms: int,
    failed_ms: int | None = None,
) -> Restarts | None:
    """The automatic restarts of a part as its status shows it; None if there is nothing to say of them.

    `failed_ms`: since when it is FAILED, as of `AutoRestarts.failed_ms`; None: nobody can say when the next one is due.
    """
    settings, most = budget.settings, budget.most
    if known is not None and now_ms >= min(known.last_ms, now_ms) + settings.window_ms:
        known = None
    count = 0 if known is None else known.count
    if status.state is not RunState.FAILED:
        return Restarts(AutoRestart.RESTARTED, count, most) if count else None
    failure = failure_of(status.worker_id, status.trace)
    if known is not None and now_ms < known.last_ms + _UNDER_WAY_MS and failure.no_help is None and most > 0:
        return Restarts(AutoRestart.WAITING, max(0, count - 1), most)
    found = verdict_on(subject, failure, known, now_ms if failed_ms is None else failed_ms, budget)
    if found.is_given_up:
        return Restarts(AutoRestart.GIVEN_UP, count, most, due_ms=found.due_ms)
    if found.due_ms is None:
        return Restarts(AutoRestart.NOT_RESTARTED, count, most, None if found.no_help is None else str(found.no_help))
    return Restarts(AutoRestart.WAITING, count, most, due_ms=None if failed_ms is None else found.due_ms)


def keeps_failing(
    known: PartRestarts | None, settings: RestartSettings, now_ms: int, said: str | None
) -> TaskCondition | None:
    """The condition of a task that runs, if its last restarts did not help: it failed again, and has not yet run for
    as long as a pause before a restart may take. `said`: what it failed with last.
    """
    if known is None or known.count < _AGAIN or now_ms >= known.last_ms + settings.backoff_max_ms:
        return None
    cause = said or "it failed again after a restart"
    return TaskCondition(Condition.KEEPS_FAILING, known.last_ms, known.count, cause)


def name_of(subject: Subject) -> str:
    """The connector."""
    return subject.connector if isinstance(subject, TaskId) else subject


def part_of(subject: Subject) -> int:
    """Its number among the parts of its connector."""
    return subject.task if isinstance(subject, TaskId) else CONNECTOR_ITSELF


def _spread(pause_ms: int, subject: Subject, count: int) -> int:
    """Up to a fifth shorter or longer, always the same for one restart of one part: decisions can be replayed."""
    share = zlib.crc32(f"{subject} {count}".encode(errors="replace")) / 0xFFFFFFFF
    return int(pause_ms * (1 + _SPREAD * (2 * share - 1)))

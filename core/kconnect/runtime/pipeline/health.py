"""TaskHealth: turns events of a task's loop into its condition, and how far it lags. Pure: events carry their time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from kconnect.logs.wording import pluralize
from kconnect.model import Condition, TaskCondition

Call: TypeAlias = tuple[str, float]
"""A call of a plugin that has not returned: its name, such as `OrdersTask.poll()`, and when it began (s)."""

CONVERSION: Final = "The conversion of records"
"""The call of the transformations and converters of a task, which are many for one batch."""

# A call that gave nothing is a weak sign that all is well again: without records it takes so long without a failure.
_QUIET_S: Final = 5.0
# Two of a columnar sink's fetches (5,000): what lies between two looks at a busy topic is no lag.
_LEAST_BEHIND: Final = 10_000
# A client reports each 10 s: one that was held back no more since then says so by its next report.
_NEXT_REPORT_S: Final = 12.0
# Who exceeds its quota again within this time is still held back by it.
_SAME_QUOTA_S: Final = 60.0
_LEAST_THROTTLE_MS: Final = 100.0
# A quota that shapes a stream has its requests wait for parts of a second; who waits so long sees no ends of partitions
_LONG_THROTTLE_MS: Final = 5_000.0
# A source that waits for Kafka most of the time is held up by it.
_HELD_UP_SHARE: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthSettings:
    """When a task counts as stuck, lagging or late. Zero: never."""

    stuck_after_s: float = 60.0
    """kconnect.task.stuck.after.ms"""
    lagging_after_s: float = 60.0
    """kconnect.task.lagging.after.ms"""
    commit_late_after_s: float = 5.0
    """offset.flush.timeout.ms: a commit of offsets that has no answer for so long counts as not done."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that failed and is being retried."""

    since_s: float
    count: int
    """Failures since then."""
    cause: str
    well_since_s: float | None = None
    """It has not failed since, but has not moved any records either."""


class TaskHealth:
    """What has happened to a task, and its resulting condition. Times are seconds of a monotonic clock.

    The worst condition wins: stuck, retrying, not committing, lagging, healthy.
    Threads: each field is written by one thread, as said beside it, so no lock is needed: reading one as it was a
    moment ago does no harm. A call costs two attribute writes, for each batch: 0.1 us.
    """

    def __init__(self, settings: HealthSettings, now_s: float, epoch_offset_ms: float) -> None:
        """`epoch_offset_ms`: what turns the steady clock's ms into ms since 1970."""
        self.settings = settings
        self._epoch_offset_ms = epoch_offset_ms
        # The task's thread:
        self.call: Call | None = None
        self.behind = 0
        """Sink: records between its position and the ends of its partitions."""
        self.waiting_since_s: float | None = None
        """Source: since when it has been waiting for space in its producer."""
        self.waited_s = 0.0
        """Source: the total of all such waits that have ended."""
        self.failed_calls = 0
        """Calls that failed and were retried since the task started."""
        self._retry: Trouble | None = None
        # Whoever serves its client:
        self._throttled: tuple[float, float, float] | None = None  # since when, when last, and how long then (ms)
        # Whoever commits:
        self._commit: Trouble | None = None
        self._commit_began_s: float | None = None
        # Who looks:
        self._stuck: tuple[Call, str, str] | None = None
        self._growth = GrowthWatch(settings.lagging_after_s)
        self._waits = WaitWatch(settings.lagging_after_s, now_s)
        self._worst = Condition.HEALTHY
        self._healthy_since_s = now_s

    @property
    def is_failing(self) -> bool:
        """A call failed and is retried."""
        return self._retry is not None

    # --- events of the loop ---

    def failed(self, cause: str, now_s: float, *, is_call: bool = True) -> None:
        """A call failed and will be retried. `is_call`: a call of the task itself, which nobody else counts."""
        self.failed_calls += is_call
        self._retry = _failed(self._retry, cause, now_s)

    def went_well(self, now_s: float, *, moved: bool) -> Trouble | None:
        """The call that had failed succeeded; returns the trouble this ends. `moved`: records were moved."""
        trouble = self._retry
        if trouble is None:
            return None
        if not moved:
            if trouble.well_since_s is None:
                self._retry = replace(trouble, well_since_s=now_s)
                return None
            if now_s - trouble.well_since_s < _QUIET_S:
                return None
        self._retry = None
        return trouble

    def waited(self, now_s: float) -> None:
        """A wait for room in the producer is over."""
        since_s, self.waiting_since_s = self.waiting_since_s, None
        if since_s is not None:
            self.waited_s += now_s - since_s

    # --- events of its client ---

    def throttled(self, most_ms: float, now_s: float) -> None:
        """Quotas of brokers have had its client wait for so long at most, since its last report."""
        if most_ms >= _LEAST_THROTTLE_MS:
            known = self._throttled
            is_same = known is not None and now_s - known[1] <= max(_SAME_QUOTA_S, known[2] / 1000)
            self._throttled = (known[0] if known is not None and is_same else now_s, now_s, most_ms)

    # --- events of commits ---

    def commit_began(self, now_s: float) -> None:
        self._commit_began_s = now_s

    def commit_failed(self, cause: str, now_s: float) -> None:
        self._commit_began_s = None
        self._commit = _failed(self._commit, cause, now_s)

    def commit_done(self) -> Trouble | None:
        """Offsets are stored, or there were none; returns the trouble this ends."""
        trouble, self._commit, self._commit_began_s = self._commit, None, None
        return trouble

    # --- who looks ---

    def overdue(self, now_s: float) -> Call | None:
        """The call that is overdue, if there is one."""
        call, after_s = self.call, self.settings.stuck_after_s
        return call if call is not None and after_s and now_s - call[1] >= after_s else None

    def named(self, call: Call, cause: str, stack: str) -> None:
        """A call is overdue, and this is where it is."""
        self._stuck = (call, cause, stack)

    def look(self, now_s: float) -> TaskCondition:
        """The condition right now. Call it repeatedly: some conditions arise from time alone."""
        found = self._stuck_now() or self._retrying() or self._not_committing(now_s) or self._lagging(now_s)
        if found is not None:
            self._worst = found.condition
            return found
        if self._worst is not Condition.HEALTHY:
            self._worst, self._healthy_since_s = Condition.HEALTHY, now_s
        return TaskCondition(Condition.HEALTHY, self._ms(self._healthy_since_s))

    def _stuck_now(self) -> TaskCondition | None:
        if self._stuck is None or self._stuck[0] is not self.call:
            self._stuck = None
            return None
        (_, began_s), cause, stack = self._stuck
        return TaskCondition(Condition.STUCK, self._ms(began_s), 0, cause, stack)

    def _retrying(self) -> TaskCondition | None:
        trouble = self._retry
        if trouble is None:
            return None
        return TaskCondition(Condition.RETRYING, self._ms(trouble.since_s), trouble.count, trouble.cause)

    def _not_committing(self, now_s: float) -> TaskCondition | None:
        trouble, began_s = self._commit, self._commit_began_s
        if trouble is not None:
            return TaskCondition(Condition.NOT_COMMITTING, self._ms(trouble.since_s), trouble.count, trouble.cause)
        if began_s is None or now_s - began_s < self.settings.commit_late_after_s:
            return None
        cause = "Its offset commit has not been answered yet"
        return TaskCondition(Condition.NOT_COMMITTING, self._ms(began_s), 0, cause)

    def _lagging(self, now_s: float) -> TaskCondition | None:
        behind = self.behind
        grows_since_s = self._growth.look(now_s, behind)
        waits = self._waits.look(now_s, self.waited_s, self.waiting_since_s)
        if grows_since_s is not None:
            cause = f"It is {pluralize(behind, 'record')} behind the ends of its partitions and falling further behind"
            return TaskCondition(Condition.LAGGING, self._ms(grows_since_s), behind, cause + self._quota(now_s))
        if waits is not None:
            since_s, share = waits
            cause = (
                "Kafka accepts records more slowly than poll() returns them: "
                f"the task spends {share:.0%} of its time waiting for room in the producer's queue"
            )
            return TaskCondition(Condition.LAGGING, self._ms(since_s), 0, cause + self._quota(now_s))
        held, after_s = self._throttled_now(now_s), self.settings.lagging_after_s
        if held is not None and held[1] >= _LONG_THROTTLE_MS and after_s and now_s - held[0] >= after_s:
            return TaskCondition(Condition.LAGGING, self._ms(held[0]), 0, f"A{_held_back(held[1])}")
        return None

    def _quota(self, now_s: float) -> str:
        held = self._throttled_now(now_s)
        return "" if held is None else f"; a{_held_back(held[1])}"

    def _throttled_now(self, now_s: float) -> tuple[float, float] | None:
        """Since when quotas hold its client back, and for how long (ms) at most; None if they do not."""
        if self._throttled is None:
            return None
        since_s, at_s, most_ms = self._throttled
        return None if now_s - at_s > most_ms / 1000 + _NEXT_REPORT_S else (since_s, most_ms)

    def _ms(self, at_s: float) -> int:
        return int(at_s * 1000 + self._epoch_offset_ms)


def _held_back(most_ms: float) -> str:
    return f" quota of the brokers holds its client back, by up to {most_ms / 1000:.1f} s a request"


def _failed(before: Trouble | None, cause: str, now_s: float) -> Trouble:
    if before is None:
        return Trouble(now_s, 1, cause)
    return Trouble(before.since_s, before.count + 1, cause)


class GrowthWatch:
    """Whether a sink falls behind: more records before it than at any time in the last `after_s`, and growing.

    It begins when the number has been above its lowest for `after_s` and reached a new high meanwhile; it is over when
    no new high was reached for `after_s`, or the number is back at the low it grew from. So a sink that works off a
    large backlog is not lagging, one that moves as fast as records come neither. Zero: never.
    """

    def __init__(self, after_s: float) -> None:
        self._after_s = after_s
        self._low: tuple[float, int] | None = None  # when and what
        self._high = (0.0, 0)
        self._is_lagging = False

    def look(self, now_s: float, behind: int) -> float | None:
        """Since when it has been lagging (s); None when it is not."""
        if self._low is None or behind <= self._low[1]:
            self._low, self._high, self._is_lagging = (now_s, behind), (now_s, behind), False
            return None
        if behind > self._high[1]:
            self._high = (now_s, behind)
        elif now_s - self._high[0] >= self._after_s:
            self._low, self._high, self._is_lagging = (now_s, behind), (now_s, behind), False
            return None
        if self._after_s and now_s - self._low[0] >= self._after_s and behind - self._low[1] >= _LEAST_BEHIND:
            self._is_lagging = True
        return self._low[0] if self._is_lagging else None


class WaitWatch:
    """Whether a source is held up: it waited for producer space for half of the last `after_s`. Zero: never."""

    def __init__(self, after_s: float, now_s: float) -> None:
        self._after_s = after_s
        self._window = (now_s, 0.0)  # when it began, and how much had been waited by then
        self._since_s: float | None = None
        self._share = 0.0

    def look(self, now_s: float, waited_s: float, waiting_since_s: float | None) -> tuple[float, float] | None:
        """Since when it has been held up (s), and for what share of the last window; None when it is not."""
        began_s, before_s = self._window
        passed_s = now_s - began_s
        if self._after_s and passed_s >= self._after_s:
            total_s = waited_s + (now_s - waiting_since_s if waiting_since_s is not None else 0.0)
            self._share = min((total_s - before_s) / passed_s, 1.0)
            self._window = (now_s, total_s)
            if self._share < _HELD_UP_SHARE:
                self._since_s = None
            elif self._since_s is None:
                self._since_s = began_s
        return None if self._since_s is None else (self._since_s, self._share)

"""The JSON documents of webhooks. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kconnect.client.outage import Outage
from kconnect.clock import moment
from kconnect.logs.redaction import redact
from kconnect.logs.wording import pluralize
from kconnect.model import TaskId
from kconnect.runtime.herder.decisions.auto_restarts import Notice, NoticeKind, name_of
from kconnect.runtime.herder.decisions.notice_texts import notice_text

if TYPE_CHECKING:
    from kconnect.runtime.herder.decisions.rebalances import Rebalance

_EVENTS = {NoticeKind.FAILED: "failed", NoticeKind.RECOVERED: "recovered", NoticeKind.GIVEN_UP: "given-up"}


@dataclass(frozen=True, slots=True)
class Document:
    """One event: `body` gets its id, time and cluster when it is sent."""

    event: str
    message: str
    connector: str | None = None
    task: int | None = None
    details: Mapping[str, Any] | None = None


def of_notice(notice: Notice) -> Document:
    """`failed`, `recovered`, `given-up`."""
    subject = notice.subject
    details: dict[str, Any] = {"restarts": notice.restarts}
    if notice.kind is not NoticeKind.RECOVERED:
        details |= {
            "failed_on": notice.worker_id,
            "cause": notice.said,
            "max_restarts": notice.most,
            "restart_in_ms": notice.restart_in_ms,
            "why_not_restarted": None if notice.no_help is None else str(notice.no_help),
        }
    task = subject.task if isinstance(subject, TaskId) else None
    return Document(_EVENTS[notice.kind], notice_text(notice), name_of(subject), task, details)


def of_rebalance(rebalance: Rebalance) -> Document:
    """`rebalance`: a round that this worker led."""
    took_ms = max(0, rebalance.ended_ms - rebalance.began_ms)
    details: dict[str, Any] = {"generation": rebalance.generation, "why": rebalance.why, "took_ms": took_ms}
    if rebalance.round is not None:
        details |= {
            "members": list(rebalance.round.members),
            "joined": list(rebalance.round.joined),
            "left": list(rebalance.round.left),
        }
    return Document("rebalance", f"The group has rebalanced: {rebalance.why}", details=details)


def of_lag(connector: str, lag: int, above: int, *, is_over: bool) -> Document:
    """`lag`: a sink is further behind than it may be, or no longer."""
    what = "is no longer" if is_over else "is"
    message = f"Connector {connector} {what} more than {pluralize(above, 'record')} behind: {lag:,} now"
    return Document("lag", message, connector, details={"lag": lag, "above": above, "is_over": is_over})


def of_outage(outage: Outage, *, is_over: bool) -> Document:
    """`outage`: Kafka does not answer this worker, or answers again."""
    message = f"Kafka answers again, after {outage.lasted_s:.0f} s" if is_over else outage.sentence()
    details = {"servers": outage.servers, "problem": outage.problem, "lasted_s": outage.lasted_s, "is_over": is_over}
    return Document("outage", message, details=details)


def body_of(document: Document, *, worker_id: str, group_id: str | None, now_ms: int) -> dict[str, Any]:
    """All that is sent, without known secrets: a cause is what a plugin said."""
    return {
        "id": str(uuid.uuid4()),
        "event": document.event,
        "time": moment(now_ms),
        "time_ms": now_ms,
        "group_id": group_id,
        "worker_id": worker_id,
        "connector": document.connector,
        "task": document.task,
        "message": redact(document.message),
        "details": {
            key: redact(value) if isinstance(value, str) else value for key, value in (document.details or {}).items()
        },
    }

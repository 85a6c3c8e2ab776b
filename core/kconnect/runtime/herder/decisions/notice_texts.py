"""Sentences about connectors and tasks that fail, recover or are given up: for the log and for every screen."""

from __future__ import annotations

import logging
import re
from typing import Final

from kconnect.logs.wording import pluralize
from kconnect.model import AutoRestart, Restarts, TaskId
from kconnect.runtime.health.views import restarts_text
from kconnect.runtime.herder.decisions.auto_restarts import Notice, NoticeKind

# A sink may have written some of the records that it is given again
_IN_A_SINK: Final = re.compile(r"\.(?:put|put_batch|flush|pre_commit)\(\) raised ")


def level_of(notice: Notice) -> int:
    """The log level."""
    if notice.kind is NoticeKind.RECOVERED:
        return logging.INFO
    return logging.ERROR if notice.restart_in_ms is None or notice.kind is NoticeKind.GIVEN_UP else logging.WARNING


def notice_text(notice: Notice) -> str:
    """What has happened, and what happens next."""
    what = f"{'Task' if isinstance(notice.subject, TaskId) else 'Connector'} {notice.subject}"
    restarts = pluralize(notice.restarts, "automatic restart")
    if notice.kind is NoticeKind.RECOVERED:
        return f"{what} runs again{f', after {restarts}' if notice.restarts else ''}"
    state = AutoRestart.WAITING if notice.restart_in_ms is not None else AutoRestart.NOT_RESTARTED
    state = AutoRestart.GIVEN_UP if notice.kind is NoticeKind.GIVEN_UP else state
    why = None if notice.no_help is None else str(notice.no_help)
    reported = restarts_text(Restarts(state, notice.restarts, notice.most, why, notice.restart_in_ms), 0)
    if state is AutoRestart.WAITING and _IN_A_SINK.search(notice.said):
        reported += ", which puts again what came since its last commit (with errors.restart.max=0 it stays FAILED)"
    return f"{what} is FAILED on {notice.worker_id}, {reported}: {notice.said}"

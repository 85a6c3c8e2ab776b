"""Sentences about connectors and tasks that fail, are mended or are given up: for the log and for every screen."""

from __future__ import annotations

import logging

from kconnect.logs.wording import counted
from kconnect.model import TaskId
from kconnect.runtime.herder.decisions.mending import Notice, NoticeKind


def level_of(notice: Notice) -> int:
    """The log level."""
    if notice.kind is NoticeKind.MENDED:
        return logging.INFO
    return logging.ERROR if notice.restart_in_ms is None or notice.kind is NoticeKind.GIVEN_UP else logging.WARNING


def notice_text(notice: Notice) -> str:
    """What has happened, and what happens next."""
    what = f"{'Task' if isinstance(notice.subject, TaskId) else 'Connector'} {notice.subject}"
    restarts = counted(notice.restarts, "automatic restart")
    if notice.kind is NoticeKind.MENDED:
        return f"{what} runs again{f', after {restarts}' if notice.restarts else ''}"
    if notice.kind is NoticeKind.GIVEN_UP:
        given_up = f"given up after {counted(notice.restarts, 'restart')}{_refill(notice)}"
        return f"{what} is FAILED on {notice.worker_id}, {given_up}: {notice.said}"
    return f"{what} is FAILED on {notice.worker_id}, {_next(notice)}: {notice.said}"


def _next(notice: Notice) -> str:
    if notice.no_help is not None:
        return f"not restarted because {notice.no_help}"
    if notice.restart_in_ms is None:
        return "not restarted"
    return f"restart {notice.restarts + 1} of {notice.most} in {_seconds(notice.restart_in_ms)}"


def _refill(notice: Notice) -> str:
    if notice.restart_in_ms is None:
        return ""
    return f" (tried again in {_seconds(notice.restart_in_ms)})"


def _seconds(ms: int) -> str:
    seconds = ms / 1000
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min"

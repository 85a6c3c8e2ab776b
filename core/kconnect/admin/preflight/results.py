"""What the probes of a start tell: pure data, its order, its JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    """The worker starts, but someone should look."""
    FAILED = "failed"
    """The worker does not start, or its tasks cannot run."""
    UNKNOWN = "not checked"
    """It cannot be known, because an earlier check failed or because rights are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One finding of one check."""

    check: str
    """What was looked at, in a word or two: `broker`, `topic`, `java`."""
    verdict: Verdict
    where: str
    """A file, an address, a topic, a setting."""
    message: str
    hint: str | None = None
    """What to do about it."""
    clients: str = ""
    """Which of the worker's Kafka clients it is about: `worker, admin`; empty for all or none."""

    def to_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "result": str(self.verdict),
            "where": self.where,
            "clients": self.clients.split(", ") if self.clients else [],
            "message": self.message,
            "hint": self.hint,
        }


def has_failed(results: Iterable[Result]) -> bool:
    """Whether the worker could not start."""
    return any(result.verdict is Verdict.FAILED for result in results)


def verdict_counts(results: Iterable[Result]) -> dict[str, int]:
    """How many results of each verdict, zeros included."""
    counts = {str(verdict): 0 for verdict in Verdict}
    for result in results:
        counts[result.verdict] += 1
    return counts


def settled(results: Sequence[Result]) -> list[Result]:
    """All results, in their order, each reported once; a bootstrap address that is away is a warning while another
    answers.

    A client needs one of the addresses to start, and hears of all brokers from that one.
    """
    answering = {result.clients for result in results if result.check == "broker" and result.verdict is Verdict.OK}
    found = [
        replace(result, verdict=Verdict.WARNING, message=f"{result.message}; another address answers")
        if result.check == "broker" and result.verdict is Verdict.FAILED and result.clients in answering
        else result
        for result in results
    ]
    return list(dict.fromkeys(found))

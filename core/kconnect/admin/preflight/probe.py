"""Probe: one look at something outside; `run` has all look at once, each until its deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from kconnect.admin.preflight.results import Result, Verdict
from kconnect.errors import ConnectError
from kconnect.logs.redaction import redact


@dataclass(frozen=True, slots=True)
class Probe:
    """`look` gets the seconds it has, and gives results one by one: those it gave before a deadline count."""

    check: str
    where: str
    look: Callable[[float], Iterable[Result]]
    clients: str = ""
    slow: str = "Is a name server, a file system or a firewall in between slow?"
    """What may be the reason where nothing answers in time, as a question."""

    def failed(self, message: str, hint: str | None = None) -> Result:
        return Result(
            check=self.check,
            verdict=Verdict.FAILED,
            where=self.where,
            message=message.rstrip("."),
            hint=hint,
            clients=self.clients,
        )


class _Looking:
    """A probe at work on a thread of its own. Threads: `results` is appended to by one, copied by another."""

    def __init__(self, probe: Probe, within_s: float) -> None:
        self._probe = probe
        self._within_s = within_s
        self._results: list[Result] = []
        # A look-up of a name cannot be interrupted: such a thread must not keep the process
        self._thread = threading.Thread(target=self._run, name=f"check-{probe.check}", daemon=True)
        self._thread.start()

    def results(self, deadline: float) -> list[Result]:
        self._thread.join(max(0.0, deadline - time.monotonic()))
        found = list(self._results)
        if self._thread.is_alive():
            found.append(
                self._probe.failed(
                    f"no answer within {round(self._within_s, 1):g} s", f"{self._probe.slow} --timeout gives more time."
                )
            )
        return found

    def _run(self) -> None:
        try:
            for result in self._probe.look(self._within_s):
                self._results.append(result)
        except ConnectError as err:
            self._results.append(self._probe.failed(str(err), err.hint))
        except Exception as err:  # top of a thread: what it looked at may be a plugin or a broken file
            self._results.append(self._probe.failed(f"{type(err).__name__}: {err}"))


def run(probes: Sequence[Probe], within_s: float) -> list[Result]:
    """The results of all probes in their order; secrets in them are masked. Takes `within_s` at most."""
    deadline = time.monotonic() + within_s
    looking = [_Looking(probe, within_s) for probe in probes]
    return [_masked(result) for one in looking for result in one.results(deadline)]


def _masked(result: Result) -> Result:
    return replace(result, message=redact(result.message), hint=result.hint and redact(result.hint))

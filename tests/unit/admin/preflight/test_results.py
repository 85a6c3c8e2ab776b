"""What `connect check` makes of what its probes tell: order, deadlines, verdicts. No network."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

from kconnect.admin.preflight.probe import Probe, run
from kconnect.admin.preflight.results import Result, Verdict, has_failed, settled, verdict_counts
from kconnect.errors import ConfigError
from kconnect.logs import redaction
from kit.pace import ample_s


def result(where: str, verdict: Verdict = Verdict.OK, clients: str = "", check: str = "broker") -> Result:
    return Result(check=check, verdict=verdict, where=where, message="m", clients=clients)


def test_probes_run_side_by_side_and_their_results_keep_the_order_of_the_probes() -> None:
    meet = threading.Barrier(3)

    def look(name: str) -> Iterator[Result]:
        meet.wait(10)  # passes only if all three look at the same time
        yield result(name)

    found = run([Probe("x", name, lambda _, name=name: look(name)) for name in "abc"], 20)
    assert [one.where for one in found] == ["a", "b", "c"]


def test_a_probe_that_hangs_is_reported_at_the_deadline_with_what_it_had_found() -> None:
    let_go = threading.Event()

    def hangs(_within_s: float) -> Iterator[Result]:
        yield result("first")
        let_go.wait(60)

    within_s = ample_s(0.1)
    began = time.monotonic()
    found = run([Probe("disk", "/slow", hangs), Probe("x", "quick", lambda _: [result("quick")])], within_s)
    took_s = time.monotonic() - began
    let_go.set()
    assert [(one.where, one.verdict) for one in found] == [
        ("first", Verdict.OK),
        ("/slow", Verdict.FAILED),
        ("quick", Verdict.OK),
    ]
    assert found[1].message == f"no answer within {round(within_s, 1):g} s"
    assert took_s < 30


def test_an_error_is_a_result_with_its_hint_and_without_secrets() -> None:
    def fails(_within_s: float) -> Iterator[Result]:
        raise ConfigError("The password hunter2hunter2 is wrong.", hint="Not hunter2hunter2")

    def breaks(_within_s: float) -> Iterator[Result]:
        raise RuntimeError("boom")

    redaction.remember("test", ["hunter2hunter2"])
    try:
        first, second = run([Probe("a", "here", fails, "admin"), Probe("b", "there", breaks)], 5)
    finally:
        redaction.forget("test")
    assert (first.message, first.hint, first.clients) == ("The password [hidden] is wrong", "Not [hidden]", "admin")
    assert (second.verdict, second.message) == (Verdict.FAILED, "RuntimeError: boom")


def test_one_bootstrap_address_is_enough_for_the_clients_that_share_it() -> None:
    found = settled(
        [
            result("a:1", Verdict.FAILED, "worker"),
            result("b:1", Verdict.OK, "worker"),
            result("a:1", Verdict.FAILED, "producer"),
        ]
    )
    assert [one.verdict for one in found] == [Verdict.WARNING, Verdict.OK, Verdict.FAILED]
    assert found[0].message == "m; another address answers"
    assert has_failed(found)
    assert verdict_counts(found) == {"ok": 1, "warning": 1, "failed": 1, "not checked": 0}


def test_a_broker_that_two_addresses_tell_of_is_reported_once() -> None:
    same = result("c:1", Verdict.FAILED, "worker", check="advertised broker")
    assert settled([same, result("b:1"), same]) == [same, result("b:1")]

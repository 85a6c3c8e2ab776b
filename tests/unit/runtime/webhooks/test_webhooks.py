"""Webhooks against a real HTTP server: signed, sent again, dropped, and never in anybody's way."""

from __future__ import annotations

import hashlib
import hmac
import logging
import time

import pytest

from kconnect.client.outage import Outage
from kconnect.errors import ConfigError
from kconnect.model import TaskId
from kconnect.runtime.config.former_names import FORMER_EVENTS
from kconnect.runtime.config.worker_config import KConnectSettings
from kconnect.runtime.herder.decisions.auto_restarts import Notice, NoticeKind
from kconnect.runtime.herder.decisions.failures import NoHelp
from kconnect.runtime.herder.decisions.rebalances import Rebalance
from kconnect.runtime.webhooks.documents import of_notice
from kconnect.runtime.webhooks.sender import WebhookSender, WebhookSettings
from kconnect.runtime.webhooks.worker_webhooks import EventFinder, Sights
from kit.pace import now
from kit.waiting import eventually
from kit.webhook_target import webhook_target

SECRET = "correct horse battery staple"
NOTICE = Notice(NoticeKind.FAILED, TaskId("orders", 0), "w:8083", "it burnt", 1, 5, 20_000)
EVENTS = frozenset({"failed", "recovered", "given-up", "rebalance", "lag", "outage"})


class Quick:
    """A clock whose pauses take no time."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def time_ms(self) -> int:
        return 1_700_000_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, event, timeout_s: float) -> bool:
        self.pauses.append(timeout_s)
        return event.wait(min(timeout_s, 0.005))


def sender(url: str, clock: Quick | None = None, **more) -> WebhookSender:
    settings = WebhookSettings(url=url, **{"secret": SECRET, "events": EVENTS, "timeout_s": 30.0, **more})
    made = WebhookSender(settings, lambda: ("w:8083", "g"), clock or Quick())
    made.start()
    return made


def test_a_failure_is_posted_signed_and_with_all_that_is_known_of_it() -> None:
    with webhook_target() as target:
        hook = sender(target.url)
        hook.send(of_notice(NOTICE))
        eventually(lambda: hook.document()["delivered"] == 1, 5, "")
        hook.stop(1)
    headers, body = target.requests[0]
    expected = hmac.new(SECRET.encode(), b"1700000000." + body, hashlib.sha256).hexdigest()
    assert headers["x-kconnect-signature"] == f"sha256={expected}"
    assert (headers["x-kconnect-timestamp"], headers["x-kconnect-event"]) == ("1700000000", "failed")
    sent = target.bodies[0]
    assert headers["x-kconnect-delivery"] == sent.pop("id")
    assert sent == {
        "event": "failed",
        "time": "2023-11-14T22:13:20.000Z",
        "time_ms": 1_700_000_000_000,
        "group_id": "g",
        "worker_id": "w:8083",
        "connector": "orders",
        "task": 0,
        "message": "Task orders-0 is FAILED on w:8083, restart 2 of 5 in 20 s: it burnt",
        "details": {
            "restarts": 1,
            "failed_on": "w:8083",
            "cause": "it burnt",
            "max_restarts": 5,
            "restart_in_ms": 20_000,
            "why_not_restarted": None,
        },
    }


def test_what_is_not_taken_is_sent_again_with_the_same_id_after_longer_and_longer_pauses() -> None:
    clock = Quick()
    with webhook_target() as target:
        target.answers = [500, 503, 429]
        hook = sender(target.url, clock)
        hook.send(of_notice(NOTICE))
        eventually(lambda: hook.document()["delivered"] == 1, 5, "")
        hook.stop(1)
    assert len({body["id"] for body in target.bodies}) == 1
    assert len(target.bodies) == 4
    assert len(clock.pauses) == 3
    assert all(0.8 * wanted <= pause <= 1.2 * wanted for pause, wanted in zip(clock.pauses, (1, 2, 4), strict=True))
    assert hook.document()["failed_attempts"] == 3
    assert hook.document()["problem"] is None


@pytest.mark.parametrize(("status", "attempts"), [(500, 3), (404, 1), (302, 1)])
def test_what_is_refused_is_dropped_and_counted(status: int, attempts: int, caplog: pytest.LogCaptureFixture) -> None:
    with webhook_target() as target:
        target.answers = [status] * 10
        hook = sender(target.url, retries=2)
        hook.send(of_notice(NOTICE))
        eventually(lambda: hook.document()["dropped"] == 1, 5, "")
        hook.stop(1)
    assert len(target.requests) == attempts
    assert hook.document()["problem"] == f"answered {status}"
    assert "the event failed is dropped" in caplog.text
    readings = {reading.metric.name: reading.value for reading in hook.readings()}
    assert readings == {
        "delivered-total": 0,
        "failed-attempts-total": attempts,
        "dropped-total": 1,
        "waiting": 0,
        "failing": 1,
    }


@pytest.mark.parametrize("how", ["hang", "drip"])
def test_a_target_that_hangs_holds_up_nobody_and_is_cut_off(how: str) -> None:
    with webhook_target() as target:
        if how == "hang":
            target.hang.set()
        target.drip = how == "drip"
        hook = sender(target.url, retries=0, queue_size=3, timeout_s=0.3, connect_timeout_s=0.3)
        began = now()
        for _ in range(10):
            hook.send(of_notice(NOTICE))
        assert now() - began < 2, "ten that were waited for would take three seconds"
        eventually(lambda: hook.document()["failed_attempts"] >= 1, 5, "its deadline")
        assert "did not" in str(hook.document()["problem"])
        assert hook.document()["dropped"] >= 6
        began = now()
        hook.stop(0.1)
        assert now() - began < 1.5
        eventually(lambda: not hook._thread.is_alive(), 5, "its thread has ended")


def test_nothing_secret_is_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with webhook_target() as target:
        target.answers = [500] * 3
        hook = sender(target.url, retries=1)
        hook.send(of_notice(NOTICE))
        eventually(lambda: hook.document()["dropped"] == 1, 5, "")
        hook.stop(1)
        shown = f"{hook.document()} {caplog.text} {hook._settings!r} {hook.readings()}"
    for secret in (SECRET, "t0ken", "v4lue"):
        assert secret not in shown
    hook = sender("http://127.0.0.1:1/t0ken", retries=0)
    hook.send(of_notice(NOTICE))
    eventually(lambda: hook.document()["dropped"] == 1, 5, "")
    hook.stop(1)
    assert "Nobody answers at http://127.0.0.1:1 (connection refused)" in hook.document()["problem"]
    with pytest.raises(ConfigError) as raised:
        sender("ftp://t0ken")
    assert "t0ken" not in str(raised.value)


def test_only_the_events_that_are_wanted_are_sent() -> None:
    with webhook_target() as target:
        hook = sender(target.url, events=frozenset({"recovered"}))
        hook.send(of_notice(NOTICE))
        hook.send(of_notice(Notice(NoticeKind.RECOVERED, "orders", "", restarts=2)))
        eventually(lambda: hook.document()["delivered"] == 1, 5, "")
        hook.stop(1)
    assert [body["message"] for body in target.bodies] == ["Connector orders runs again, after 2 automatic restarts"]
    assert target.bodies[0]["task"] is None
    barred = of_notice(Notice(NoticeKind.FAILED, "orders", "w", "no", 0, 5, None, NoHelp.RIGHTS))
    assert barred.details is not None
    assert barred.details["why_not_restarted"] == "it is not authorized"


def rebalance(generation: int, *, is_leader: bool = True) -> Rebalance:
    return Rebalance(
        generation=generation,
        began_ms=1_000,
        ended_ms=1_250,
        why="a worker left",
        is_leader=is_leader,
        leader_url="http://w:8083/",
        connectors_added=0,
        connectors_revoked=0,
        tasks_added=0,
        tasks_revoked=0,
        delay_ms=0,
    )


class World:
    """What a watch looks at."""

    def __init__(self) -> None:
        self.leads, self.rounds, self.outage = True, [rebalance(1)], None
        self.lags: dict[str, int] = {}
        self.finder = EventFinder(
            Sights(
                is_leader=lambda: self.leads,
                rebalances=lambda: self.rounds,
                outage=lambda: self.outage,
                lags=lambda: self.lags,
                bound=lambda name: 100 if name == "sink" else None,
            )
        )
        assert self.look() == []

    def look(self) -> list[tuple[str, object]]:
        return [(found.event, (found.details or {}).get("is_over")) for found in self.finder.look()]


def test_rebalances_are_reported_by_the_leader_alone_and_once() -> None:
    world = World()
    world.rounds += [rebalance(2), rebalance(3, is_leader=False)]
    assert world.look() == [("rebalance", None)]
    assert world.look() == []
    world.rounds = [rebalance(1)]
    assert world.look() == [("rebalance", None)], "a group that began again counts from 1"


def test_rebalances_of_a_group_that_began_again_are_reported_once_though_those_of_before_are_still_kept() -> None:
    world = World()
    world.rounds += [rebalance(2), rebalance(3)]
    assert world.look() == [("rebalance", None)] * 2
    for generation in (1, 2):
        world.rounds.append(rebalance(generation))
        assert world.look() == [("rebalance", None)]
        assert world.look() == []
    world.rounds = world.rounds[-1:]
    assert world.look() == [], "those of before are kept no longer"


def test_two_rounds_of_a_group_that_began_again_between_two_looks_are_both_reported() -> None:
    world = World()
    world.rounds += [rebalance(2), rebalance(3)]
    world.look()
    world.rounds += [rebalance(1), rebalance(2)]
    assert world.look() == [("rebalance", None)] * 2
    assert world.look() == []


def test_an_outage_is_reported_when_it_begins_and_ends_by_the_worker_that_led() -> None:
    for leads in (True, False):
        world = World()
        world.leads = leads
        world.look()
        world.outage, world.leads = Outage(1_000, 3.0, "b:9092", "refused", 1), False
        assert world.look() == ([("outage", False)] if leads else [])
        assert world.look() == []
        world.outage = None
        assert world.look() == ([("outage", True)] if leads else [])


def test_lag_is_reported_above_the_bound_and_again_below_half_of_it() -> None:
    world = World()
    seen = []
    for lag in (100, 101, 500, 60, 101, 50, 20):
        world.lags = {"sink": lag, "unbounded": 10_000}
        seen.append(world.look())
    assert seen == [[], [("lag", False)], [], [], [], [("lag", True)], []]
    world.lags = {"sink": 200}
    assert world.look() == [("lag", False)]
    world.lags = {}
    assert world.look() == [], "it is not known"
    world.lags = {"sink": 200}
    assert world.look() == [], "it was reported"


def test_lag_is_reported_by_the_leader_alone_and_by_the_next_one_again() -> None:
    world = World()
    world.leads, world.lags = False, {"sink": 200}
    assert world.look() == []
    world.leads = True
    assert world.look() == [("lag", False)]
    world.leads = False
    assert world.look() == []
    world.leads = True
    assert world.look() == [("lag", False)]


def test_events_may_have_their_former_names_and_an_unknown_one_is_refused() -> None:
    def events(names: str) -> frozenset[str]:
        url = {"kconnect.webhook.url": "http://127.0.0.1:1/hook"}
        found = WebhookSettings.of_worker(KConnectSettings.parse({**url, "kconnect.webhook.events": names}))
        assert found is not None
        return found.events

    former = next(iter(FORMER_EVENTS))
    assert events(f"failed,{former}") == events("failed,recovered") == {"failed", "recovered"}
    with pytest.raises(
        ConfigError, match=r"Invalid value fail for configuration kconnect\.webhook\.events: .*must be one of"
    ):
        events("fail")

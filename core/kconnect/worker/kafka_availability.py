"""Whether Kafka answers a worker: a check before Spark starts, the cluster id meanwhile, monitoring ever after."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kconnect.errors import ConnectError, RetriableError, TimedOutError, UnreachableError
from kconnect.logs.redaction import redact
from kconnect.runtime.config.addresses import parse_servers
from kconnect.runtime.config.client_config import admin_config, admin_settings
from kconnect.runtime.config.reach import reach_any
from kconnect.runtime.config.worker_config import WorkerConfig
from kconnect.runtime.herder.health.kafka_contact import KafkaContact, KafkaWatch, Probe
from kconnect.runtime.herder.health.reasons import Health, Reason

if TYPE_CHECKING:
    from kconnect.runtime.herder.group.security import Access
    from kconnect.runtime.kafka.admin import KafkaAdmin

log = logging.getLogger(__name__)

# One attempt to reach the broker; librdkafka connects in some 10 ms where one listens
_TRY_S = 1.0
# Between two attempts; also how soon a stop is noticed
_PAUSE_S = 0.25
# How long Spark waits for the first check, and how long that may go on. Where a broker listens it takes 1 ms
_LOOK_S, _LONGEST_LOOK_S = 0.2, 2.0


class KafkaAvailability:
    """States: new -> look() -> find_cluster() -> watch() -> stop(). Threads: the worker's own; `contact` from any."""

    def __init__(self, props: Mapping[str, str], config: WorkerConfig, file: Path | None, health: Health) -> None:
        self._props = props
        self._timeout_s = config.kconnect.bootstrap_timeout_ms / 1000
        self._file = file
        self._health = health
        self._look: threading.Thread | None = None
        self._watch: KafkaWatch | None = None
        self._watch_end_s = 0.0
        self.contact = KafkaContact(props["bootstrap.servers"])

    def look(self) -> None:
        """Warn before Spark starts, which takes seconds, if no broker accepts connections.

        Where the network is slow to answer, Spark starts meanwhile, and the warning follows.
        """
        servers = parse_servers(self.contact.servers)

        def run() -> None:
            found = reach_any(servers, min(self._timeout_s, _LONGEST_LOOK_S))
            if found.address is None and math.isinf(self.contact.since_answer_s()):
                self._warn_unavailable(found.sentence())

        self._look = threading.Thread(target=run, name="kafka-look", daemon=True)
        self._look.start()
        self._look.join(_LOOK_S)

    def find_cluster(self, stop: threading.Event, raise_if_failed: Callable[[], None]) -> str:
        """The id of the Kafka cluster.

        Errors: UnreachableError after kconnect.bootstrap.timeout.ms, ConnectError when the worker is stopped meanwhile;
        whatever `raise_if_failed` raises.
        """
        with self._health.starting(f"Waiting for Kafka at {self.contact.servers}"):
            from kconnect.runtime.kafka.admin import KafkaAdmin  # here: it loads while Spark's JVM starts

            settings, warnings = admin_config(self._props, client_id="worker-admin")
            for warning in warnings:
                log.warning("%s", warning)
            deadline = time.monotonic() + self._timeout_s
            with KafkaAdmin(settings, "worker") as admin:
                while (found := self._asked(admin, deadline)) is None:
                    raise_if_failed()
                    if stop.wait(_PAUSE_S):
                        raise ConnectError("The worker was stopped while it waited for the broker")
        return found

    def watch(
        self,
        interval_s: float,
        *,
        heard_at_s: Callable[[], float | None],
        what_happens: str,
        has_started: Callable[[], bool],
        look: Callable[[], None] = lambda: None,
    ) -> None:
        """Monitor from now on whether Kafka answers, and report it in the log and in the worker's health.

        `look`: as of `KafkaWatch`.
        """

        def probe() -> Probe:
            from kconnect.runtime.herder.group.connection import BrokerProbe

            return BrokerProbe(self._access())

        def away() -> Iterator[Reason]:
            if (outage := self.contact.outage) is not None:
                sentence = f"{outage.sentence()}; the worker keeps trying"
                yield Reason(sentence, outage.since_ms, is_starting=not has_started())

        self._watch_end_s = interval_s
        self._watch = KafkaWatch(
            self.contact, probe, interval_s=interval_s, heard_at_s=heard_at_s, what_happens=what_happens, look=look
        )
        self._watch.start()
        self._health.add_source(away)

    def stop(self) -> None:
        """Idempotent."""
        if self._look is not None:
            self._look.join(_LONGEST_LOOK_S)
        if self._watch is not None:
            self._watch.stop(self._watch_end_s)

    def _asked(self, admin: KafkaAdmin, deadline: float) -> str | None:
        """One attempt: the cluster id, or None while there is time left."""
        servers = self.contact.servers
        try:
            found = admin.cluster_id(min(_TRY_S, self._timeout_s))
        except (UnreachableError, TimedOutError, RetriableError) as err:
            problem = self._why_unanswered(err)
            if time.monotonic() >= deadline:
                raise UnreachableError(
                    f"No Kafka broker answers at bootstrap.servers={servers} within {self._timeout_s:g} s ({problem})",
                    hint=f"Start the broker or correct bootstrap.servers in {self._file or 'the settings'}; "
                    "kconnect.bootstrap.timeout.ms is how long a worker waits for it.",
                ) from err
            self._warn_unavailable(problem)
            return None
        if (back := self.contact.answered()) is not None:
            log.info("Kafka answers at bootstrap.servers=%s, after %.1f s", servers, back.outage.lasted_s)
        return found

    def _why_unanswered(self, err: ConnectError) -> str:
        """What a connection of our own meets, as that says more than the client, such as of another protocol."""
        from kconnect.runtime.herder.group.connection import BrokerProbe

        reached = reach_any(parse_servers(self.contact.servers), _LOOK_S)
        if reached.address is None:
            return reached.sentence()
        try:
            probe = BrokerProbe(self._access())
            probe.ask(_TRY_S)
        except ConnectError as why:
            return str(why)
        probe.close()
        return str(err)

    def _access(self) -> Access:
        from kconnect.runtime.herder.group.security import access_now

        return access_now(lambda: admin_settings(self._props, {}, client_id="watch"), "worker-watch")

    def _warn_unavailable(self, problem: str) -> None:
        """Warn once, however many attempts fail."""
        if self.contact.silent(redact(problem)) is not None:
            log.warning(
                "No Kafka broker answers at bootstrap.servers=%s (%s). The worker keeps trying for %g s "
                "(kconnect.bootstrap.timeout.ms)",
                self.contact.servers,
                problem,
                self._timeout_s,
            )

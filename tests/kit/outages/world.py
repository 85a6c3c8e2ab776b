"""What outages happen to: a broker, two workers of a cluster and a standalone one, with numbers that stream through."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from kit.brokers import PatientBroker
from kit.chaos.cluster import SINK, SOURCE, TOPIC, ChaosCluster, Shape
from kit.chaos.service import Service
from kit.outages.flow import Flow, Task
from kit.ports import free_port
from kit.relay import Relay
from kit.standalone import STRING_CONVERTERS
from kit.topics import create_topic

__all__ = ["ALONE", "HEARTBEAT_S", "SESSION_S", "SLOT_TIMEOUT_S", "World"]

ALONE, ALONE_TOPIC = "alone-source", "alone-numbers"
HEARTBEAT_S, SESSION_S, SLOT_TIMEOUT_S = 2.0, 6.0, 4.0
RATE = 50
_TASKS = 2
_WORKERS = 2
_SLOTS = {
    "kconnect.slots": "1",
    "kconnect.slot.heartbeat.timeout.ms": f"{SLOT_TIMEOUT_S * 1000:.0f}",
}
_GROUP = {
    "heartbeat.interval.ms": f"{HEARTBEAT_S * 1000:.0f}",
    "session.timeout.ms": f"{SESSION_S * 1000:.0f}",
    "scheduled.rebalance.max.delay.ms": "2000",
    # Of a sink's group: a task that was killed is missed as soon as a worker
    "consumer.session.timeout.ms": f"{SESSION_S * 1000:.0f}",
    "consumer.heartbeat.interval.ms": f"{HEARTBEAT_S * 1000:.0f}",
}
_ALONE = {"kconnect.kafka.heartbeat.interval.ms": f"{HEARTBEAT_S * 1000:.0f}"}


def _broker_behind(relays: Sequence[Relay], folder: Path) -> PatientBroker:
    """A broker with a listener for each relay, which it advertises as the end of the relay."""
    at, plain, controller = "127.0.0.1", free_port(), free_port()
    listens, tells, kinds = [f"PLAINTEXT://{at}:{plain}"], [f"PLAINTEXT://{at}:{plain}"], ["PLAINTEXT:PLAINTEXT"]
    for number, relay in enumerate(relays):
        relay.target_port = free_port()
        listens.append(f"BEHIND{number}://{at}:{relay.target_port}")
        tells.append(f"BEHIND{number}://{at}:{relay.port}")
        kinds.append(f"BEHIND{number}:PLAINTEXT")
    settings = {
        "controller.quorum.voters": f"1@{at}:{controller}",
        "listeners": ",".join([*listens, f"CONTROLLER://{at}:{controller}"]),
        "advertised.listeners": ",".join(tells),
        "listener.security.protocol.map": ",".join([*kinds, "CONTROLLER:PLAINTEXT"]),
    }
    return PatientBroker(plain, folder, settings=settings)


class World(ChaosCluster):
    """A chaos cluster of two workers with a standalone worker beside it.

    What each worker of the cluster and its slots say to the broker, and what the other says to it, goes through a relay
    that can be cut.
    """

    def __init__(self, folder: Path) -> None:
        settings = {**_GROUP, **_SLOTS}
        self.to_broker = [Relay() for _ in range(_WORKERS)]
        self.to_rest = [Relay() for _ in range(_WORKERS)]
        super().__init__(
            folder,
            Shape(workers=_WORKERS, source_tasks=_TASKS, sink_tasks=_TASKS, rate=RATE, settings=settings),
            _broker_behind(self.to_broker, folder / "broker"),
        )
        self.alone = Service(folder, 0, self._of_alone(), {ALONE: self._numbers()})

    @property
    def workers(self) -> list[Service]:
        """All of them, the standalone one last."""
        return [*self.services, self.alone]

    def __enter__(self) -> World:
        for relay in (*self.to_broker, *self.to_rest):
            relay.__enter__()
        super().__enter__()
        return self

    def _connect(self) -> None:
        for service, relay in zip(self.services, self.to_rest, strict=True):
            relay.target_port = service.port

    def _settings_of(self, number: int) -> dict[str, str]:
        at = "127.0.0.1"
        return {
            **super()._settings_of(number),
            "bootstrap.servers": f"{at}:{self.to_broker[number].port}",
            "rest.advertised.port": str(self.to_rest[number].port),
        }

    @property
    def clustered(self) -> dict[str, int]:
        """Connectors of the cluster and how many tasks each has."""
        return {SOURCE: _TASKS, SINK: _TASKS}

    def tasks_of(self, worker: Service) -> list[Task]:
        """The tasks that a worker can say something of."""
        connectors = {ALONE: _TASKS} if worker is self.alone else self.clustered
        return [(name, number) for name, count in connectors.items() for number in range(count)]

    @property
    def tasks(self) -> list[Task]:
        return [*self.tasks_of(self.services[0]), *self.tasks_of(self.alone)]

    def start(self, within_s: float) -> None:
        create_topic(self.broker.bootstrap, ALONE_TOPIC, partitions=_TASKS)
        self.alone.start()
        super().start(within_s)
        self.alone.await_healthy(within_s)

    def flow(self) -> Flow:
        return Flow(self.broker.bootstrap, {TOPIC: SOURCE, ALONE_TOPIC: ALONE}, SINK, self.journal, _TASKS)

    def freeze_broker(self) -> Callable[[], None]:
        """SIGSTOP; gives what lets it go on."""
        pid = self.broker.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def __exit__(self, *args: object) -> None:
        try:
            self.alone.stop()
        finally:
            try:
                super().__exit__(*args)  # type: ignore[arg-type]
            finally:
                for relay in (*self.to_broker, *self.to_rest):
                    relay.__exit__(None, None, None)

    def _of_alone(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.broker.bootstrap,
            **STRING_CONVERTERS,
            "offset.storage.file.filename": str(self.folder / "alone.offsets"),
            "offset.flush.interval.ms": "1000",
            **_SLOTS,
            **_ALONE,
        }

    def _numbers(self) -> dict[str, str]:
        return {
            "connector.class": "org.apache.kafka.connect.tools.VerifiableSourceConnector",
            "tasks.max": str(_TASKS),
            "topic": ALONE_TOPIC,
            "throughput": str(RATE),
            "file": "/dev/null",
        }

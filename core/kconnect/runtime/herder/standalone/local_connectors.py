"""The connectors of a standalone herder: their instances, their tasks, and changes of their configs.

Source: StandaloneHerder, AbstractHerder, Worker; of the topics that connectors were seen to use,
AbstractHerder#connectorActiveTopics, TopicStatus (Kafka 4.3; KIP-558).
"""

from __future__ import annotations

import logging
import threading

from kconnect.errors import ConnectError, ForbiddenError, RetriableError
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.herder.connectors.orders import Orders
from kconnect.runtime.herder.connectors.task_runs import TaskRuns
from kconnect.runtime.herder.decisions.connector_entry import ConnectorEntry
from kconnect.runtime.herder.parts import HerderParts
from kconnect.runtime.herder.standalone.memory_config import MemoryConfig
from kconnect.runtime.herder.standalone.memory_status import MemoryStatus

log = logging.getLogger(__name__)


class HostedConnectors:
    """Steps of the herder's requests. States: open -> stopped.

    Threads: any; the caller of a method that takes a name or an entry holds that connector's order. `update_tasks_soon`
    needs none.
    """

    def __init__(
        self, parts: HerderParts, config: MemoryConfig, status: MemoryStatus, orders: Orders, tasks: TaskRuns
    ) -> None:
        self._config = config
        self._status = status
        self._orders = orders
        self._tasks = tasks
        self.host = ConnectorHost(parts, status, request_tasks=self.update_tasks_soon, look_again=self._look_again)

    def stop(self, timeout_s: float) -> None:
        """Stop all tasks gracefully, then the connectors. The orders are closed: nothing arrives meanwhile."""
        self.host.close_reloads(timeout_s)
        ids = [task_id for entry in self._config.all() for task_id in entry.task_ids]
        self._tasks.stop(ids, timeout_s)
        self.host.shut_down_all()

    def configure(self, entry: ConnectorEntry) -> None:
        """Replace the entry, restart its connector and give it its tasks."""
        name = entry.name
        self.host.shut_down(name)
        self._config.put(entry)
        self.start(name)
        try:
            self.update_tasks(name)
        except RetriableError as err:
            log.warning("Connector %s has given no task configs yet and will be asked again: %s", name, err)
            self.update_tasks_soon(name)

    def start(self, name: str) -> None:
        """Create the instance and bring it to its target state. Errors: ConnectError; its status shows why."""
        self.host.start(self._config.get(name))

    def try_start(self, name: str) -> None:
        """Start it; an error is logged and shown in its status."""
        try:
            self.start(name)
        except ConnectError as err:
            log.error("Connector %s was restarted and failed: %s", name, err)

    def remove(self, name: str) -> None:
        """Stop the connector and its tasks, and forget its config and secrets."""
        self.remove_tasks(name)
        self.host.shut_down(name)
        self._config.remove(name)
        self.host.forget(name)

    def update_tasks(self, name: str) -> None:
        """Ask for task configs; restart tasks if they changed. Errors: RetriableError; others fail the connector."""
        entry = self._config.get(name)
        given = self.host.task_configs(entry)
        if given is not None and entry.tasks_differ(given.configs):
            self.remove_tasks(name)
            entry = self._config.put(entry.with_tasks(given.configs))
            if self.host.refers(entry):
                self.host.note_tasks(entry)
            self._tasks.start(entry, entry.task_ids, self.host.kind(entry.config), given.version)

    def update_tasks_soon(self, name: str) -> None:
        """The same in the background, in the connector's turn; retried after a RetriableError."""
        self._orders.soon(name, lambda: self._try_update(name))

    def remove_tasks(self, name: str) -> None:
        """Stop the tasks and forget that there were any."""
        entry = self._config.get(name)
        self._tasks.stop(entry.task_ids)
        self._status.remove_tasks(entry.task_ids)
        self._config.put(entry.without_tasks())

    def _try_update(self, name: str) -> bool:
        """Returns False to be retried."""
        if self._config.find(name) is None or self.host.find(name) is None:
            return True
        try:
            self.update_tasks(name)
        except RetriableError as err:
            log.warning("Connector %s gave no task configs and will be asked again: %s", name, err)
            return False
        except ConnectError as err:
            log.error("Tasks of connector %s cannot be updated: %s", name, err)
        return True

    def _look_again(self, name: str) -> None:
        self._orders.soon(name, lambda: self._reload(name), "reload")

    def _reload(self, name: str) -> bool:
        """Restart connector and tasks if a value they were started with has changed; returns True: done."""
        entry = self._config.find(name)
        try:
            what = None if entry is None else self.host.change_of(entry)
            if what is None:
                return True
            log.info("%s: connector %s and its tasks restart", what, name)
            self.remove_tasks(name)
            self.host.shut_down(name)
            self.start(name)
        except ConnectError as err:
            log.error("Connector %s cannot be restarted with what its config refers to: %s", name, err)
            return True
        return self._try_update(name)


class ActiveTopics:
    """Topics by connector. They outlive restarts and other configs of it; a reset and a deletion end them.

    Threads: any. Errors: ForbiddenError where the worker's settings say so.
    """

    def __init__(self, *, is_tracking: bool, allows_reset: bool) -> None:
        self._is_tracking = is_tracking
        self._allows_reset = allows_reset
        self._lock = threading.Lock()
        self._topics: dict[str, set[str]] = {}  # guarded by _lock

    def used(self, connector: str, topic: str) -> None:
        if self._is_tracking:
            with self._lock:
                self._topics.setdefault(connector, set()).add(topic)

    def of(self, connector: str) -> list[str]:
        """The topics of a connector, sorted. Differs: Java's are in the order of its hash set."""
        self._require_tracking()
        with self._lock:
            return sorted(self._topics.get(connector, ()))

    def reset(self, connector: str) -> None:
        """Reset them at a user's request."""
        self._require_tracking()
        if not self._allows_reset:
            raise ForbiddenError(
                "Topic tracking reset is disabled.", hint="Set topic.tracking.allow.reset=true for the worker."
            )
        self.forget(connector)

    def forget(self, connector: str) -> None:
        """Forget them, because the connector is gone."""
        with self._lock:
            self._topics.pop(connector, None)

    def _require_tracking(self) -> None:
        if not self._is_tracking:
            raise ForbiddenError("Topic tracking is disabled.", hint="Set topic.tracking.enable=true for the worker.")

"""Start and stop of a cluster's herder, step by step, and what its worker waits for meanwhile."""

from __future__ import annotations

import logging

from kconnect.errors import ConflictError
from kconnect.runtime.herder.cluster.assembly import HerderAssembly
from kconnect.runtime.storage.status_topic import Subject

log = logging.getLogger(__name__)

# Time to leave the group, close plugins' threads and log what could not be stopped, after the tasks had their time
_LEAVE_S = 5.0


class HerderLifecycle:
    """States: new -> started -> stopped. Threads: the worker's."""

    def __init__(self, assembly: HerderAssembly) -> None:
        self._all = assembly
        self._has_started = self._has_stopped = False

    def start(self, worker_id: str, url: str, kafka_cluster_id: str | None) -> None:
        """Join the group. `worker_id` is the advertised host:port, `url` where other workers reach this one's REST."""
        parts, cluster, status = self._all, self._all.cluster, self._all.knowledge.status
        parts.requests.start.open(kafka_cluster_id)
        status.worker_id = worker_id
        parts.group.rounds.url = url
        cluster.configs.set_listener(parts.group.inbox.note_change)
        status.is_in_touch = parts.group.standing.is_in_touch
        status.look_again = parts.keeper.note

        def note(subject: Subject) -> None:
            parts.keeper.note(subject)
            parts.failures.note(subject)

        cluster.statuses.set_listener(note)
        self._has_started = True
        parts.thread.start()
        parts.watch.start()
        parts.keeper.start()
        parts.requests.start.begin()
        log.info("Herder started as worker %s of group %s", worker_id, cluster.group_id)

    def await_group(self, timeout_s: float) -> bool:
        """Wait for the first assignment; returns whether there is one. Errors: as ThreadRequests.raise_if_failed."""
        self._all.requests.thread.raise_if_failed()
        return self._has_started and self._all.thread.has_joined.wait(timeout_s)

    def stop(self, timeout_s: float) -> None:
        """Stop all tasks and connectors gracefully, then leave the group. Accepts no more requests. Idempotent."""
        parts = self._all
        parts.requests.start.is_ready = False
        parts.requests.start.refuse_waiting()
        if not self._has_started or self._has_stopped:
            return
        self._has_stopped = True
        parts.watch.stop(_LEAVE_S)
        parts.keeper.stop(_LEAVE_S)
        if not parts.thread.stop(timeout_s + _LEAVE_S):
            log.warning("The herder's thread did not end in time: %s", parts.requests.stages.summary())
        parts.group.membership.stop(_LEAVE_S)
        parts.work.work.close(_LEAVE_S)
        parts.knowledge.offsets.close()
        parts.requests.pending.close(ConflictError("Worker is shutting down"))
        log.info("Herder stopped")

"""Live workers under another group.id than the given one: a check of the wrong group finds nobody.

The status topic shows who runs this cluster's connectors: a RUNNING status from a live worker of another group
proves that the topics are that group's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from kconnect.admin.direct.group.live_group import LiveGroup, LiveWorker
from kconnect.model import RunState, TaskId
from kconnect.runtime.storage.snapshot import ClusterSnapshot
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import Subject


@dataclass(frozen=True, slots=True)
class OtherGroups:
    """`users` are live groups whose workers run connectors of this cluster, `others` may or may not.

    Groups that cannot be of these topics are in neither.
    """

    users: tuple[tuple[LiveGroup, str], ...] = ()
    """Each group with the words of what one of its workers runs."""
    others: tuple[LiveGroup, ...] = ()

    def warnings(self, group_id: str) -> tuple[str, ...]:
        """Warnings before a write, as sentences."""
        if not self.others:
            return ()
        names = ", ".join(group.name for group in self.others)
        return (
            f"Group {group_id} has no workers, but these groups of Connect workers are live on the brokers: {names}. "
            "Is group.id that of this cluster?",
        )


def sort_other_groups(
    groups: Sequence[LiveGroup], statuses: StatusCache | None, configs: ClusterSnapshot | None = None
) -> OtherGroups:
    """Sort the live groups. `statuses`, `configs` None: they cannot be read, so nothing is proven."""
    users: list[tuple[LiveGroup, str]] = []
    others: list[LiveGroup] = []
    for group in groups:
        if not group.is_live:
            continue
        run = None if statuses is None else _runs(group, statuses)
        if run is not None:
            users.append((group, run))
        elif configs is None or _may_read(group, configs):
            others.append(group)
    return OtherGroups(tuple(users), tuple(others))


def _may_read(group: LiveGroup, configs: ClusterSnapshot) -> bool:
    """Whether the group may have these configs: its workers run nothing else, and have read no further."""
    if not group.is_settled:
        return True
    work = [(*worker.work.connectors, *(task.connector for task in worker.work.tasks)) for worker in group.workers]
    names = {name for names in work for name in names}
    if any(worker.config_offset > configs.offset for worker in group.workers):
        return False
    return names <= configs.configs.keys() and (bool(names) or not configs.configs)


def _runs(group: LiveGroup, statuses: StatusCache) -> str | None:
    """What of the cluster's a worker of the group runs. A status that a worker before it left at its address does not
    count, as far as it is known what the worker was assigned.
    """
    workers = {id_of(worker): worker for worker in group.workers}
    for subject, status in sorted(statuses.statuses().items(), key=lambda item: str(item[0])):
        worker = workers.get(status.worker_id)
        if worker is None or status.state is not RunState.RUNNING:
            continue
        if not group.is_settled or _has(worker, subject):
            what = f"task {subject}" if isinstance(subject, TaskId) else f"connector {subject}"
            return f"{worker.url or worker.client_id} runs {what}"
    return None


def _has(worker: LiveWorker, subject: str | TaskId) -> bool:
    return subject in (worker.work.tasks if isinstance(subject, TaskId) else worker.work.connectors)


def id_of(worker: LiveWorker) -> str:
    """Gives the worker's id as its statuses name it: host and port of its REST URL."""
    return urlsplit(worker.url).netloc


def owners_of(group: LiveGroup | None) -> dict[Subject, str]:
    """Who has which connector and task assigned, by worker id; empty while a rebalance runs, or nothing is known."""
    if group is None or not group.is_settled:
        return {}
    owned: dict[Subject, str] = {}
    for worker in group.workers:
        owned |= dict.fromkeys((*worker.work.connectors, *worker.work.tasks), id_of(worker))
    return owned

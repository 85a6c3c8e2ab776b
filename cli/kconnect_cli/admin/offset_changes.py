"""Changes of offsets that can be taken back: each is prepared by a Changes and kept in the OffsetHistory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from kconnect.admin.cluster.kept_change import KeptChange
from kconnect.admin.cluster.rest_changes import offset_table
from kconnect.client.offset_history import OffsetEntries, OffsetEntry, OffsetHistory, last_of, moved_offsets
from kconnect.client.shared_offsets import SharedOffsets
from kconnect.errors import BadRequestError
from kconnect.model import ConnectorOffset, ConnectorType
from kconnect_cli.admin.connector_admin import connector_admin
from kconnect_cli.options.cluster import cluster_of

if TYPE_CHECKING:
    from kconnect.admin.cluster.port import Changes, PreparedChange
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.admin.direct.offsets.sink_targets import Chosen, SinkTarget
    from kconnect.client import ConnectClient
    from kconnect_cli.session import CliSession


class OffsetChanges:
    """Prepares changes of offsets, of a worker or of the topics. Errors: as Changes."""

    def __init__(self, session: CliSession, admin: Changes) -> None:
        self._session = session
        self._admin = admin

    @cached_property
    def cluster_id(self) -> str:
        """The Kafka cluster that the connectors belong to."""
        return str(self._session.reader.server_info().get("kafka_cluster_id") or "")

    @cached_property
    def history(self) -> OffsetEntries:
        """Gives the history as the cluster knows it, or this machine."""
        own, direct = OffsetHistory(self.cluster_id), self._session.direct
        if direct is None:
            return SharedOffsets(self._session.client.changes, own)
        from kconnect.admin.direct.history.offset_changes import topic_offsets

        return topic_offsets(direct.access, own)

    def alter(self, name: str, offsets: Sequence[ConnectorOffset], action: str = "alter") -> KeptChange:
        old = self._session.reader.connector_offsets(name)
        return self._kept(self._admin.alter_offsets(name, offsets, action=action), name, action, old, offsets)

    def reset(self, name: str) -> KeptChange:
        old = self._session.reader.connector_offsets(name)
        none = [ConnectorOffset(item.partition, None) for item in old]
        return self._kept(self._admin.reset_offsets(name), name, "reset", old, none)

    def undo(self, name: str, *, force: bool) -> KeptChange:
        """The last change, taken back.

        Errors: NotFoundError without one; ConflictError if the offsets are no longer as it left them, unless `force`.
        """
        entry = self.last(name)
        now = self._session.reader.connector_offsets(name)
        if not force:
            entry.check(name, now, otherwise="--force restores the old ones all the same.")
        return self._kept(self._admin.alter_offsets(name, entry.undone, action="undo"), name, "undo", now, entry.undone)

    def last(self, name: str) -> OffsetEntry:
        """Errors: NotFoundError without a change."""
        return last_of(self.history.entries(name), name)

    def offsets_at(self, name: str, target: SinkTarget, chosen: Chosen) -> list[ConnectorOffset]:
        """Where a sink's partitions are at a target, looked up at the brokers; a source's at a time, if it supports
        that.

        Errors: BadRequestError for another source, and for the brokers of another cluster; NotFoundError; ConnectError.
        """
        from kconnect_cli.admin.asked_worker import AskedWorker, asks_worker

        if asks_worker(self._session):
            from kconnect.admin.direct.offsets.sink_targets import target_to_json

            which = {"topics": sorted(chosen.topics), "partitions": sorted(chosen.partitions)}
            with AskedWorker(self._session) as worker:
                return worker.offsets_at(name, {**target_to_json(target), **which})
        from kconnect.admin.direct.offsets.source_targets import offsets_at

        access = cluster_of(self._session).access()
        info = self._session.reader.connector(name)
        if self._session.direct is None and info.type is not ConnectorType.SOURCE:
            from kconnect.runtime.kafka.admin import cluster_id

            found = cluster_id(access.clients().admin, access.timeout_s)
            if self.cluster_id and found != self.cluster_id:
                raise BadRequestError(
                    f"{access.bootstrap_servers} is another Kafka cluster ({found}) than the worker's "
                    f"({self.cluster_id})",
                    hint="Give the brokers of the worker: --worker FILE or --bootstrap-servers.",
                )
        return offsets_at(access, info, self._session.reader.connector_offsets(name), target, chosen)

    def _kept(
        self,
        change: PreparedChange,
        name: str,
        action: str,
        old: Sequence[ConnectorOffset],
        new: Sequence[ConnectorOffset],
    ) -> KeptChange:
        return KeptChange(change, self.history, name, action, self._session.url, moved_offsets(old, new))


def offset_changes(session: CliSession, *, force: bool = False, brokers: ClusterAccess | None = None) -> OffsetChanges:
    """What changes offsets in this call. `brokers`: as of `RestChanges`."""
    return OffsetChanges(session, connector_admin(session, force=force, brokers=brokers))


@dataclass(frozen=True, slots=True)
class MoveChange:
    """A `PreparedChange`; `kconnect.client.offset_move` does it. It says what it does as it does it."""

    client: ConnectClient
    changes: OffsetChanges
    name: str
    wanted: Callable[[], Sequence[ConnectorOffset]]
    say: Callable[[str], None]
    action: str = "move"

    @property
    def is_empty(self) -> bool:
        return False

    @property
    def needs_consent(self) -> bool:
        return True

    def description(self) -> Sequence[str]:
        """Old and new offsets as they are now; what its tasks commit while they stop comes on top."""
        return (f"Move {self.name}", offset_table(self.client.connector_offsets(self.name), self.wanted()))

    def check(self) -> Sequence[str]:
        return ()

    def make(self) -> Sequence[str]:
        """Errors: ConnectError of the step that failed; offsets and state are then what they were before."""
        from kconnect.client.offset_move import OffsetMove

        OffsetMove(self.client, self.name, self.wanted, self._alter, self.say).make()
        return ()

    def _alter(self, wanted: Sequence[ConnectorOffset]) -> None:
        for line in self.changes.alter(self.name, wanted, self.action).make():
            self.say(line)

"""The port to a cluster: connectors read and changed, over a worker's REST API or on the cluster's topics."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from kconnect.admin.cluster.activity import Activity
    from kconnect.admin.dead_letters.through import Sink
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.admin.direct.client import DirectClient
    from kconnect.client import ConnectClient
    from kconnect.client.outage import Outage
    from kconnect.client.worker_start import WorkerHealth
    from kconnect.model import (
        ConnectorInfo,
        ConnectorOffset,
        ConnectorStatus,
        SinkLag,
        TargetState,
        TaskId,
    )


class PreparedChange(Protocol):
    """One change to one connector: prepared, but not made yet."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write."""

    @property
    def needs_consent(self) -> bool:
        """Whether the user is asked before it is made."""

    def description(self) -> Sequence[str]:
        """What will be written, old beside new; empty where a worker decides that."""

    def check(self) -> Sequence[str]:
        """Warnings. Errors: ConflictError when it may not be made as things are."""

    def make(self) -> Sequence[str]:
        """Make it, and say what was done; the last line is about the whole. Errors: ConnectError."""


class Changes(Protocol):
    """Changes connectors. Each method reads what is there and prepares a change; nothing is written yet.

    `tag`: that of the version which the caller saw, as the cluster gave it. A worker refuses to change another one,
    PreconditionFailedError; where nobody gives tags nobody looks at them. `RestChanges`, `TopicChanges`.

    Errors: NotFoundError, BadRequestError, ConflictError, ForbiddenError, ConnectError.
    """

    def create(
        self,
        name: str,
        config: Mapping[str, str],
        target_state: TargetState | None = None,
        offsets: Sequence[ConnectorOffset] | None = None,
    ) -> PreparedChange:
        """`offsets`: where its tasks start. Errors: AlreadyExistsError."""

    def put_config(self, name: str, config: Mapping[str, str], tag: str | None = None) -> PreparedChange:
        """Replace its config. Errors: BadRequestError without a worker."""

    def pause(self, name: str) -> PreparedChange: ...
    def resume(self, name: str) -> PreparedChange: ...
    def stop(self, name: str) -> PreparedChange: ...
    def delete(self, name: str, tag: str | None = None) -> PreparedChange:
        """`tag`: of its config."""

    def restart(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> PreparedChange:
        """Errors: BadRequestError without a worker."""

    def restart_task(self, task: TaskId) -> PreparedChange:
        """Errors: BadRequestError without a worker."""

    def alter_offsets(
        self, name: str, offsets: Sequence[ConnectorOffset], tag: str | None = None, action: str | None = None
    ) -> PreparedChange:
        """Set these offsets; None resets a partition. `action`: what it is called in the worker's history."""

    def reset_offsets(self, name: str, tag: str | None = None) -> PreparedChange:
        """Forget all offsets."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this cluster can tell and do. A page leaves out what it cannot, and says why."""

    has_workers: bool = True
    """False: read from the internal topics, states are the last that workers wrote."""
    is_ours: bool = True
    """Slots, history, conditions, logs: a Java worker has none."""


@dataclass(frozen=True, slots=True)
class Announced:
    """A replay of dead letters: how many go to which topics, and whether their records are changed on the way."""

    targets: Mapping[str, int]
    edited: bool = False


OpenSink: TypeAlias = "Callable[[Mapping[str, str], Mapping[str, str]], AbstractContextManager[Sink]]"
"""Opens a sink by a connector's and a worker's settings, with references resolved."""


class Cluster(Protocol):
    """A cluster as commands and pages read it: `RestCluster`, `TopicCluster`. Threads: one.

    Errors of every method: ConnectError and its kinds; NotFoundError for an unknown connector or plugin.
    """

    @property
    def place(self) -> str:
        """Where it is read: the worker's URL, or the topics."""
        ...

    @property
    def rest(self) -> ConnectClient | None:
        """For pages that only a worker can fill; None without one."""
        ...

    @property
    def direct(self) -> DirectClient | None:
        """For pages that read the topics; None where only a worker is known."""
        ...

    @property
    def brokers(self) -> ClusterAccess | None:
        """The cluster's brokers, for what is read from Kafka itself; None where only a worker's URL is known.

        What is read there is shown only to a caller who may see the connector over REST: ask that first.
        """
        ...

    def allow_letters(self, name: str, replay: Announced | None = None) -> None:
        """Whether this caller may read records of the connector's dead letters, or replay them, with `brokers`' login.

        `replay`: what is about to be sent; the audit log of a worker has it.
        Errors: ForbiddenError; NotFoundError for an unknown connector; BadRequestError where nobody can tell.
        """
        ...

    @property
    def open_sink(self) -> OpenSink | None:
        """Runs a sink's own code in this process: the reader's own, and never a worker's, which has None."""
        ...

    @property
    def outage(self) -> Outage | None:
        """Kafka is away, according to the last answer."""
        ...

    @property
    def held_up(self) -> str | None:
        """Says that the connector read last is what a held-up worker has in memory, and why; None if it is not.

        Whatever waits for the same, such as offsets, is best not asked for then.
        """
        ...

    @property
    def changes(self) -> Changes:
        """Changes of connectors, as this caller may make them."""
        ...

    def health(self) -> WorkerHealth:
        """What the worker says of itself: what its start waits for, and what is wrong; nothing where none is asked."""
        ...

    def server_info(self) -> Mapping[str, Any]: ...
    def capabilities(self) -> Capabilities: ...
    def connectors(self) -> Sequence[str]: ...
    def connector_infos(self) -> Mapping[str, ConnectorInfo]: ...
    def connector_statuses(self) -> Mapping[str, ConnectorStatus]: ...
    def activities(self, statuses: Mapping[str, ConnectorStatus]) -> Mapping[str, Activity] | None:
        """What connectors move, by name: what workers tell of all of them, or None where nobody tells anything.

        Of these sinks the brokers are asked, if they are known, for a lag that no worker tells.
        """
        ...

    def connector(self, name: str) -> ConnectorInfo: ...
    def tagged_connector(self, name: str) -> tuple[ConnectorInfo, str]:
        """With a tag that is another one once the config is; the worker's ETag, or one of `content_tag`."""
        ...

    def connector_status(self, name: str) -> ConnectorStatus: ...
    def connector_offsets(self, name: str) -> Sequence[ConnectorOffset]: ...
    def offsets_and_lag(self, name: str) -> tuple[list[ConnectorOffset], SinkLag | None]:
        """With how far a sink is behind: None for a source, and where nobody tells."""
        ...

    def tagged_offsets(self, name: str) -> tuple[Sequence[ConnectorOffset], str]:
        """Works as `tagged_connector`."""
        ...

    def topics(self, name: str) -> Sequence[str] | None:
        """Topics a connector was seen to use; None where nobody tracks them."""
        ...

    def plugins(self) -> Sequence[Mapping[str, Any]]: ...
    def plugin_config(self, plugin: str) -> Sequence[Mapping[str, Any]]: ...
    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Mapping[str, Any]: ...


def content_tag(content: Any) -> str:  # data of JSON
    """In place of an ETag; never sent to a worker. It does not give away what is in it."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:32]

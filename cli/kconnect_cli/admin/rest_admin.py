"""RestAdmin: connectors changed by a worker, over its REST API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kconnect.errors import BadRequestError, ConnectError
from kconnect.model import ConnectorOffset, ConnectorType, TargetState
from kconnect_cli.admin.failed_starts import cause_of_failed_start
from kconnect_cli.screen.output import json_cell, plain_table

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.client import ConnectClient


@dataclass(frozen=True, slots=True)
class RestChange:
    """One request, and what it will change, as far as is known beforehand."""

    request: Callable[[], str]
    """Makes it; gives a sentence on what was done."""
    lines: tuple[str, ...] = ()
    needs_consent: bool = False

    @property
    def is_empty(self) -> bool:
        """Never: the worker decides whether there is anything to do."""
        return False

    def description(self) -> Sequence[str]:
        return self.lines

    def check(self) -> Sequence[str]:
        """None: the worker checks each request."""
        return ()

    def make(self) -> Sequence[str]:
        return (self.request(),)


class RestAdmin:
    """`connect` gives the client, once something is asked of the worker.

    `brokers`: where a sink's new offsets are looked up before a worker is given them; None: the worker warns.
    """

    def __init__(self, connect: Callable[[], ConnectClient], brokers: ClusterAccess | None = None) -> None:
        self._connect = connect
        self._brokers = brokers

    def create(
        self,
        name: str,
        config: Mapping[str, str],
        target_state: TargetState | None = None,
        offsets: Sequence[ConnectorOffset] | None = None,
    ) -> RestChange:
        """Differs from its twin on the topics: the worker finds out whether it may be created, when it is asked to."""

        def request() -> str:
            client = self._connect()
            with cause_of_failed_start(client, name):
                state = None if target_state is None else _rest_state(target_state)
                info = client.create_connector(name, config, initial_state=state, offsets=offsets)
            return f"created {info.name}"

        return RestChange(request)

    def pause(self, name: str) -> RestChange:
        return _request(name, "paused", lambda: self._connect().pause_connector(name))

    def resume(self, name: str) -> RestChange:
        return _request(name, "resumed", lambda: self._connect().resume_connector(name))

    def stop(self, name: str) -> RestChange:
        return _request(name, "stopped", lambda: self._connect().stop_connector(name))

    def delete(self, name: str) -> RestChange:
        return _request(name, "deleted", lambda: self._connect().delete_connector(name), needs_consent=True)

    def alter_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> RestChange:
        client = self._connect()
        old = client.connector_offsets(name)
        notes = self._unchecked(client, name, offsets)

        def request() -> str:
            return f"{name}: {client.alter_connector_offsets(name, offsets)}"

        return RestChange(request, (*notes, f"Alter offsets of {name}", offset_table(old, offsets)), needs_consent=True)

    def reset_offsets(self, name: str) -> RestChange:
        client = self._connect()
        old = client.connector_offsets(name)
        none = [ConnectorOffset(offset.partition, None) for offset in old]

        def request() -> str:
            return f"{name}: {client.reset_connector_offsets(name)}"

        return RestChange(request, (f"Reset offsets of {name}", offset_table(old, none)), needs_consent=True)

    def _unchecked(self, client: ConnectClient, name: str, wanted: Sequence[ConnectorOffset]) -> list[str]:
        """Why a sink's offsets were not looked up in its topics. Errors: BadRequestError where nothing can be read."""
        if self._brokers is None:
            return []
        info = client.connector(name)
        if info.type is not ConnectorType.SINK:
            return []
        from kconnect.admin.direct.offsets.changes import check_readable

        cluster_id = client.server_info().get("kafka_cluster_id")
        try:
            why = check_readable(self._brokers, info, wanted, cluster_id)
        except BadRequestError:
            raise
        except ConnectError as err:  # the worker warns in its answer
            why = str(err)
        return [f"Not checked whether these offsets of {name} can be read: {why}."] if why else []


def _rest_state(state: TargetState) -> str:
    """As REST spells it: RUNNING for the model's STARTED."""
    return "RUNNING" if state is TargetState.STARTED else str(state)


def _request(name: str, done: str, act: Callable[[], None], *, needs_consent: bool = False) -> RestChange:
    def request() -> str:
        act()
        return f"{done} {name}"

    return RestChange(request, needs_consent=needs_consent)


def offset_table(old: Sequence[ConnectorOffset], new: Sequence[ConnectorOffset]) -> str:
    """Old and new value of every partition that is named, for people."""
    before = {json_cell(offset.partition): json_cell(offset.offset) for offset in old}
    rows = [
        (json_cell(offset.partition), before.get(json_cell(offset.partition), "-"), json_cell(offset.offset))
        for offset in new
    ]
    if not rows:
        return "There are no committed offsets."
    return plain_table(("PARTITION", "OLD", "NEW"), rows).rstrip("\n")

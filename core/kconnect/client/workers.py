"""Finds the workers of a cluster over REST, for what each of them knows of itself only: its log, its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from kconnect.client.access import ClientAccess
from kconnect.client.connect_client import ConnectClient
from kconnect.errors import ConnectError, NotFoundError

# A leader that just died is no reason to wait: the statuses name workers, too
_LEADER_S = 3.0


def worker_urls(client: ConnectClient, access: ClientAccess | None = None) -> list[str]:
    """URLs of the workers of a cluster, as far as they are known: that of the client first.

    The leader's last rebalance lists them all. Without one, as in a cluster that Java leads, they are those that
    statuses name: workers that run nothing are missing then, and one that we ask by another name than it gives itself
    is there twice. Errors: as ConnectClient's.
    """
    rebalances = _rebalances(client)
    found = _members(rebalances, access) if rebalances else []
    own = rebalances[-1].get("worker") if rebalances else None
    if not found:
        found = _of_statuses(client)
    others = [url.rstrip("/") for url in found if urlsplit(url).netloc != own]
    return list(dict.fromkeys([client.url, *others]))


def _rebalances(client: ConnectClient) -> list[dict[str, Any]]:
    try:
        return client.rebalances()
    except NotFoundError:  # Java's, or an older one of ours
        return []


def _members(rebalances: Sequence[dict[str, Any]], access: ClientAccess | None) -> list[str]:
    """As the leader knows them; none if it is Java's, or does not answer."""
    last = rebalances[-1]
    if last["is_leader"]:
        return list(last["members"])
    try:
        with ConnectClient(last["leader_url"], access=access, timeout_s=_LEADER_S) as leader:
            led = leader.rebalances()
    except ConnectError:
        return []
    return list(led[-1]["members"]) if led and led[-1]["is_leader"] else []


def _of_statuses(client: ConnectClient) -> list[str]:
    """`host:port` in a status lacks the scheme: it is taken to be that of the client's URL."""
    ids: set[str] = set()
    try:
        statuses = client.connector_statuses()
    except NotFoundError:  # a listener of its own for /admin
        return []
    for status in statuses.values():
        ids |= {status.connector.worker_id, *(task.worker_id for task in status.tasks)}
    scheme = urlsplit(client.url).scheme
    return [f"{scheme}://{worker_id}" for worker_id in sorted(ids - {""})]

"""Finds the workers of a cluster over REST, for what each of them knows of itself only: its log, its history."""

from __future__ import annotations

from urllib.parse import urlsplit

from kconnect.client.access import ClientAccess
from kconnect.client.connect_client import ConnectClient
from kconnect.errors import ConnectError, NotFoundError

# A leader that just died is no reason to wait: the statuses name workers, too
_LEADER_S = 3.0


def worker_urls(client: ConnectClient, access: ClientAccess | None = None) -> list[str]:
    """URLs of the workers of a cluster, as far as they are known: that of the client first, which may be one twice.

    The leader's last rebalance lists them all. Without one, as in a cluster that Java leads, they are those that
    statuses name: workers that run nothing are missing then. Errors: as ConnectClient's.
    """
    found = _members(client, access) or _of_statuses(client)
    return list(dict.fromkeys([client.url, *(url.rstrip("/") for url in found)]))


def _members(client: ConnectClient, access: ClientAccess | None) -> list[str]:
    try:
        rebalances = client.rebalances()
        if not rebalances:
            return []
        last = rebalances[-1]
        if last["is_leader"]:
            return list(last["members"])
        with ConnectClient(last["leader_url"], access=access, timeout_s=_LEADER_S) as leader:
            led = leader.rebalances()
        return list(led[-1]["members"]) if led and led[-1]["is_leader"] else []
    except NotFoundError:  # Java's, or an older one of ours
        return []
    except ConnectError:
        if not rebalances:
            raise
        return []


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

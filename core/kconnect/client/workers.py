"""Finds the workers of a cluster over REST, for what each of them knows of itself only, as its log."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kconnect.errors import NotFoundError

if TYPE_CHECKING:
    from kconnect.client.connect_client import ConnectClient
    from kconnect.model import ConnectorStatus


def worker_urls(client: ConnectClient) -> list[str]:
    """URLs of the workers of a cluster, as far as they are known: that of the client first.

    One of ours knows them all. Of Java's those are known that statuses name: workers that run nothing are missing
    then, and one that we ask by another name than it gives itself is there twice. All are taken to have the scheme of
    the client's URL. Errors: as ConnectClient's.
    """
    scheme = urlsplit(client.url).scheme
    try:
        own, *others = client.workers()
    except NotFoundError:  # Java's, or an older one of ours
        ids = _of_statuses(client)
    else:
        ids = {str(each["worker"]) for each in others} - {str(own["worker"])}
    return list(dict.fromkeys([client.url, *(f"{scheme}://{worker_id}" for worker_id in sorted(ids))]))


def _of_statuses(client: ConnectClient) -> set[str]:
    try:
        return worker_ids(client.connector_statuses().values())
    except NotFoundError:  # a listener of its own for /admin
        return set()


def worker_ids(statuses: Collection[ConnectorStatus]) -> set[str]:
    """The workers that statuses name."""
    ids = {task.worker_id for status in statuses for task in status.tasks}
    return (ids | {status.connector.worker_id for status in statuses}) - {""}

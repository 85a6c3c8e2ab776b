"""What a worker asks of its leader, over the leader's REST API, signed with the session key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from kconnect.client.failures import refusal
from kconnect.client.peers import Peers
from kconnect.client.transport import Request
from kconnect.herder.sessions import signature_headers
from kconnect.storage.session_key import SessionKey

__all__ = ["RestLeader"]


class RestLeader:
    """Implements `LeaderRequests`. `algorithm`: inter.worker.signature.algorithm. Threads: any.

    Source: RestClient, DistributedHerder#publishConnectorTaskConfigs (Kafka 4.3).
    """

    def __init__(self, peers: Peers, algorithm: str = "HmacSHA256") -> None:
        self._peers = peers
        self._algorithm = algorithm

    def put_task_configs(
        self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], key: SessionKey | None
    ) -> None:
        """Errors: ConnectError with the leader's message."""
        body = json.dumps([dict(config) for config in configs], ensure_ascii=False).encode()
        self._ask(leader_url, "POST", f"/connectors/{quote(connector, safe='')}/tasks", body, key)

    def fence_zombies(self, leader_url: str, connector: str, key: SessionKey | None) -> None:
        """Errors: as put_task_configs."""
        self._ask(leader_url, "PUT", f"/connectors/{quote(connector, safe='')}/fence", b"", key)

    def _ask(self, url: str, method: str, path: str, body: bytes, key: SessionKey | None) -> None:
        headers = {"accept": "application/json", "user-agent": "kafka-connect"}
        if body:
            headers["content-type"] = "application/json"
        if key is not None:
            headers |= signature_headers(key, body, self._algorithm)
        request = Request(method, path, body, headers)
        response = self._peers.send(url, request)
        if response.status >= 300:
            raise refusal(url.rstrip("/"), None, str(request), response)

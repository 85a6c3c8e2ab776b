"""A worker's requests to its leader, over the leader's REST API, signed with the session key."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from urllib.parse import quote

from kconnect.client.exchange import refusal
from kconnect.client.http_exchange import Request, Response
from kconnect.client.peers import ADVERTISED, DEADLINE, Peers
from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError, ForbiddenError, TimedOutError, UnreachableError
from kconnect.runtime.herder.decisions.mismatches import utc_time
from kconnect.runtime.herder.decisions.request_signatures import signature_headers
from kconnect.runtime.storage.session_key import SessionKey


class RestLeader:
    """Implements `LeaderRequests`. `algorithm`: inter.worker.signature.algorithm. Threads: any.

    `namespace` stands before each path: of the workers of one MirrorMaker flow.
    Source: RestClient, DistributedHerder#publishConnectorTaskConfigs (Kafka 4.3).
    """

    def __init__(
        self, peers: Peers, algorithm: str = "HmacSHA256", clock: Clock | None = None, *, namespace: str = ""
    ) -> None:
        self._peers = peers
        self._namespace = namespace
        self._algorithm = algorithm
        self._clock = clock or SystemClock()

    def put_task_configs(
        self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], key: SessionKey | None
    ) -> None:
        """Errors: ConnectError with the leader's message."""
        body = json.dumps([dict(config) for config in configs], ensure_ascii=False).encode()
        self._request(leader_url, "POST", f"/connectors/{quote(connector, safe='')}/tasks", body, key)

    def fence_zombies(self, leader_url: str, connector: str, key: SessionKey | None) -> None:
        """Errors: as put_task_configs."""
        self._request(leader_url, "PUT", f"/connectors/{quote(connector, safe='')}/fence", b"", key)

    def _request(self, url: str, method: str, path: str, body: bytes, key: SessionKey | None) -> None:
        headers = {"accept": "application/json", "user-agent": "kafka-connect"}
        if body:
            headers["content-type"] = "application/json"
        if key is not None:
            headers |= signature_headers(key, body, self._algorithm)
        request = Request(method, self._namespace + path, body, headers)
        try:
            response = self._peers.send(url, request)
        except UnreachableError as err:
            raise UnreachableError(f"{err}. {ADVERTISED}") from err
        except TimedOutError as err:
            raise TimedOutError(f"{err} {DEADLINE}", hint=err.hint) from err
        if response.status >= 300:
            raise self._refused(url, request, response, key)

    def _refused(self, url: str, request: Request, response: Response, key: SessionKey | None) -> ConnectError:
        """A refused signature is reported with its possible causes: the key, and the clocks of both workers."""
        error = refusal(url.rstrip("/"), None, str(request), response)
        if not isinstance(error, ForbiddenError) or key is None:
            return error
        theirs = response.headers.get("date")
        clocks = f"here it is {utc_time(self._clock.time_ms())}"
        if theirs is not None and (their_ms := _time_ms(theirs)) is not None:
            clocks += f", at {url.rstrip('/')} it is {utc_time(their_ms)}"
        return ForbiddenError(
            f"{str(error).rstrip('.')}. This worker signed {request} to {url.rstrip('/')} with the session key made at "
            f"{utc_time(key.created_ms)}; {clocks}. The leader has another key: one of the two has not read the newest "
            "of config.storage.topic, or has another config.storage.topic",
            hint=error.hint,
        )


def _time_ms(http_date: str) -> int | None:
    """The time in a `Date` header; None if it is not a date."""
    try:
        return int(parsedate_to_datetime(http_date).timestamp() * 1000)
    except ValueError:
        return None

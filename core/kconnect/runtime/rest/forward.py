"""Forwards requests that another worker of the cluster must handle, and returns its answer.

The herder names that worker (WrongWorkerError): the leader, or the one that runs a task. A request takes two hops at
most: the first worker sends it with `forward=true`, the next one with `forward=false`, and if the receiver of that is
also the wrong one, it answers 409. Source: HerderRequestHandler, RestClient (Kafka 4.3).
Differs: status and body of the answer are passed on unchanged; the signature of requests between workers is kept, which
Java loses; an answer from outside Connect keeps its status; a worker that stands still gets no request, and one that
does so once it has a request is not waited for.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from urllib.parse import urlencode, urlsplit

from kconnect.client.http_exchange import Request, Response
from kconnect.client.http_wire import Silence
from kconnect.client.outage import NOTHING_CHANGED, UNKNOWN_END
from kconnect.client.peers import DEADLINE, Peers
from kconnect.errors import ConflictError, ConnectError, TimedOutError, WrongWorkerError
from kconnect.logs.redaction import redact
from kconnect.runtime.herder.decisions.request_signatures import ALGORITHM_HEADER, SIGNATURE_HEADER
from kconnect.runtime.rest.exchange import CHANGE_HEADER, Answer, AskAnotherError, Call

log = logging.getLogger(__name__)

CARRIED_HEADERS: Final = ("authorization", "if-match", SIGNATURE_HEADER.lower(), ALGORITHM_HEADER.lower())
"""Headers that are forwarded with a request: the caller's identity, its condition, another worker's signature."""

# Concurrent requests to other workers, for each of the two hops; threads are only created when needed
_POOL_THREADS = 32
_JOIN_S = 1.0
FORWARD_SETTING: Final = "kconnect.forward.answer.timeout.ms"
"""The deadline that a worker missed which said nothing at all."""
# A quiet cluster has carried out any change by then; what takes more may have been sent to a worker that stands still
_SILENT_S = 0.75


class Forwarder:
    """Forwards requests. Threads: `forward` from an event loop, `close` from any.

    Each hop has its own threads, separate from those of the handlers: so two workers that forward more requests to each
    other than they have threads cannot deadlock.
    """

    def __init__(self, peers: Peers, answer_s: float) -> None:
        """`answer_s`: kconnect.forward.answer.timeout.ms."""
        self._peers = peers
        self._answer_s = answer_s
        self._pools = {
            "true": ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="forward"),
            "false": ThreadPoolExecutor(_POOL_THREADS, thread_name_prefix="forward-again"),
        }

    async def forward(self, call: Call[object], error: WrongWorkerError, timeout_s: float) -> Answer:
        """The other worker's answer; a failure to get one is an answer too. Errors: ConflictError after two hops."""
        call = error.call if isinstance(error, AskAnotherError) else call
        request = forwarded_request(call)
        pool = self._pools["false" if _hop(call) else "true"]
        log.debug("Forwarding %s to %s", request, error.url)
        job = asyncio.get_running_loop().run_in_executor(pool, self._send, error.url, request, call)
        try:
            return await asyncio.wait_for(job, timeout_s)
        except TimeoutError:
            return _late(f"{error.url.rstrip('/')} did not answer {request} in time")

    def close(self) -> None:
        """Abort requests in progress. Idempotent."""
        self._peers.close()
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
            for thread in list(pool._threads):  # the executor offers no join with a deadline
                thread.join(_JOIN_S)

    def _send(self, url: str, request: Request, call: Call[object]) -> Answer:
        """Runs in a pool thread. A frozen worker takes requests and answers none, so it is asked for a word first."""
        try:
            self._hear(url, "/")
        except TimedOutError as err:
            return _failed(f"Request timed out. {NOTHING_CHANGED}: {err}, so {request} was not sent to it.")
        except ConnectError as err:
            return _failed(f"{_FRAME}{err}. {self._peers.advice(url)}")
        try:
            silence = Silence(_SILENT_S, lambda: self._hear_still(url, request))
            return passed_on(call, url.rstrip("/"), request, self._peers.send(url, request, None, silence))
        except _SilentError as err:
            return _failed(f"Request timed out. {err}: {UNKNOWN_END}.")
        except TimedOutError as err:
            return _late(str(err))
        except ConnectError as err:
            return _failed(f"{_FRAME}{err}. {self._peers.advice(url)}")

    def _hear(self, url: str, path: str) -> None:
        """Any answer will do. Errors: ConnectError."""
        try:
            self._peers.send(url, Request("GET", path, None, {"accept": "application/json"}), self._answer_s)
        except TimedOutError as err:
            setting = DEADLINE if self._peers.timeout_s <= self._answer_s else f"(setting {FORWARD_SETTING})"
            raise TimedOutError(f"{err} {setting}") from err

    def _hear_still(self, url: str, request: Request) -> None:
        """Ask a worker how it is that has not answered a request yet. Errors: _SilentError.

        A worker that is frozen does not say, nor does one of Java's that waits for Kafka.
        """
        try:
            self._hear(url, "/health")
        except ConnectError as err:
            raise _SilentError(
                f"{url.rstrip('/')} has not answered {request}, and does not say how it is: {err}"
            ) from err


class _SilentError(ConnectError):
    """A worker that has taken a request says nothing any more."""


_FRAME: Final = "IO Error trying to forward REST request: "
_TWO_HOPS: Final = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


def _hop(call: Call[object]) -> bool | None:
    """`forward` of the query as Java reads it; None: a user's request."""
    return call.flag("forward") if call.query_values("forward") else None


def forwarded_request(call: Call[object]) -> Request:
    """The request of the next hop. Errors: ConflictError if no further hop is allowed."""
    hop = _hop(call)
    if hop is False:
        log.error("%s %s did not find the right worker within two hops", call.method, call.raw_path)
        raise ConflictError(_TWO_HOPS, hint="Try again: work has probably moved in the meantime.")
    kept = [(name, value) for name, value in call.query if name != "forward"]
    query = urlencode([("forward", "true" if hop is None else "false"), *kept])
    target = f"{call.raw_path}?{query}"
    reported = call.headers_for(call.method, target, call.body)
    headers = {"accept": "application/json", "user-agent": "kafka-connect", **reported}
    if call.body:
        headers["content-type"] = "application/json"
    return Request(call.method, target, call.body or None, headers)


def passed_on(call: Call[object], url: str, request: Request, response: Response) -> Answer:
    """Another worker's answer as ours; a Location names this worker, as in Java."""
    status = response.status
    if 300 <= status < 400 or status < 200:
        return _failed(f"Unexpected status code when handling forwarded request: {status} from {url}")
    headers = _headers(call, response)
    if not response.body and status < 300:
        return Answer(status=status, headers=headers, empty=True)
    if not _is_connects(response):
        message = f"{url} answered {request} with {status} and something that Kafka Connect does not say"
        shown = 500 if status < 300 else status
        log.error("%s", message)
        return Answer({"error_code": shown, "message": message}, shown, headers)
    return Answer(status=status, headers=headers, text=response.body.decode())


def _headers(call: Call[object], response: Response) -> Mapping[str, str]:
    headers = {}
    if location := response.headers.get("location"):
        headers["location"] = call.base_url + urlsplit(location).path
    if etag := response.headers.get("etag"):
        headers["etag"] = etag
    if challenge := response.headers.get("www-authenticate"):
        headers["www-authenticate"] = challenge
    if kept := response.headers.get(CHANGE_HEADER):
        headers[CHANGE_HEADER] = kept
    return headers


def _is_connects(response: Response) -> bool:
    """Whether it is JSON, an error one of Connect's."""
    try:
        body = json.loads(response.body)
    except ValueError:
        return False
    return response.status < 300 or (isinstance(body, dict) and "error_code" in body)


def _late(sentence: str) -> Answer:
    return _failed(f"Request timed out. {sentence} {DEADLINE}; it may still carry it out.")


def _failed(message: str) -> Answer:
    log.error("%s", message)
    return Answer({"error_code": 500, "message": redact(message)}, 500)

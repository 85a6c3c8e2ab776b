"""Delivers webhooks, one after the other, on a thread of its own: a target that hangs delays only its own documents."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kconnect.client.http_exchange import Response
from kconnect.client.http_failures import Advice, BadAddressError
from kconnect.client.json_post import JsonPost, checked_target, shown_target, signature
from kconnect.clock import Backoff, Clock, SystemClock
from kconnect.errors import ConnectError
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.former_names import FORMER_EVENTS
from kconnect.runtime.config.worker_config import KConnectSettings
from kconnect.runtime.metrics import Reading
from kconnect.runtime.metrics.readings import WebhookView, webhook_readings
from kconnect.runtime.webhooks.documents import Document, body_of

log = logging.getLogger(__name__)

_BACKOFF: Final = Backoff(first_s=1.0, most_s=60.0)
_ADVICE = Advice(
    connect_deadline="kconnect.webhook.connect.timeout.ms",
    deadline="kconnect.webhook.timeout.ms",
)


class Target(Protocol):
    """Where documents go."""

    def send(self, body: bytes, headers: Mapping[str, str]) -> Response:
        """Errors: ConnectError."""
        ...

    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSettings:
    """kconnect.webhook.*"""

    url: str = field(repr=False)
    secret: str | None = field(default=None, repr=False)
    events: frozenset[str] = frozenset()
    connect_timeout_s: float = 2.0
    timeout_s: float = 5.0
    retries: int = 5
    queue_size: int = 1_000
    lag_above: int | None = None

    @classmethod
    def of_worker(cls, settings: KConnectSettings) -> WebhookSettings | None:
        """Reads a worker's own settings; gives None without a URL. Errors: ConfigError for a URL that is none."""
        url = settings.webhook_url.value.strip() if settings.webhook_url is not None else ""
        secret = settings.webhook_secret.value.strip() if settings.webhook_secret is not None else ""
        if not url:
            return None
        return cls(
            url=checked_target(url),
            secret=secret or None,
            events=frozenset(FORMER_EVENTS.get(event, event) for event in settings.webhook_events),
            connect_timeout_s=settings.webhook_connect_timeout_ms / 1000,
            timeout_s=settings.webhook_timeout_ms / 1000,
            retries=settings.webhook_retries,
            queue_size=settings.webhook_queue_size,
            lag_above=settings.webhook_lag_above,
        )


class WebhookSender:
    """States: new -> start() -> stop(). Threads: `send`, `document`, `readings` from any; they never block."""

    def __init__(
        self,
        settings: WebhookSettings,
        identity: Callable[[], tuple[str, str | None]],
        clock: Clock | None = None,
        target: Target | None = None,
    ) -> None:
        """`identity`: this worker's id and its group. Errors: ConfigError for a URL that is none."""
        self._settings = settings
        self._identity = identity
        self._clock = clock or SystemClock()
        self._target: Target = target or JsonPost(
            settings.url,
            connect_timeout_s=settings.connect_timeout_s,
            timeout_s=settings.timeout_s,
            advice=_ADVICE,
        )
        self.shown_url = shown_target(settings.url)
        self._lock = threading.Lock()  # guards all below
        self._waiting: deque[dict[str, Any]] = deque()
        self._delivered = self._dropped = self._failed = 0
        self._problem: str | None = None  # of the last attempt
        self._since_ms: int | None = None  # of the first failure since one was taken
        self._last_ms: int | None = None  # when one was taken
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Idempotent. What waits gets one attempt each while there is time; the rest is dropped, and that is logged."""
        if self._stop.is_set():
            return
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                with self._lock:
                    self._dropped += len(self._waiting)
                    self._waiting.clear()
                self._target.abort()
                self._thread.join(1.0)

    def send(self, document: Document) -> None:
        """Queue a document, if its event is wanted."""
        if document.event not in self._settings.events:
            return
        worker_id, group_id = self._identity()
        body = body_of(document, worker_id=worker_id, group_id=group_id, now_ms=self._clock.time_ms())
        with self._lock:
            is_full = len(self._waiting) >= self._settings.queue_size
            self._dropped += is_full
            is_first = is_full and self._dropped == 1
            if not is_full:
                self._waiting.append(body)
        if is_first:
            log.error(
                "Webhook %s: the queue is full at %s (kconnect.webhook.queue.size): new ones are dropped from now on",
                self.shown_url,
                pluralize(self._settings.queue_size, "document"),
            )
        self._wake.set()

    def document(self) -> dict[str, Any]:
        """How deliveries fare, for people."""
        with self._lock:
            return {
                "target": self.shown_url,
                "events": sorted(self._settings.events),
                "is_signed": self._settings.secret is not None,
                "waiting": len(self._waiting),
                "delivered": self._delivered,
                "failed_attempts": self._failed,
                "dropped": self._dropped,
                "last_delivered_ms": self._last_ms,
                "failing_since_ms": self._since_ms,
                "problem": self._problem,
            }

    def readings(self) -> list[Reading]:
        """For `/metrics`."""
        with self._lock:
            view = WebhookView(
                self._delivered, self._failed, self._dropped, len(self._waiting), self._since_ms is not None
            )
        return list(webhook_readings(view))

    # -- on the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._lock:
                body = self._waiting.popleft() if self._waiting else None
            if body is not None:
                self._deliver(body)
            elif self._stop.is_set():
                return
            else:
                self._wake.wait()
                self._wake.clear()

    def _deliver(self, body: dict[str, Any]) -> None:
        """Until it is taken or refused, or its attempts are used up."""
        data = json.dumps(body, separators=(",", ":"), default=str).encode()
        for attempt in range(self._settings.retries + 1):
            problem, is_final = self._attempt(body, data)
            if problem is None:
                return
            self._note_failure(problem)
            if is_final or attempt == self._settings.retries or self._stop.is_set():
                break
            self._clock.wait(self._stop, _BACKOFF.pause_s(attempt))
        with self._lock:
            self._dropped += 1
        log.error("Webhook %s: the event %s is dropped: %s", self.shown_url, body["event"], problem)

    def _attempt(self, body: Mapping[str, Any], data: bytes) -> tuple[str | None, bool]:
        """What was wrong, and whether it stays so."""
        timestamp = str(self._clock.time_ms() // 1000)
        headers = {
            "User-Agent": "kconnect",
            "X-Kconnect-Event": body["event"],
            "X-Kconnect-Delivery": body["id"],
            "X-Kconnect-Timestamp": timestamp,
        }
        if self._settings.secret is not None:
            headers["X-Kconnect-Signature"] = signature(self._settings.secret, timestamp, data)
        try:
            answer = self._target.send(data, headers)
        except BadAddressError as err:
            return str(err), True
        except ConnectError as err:
            return str(err), False
        except Exception as err:  # whatever it is: the thread goes on
            log.exception("Webhook %s: a document could not be sent", self.shown_url)
            return f"{type(err).__name__}: {err}", True
        if 200 <= answer.status < 300:
            self._note_delivery()
            return None, True
        return f"answered {answer.status}", not answer.may_pass

    def _note_delivery(self) -> None:
        with self._lock:
            since_ms, self._since_ms, self._problem = self._since_ms, None, None
            self._delivered += 1
            self._last_ms = self._clock.time_ms()
        if since_ms is not None:
            log.info("Webhook %s takes documents again", self.shown_url)

    def _note_failure(self, problem: str) -> None:
        with self._lock:
            is_new = self._since_ms is None
            self._since_ms = self._since_ms or self._clock.time_ms()
            self._problem = problem
            self._failed += 1
        if is_new:
            log.warning("Webhook %s: a document was not taken: %s", self.shown_url, problem)

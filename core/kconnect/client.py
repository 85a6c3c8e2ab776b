"""Client of Connect's REST API, of our workers and Java's alike: one method per endpoint.

Used by the command line and by tests; needs nothing of a worker but its URL.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from kconnect.clock import Clock, SystemClock
from kconnect.errors import (
    AlreadyExistsError,
    BadRequestError,
    ConfigError,
    ConflictError,
    ConnectError,
    ForbiddenError,
    NotFoundError,
    TimedOutError,
    UnreachableError,
)
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorState,
    ConnectorStatus,
    ConnectorType,
    RunState,
    TaskId,
    TaskInfo,
    TaskState,
    offsets_from_json,
    offsets_to_json,
)

if TYPE_CHECKING:
    import ssl

    import httpx2

__all__ = ["ClientAccess", "ConnectClient"]

T = TypeVar("T")

# A worker gives up after 90 s (Java's REST request timeout); a little more, so that its answer is the one we show
_REQUEST_TIMEOUT_S = 95.0
# Enough for one lost SYN (1 s) and its repetition
_CONNECT_TIMEOUT_S = 3.0
_BROKEN_OFF = {
    False: "Is it a Kafka Connect worker that speaks http there, and does it still run?",
    True: "Does it ask for a client certificate, and trust ours? (ssl.client.auth of the worker, cert of the context)",
}
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class ClientAccess:
    """Who we are to a worker and whom we trust: basic auth, and PEM files for https.

    `ca` replaces the system's certificates; `cert` with `key` (or both in one file) is shown to a worker that asks;
    `key_password` opens a key under a passphrase.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)


class ConnectClient:
    """Speaks to one worker. Threads: one client may be used by one thread at a time.

    Errors of every method: UnreachableError, TimedOutError, NotFoundError, AlreadyExistsError, ConflictError (409),
    BadRequestError (400), ConnectError for anything else, with the worker's own message.
    `retry_conflicts_s`: how long to try again while a rebalance runs (409); 0 does not.
    `access`: credentials and certificates. `transport`: what carries the requests instead of the network, for tests.
    """

    def __init__(
        self,
        url: str = "http://localhost:8083",
        *,
        timeout_s: float = _REQUEST_TIMEOUT_S,
        connect_timeout_s: float = _CONNECT_TIMEOUT_S,
        retry_conflicts_s: float = 0.0,
        clock: Clock | None = None,
        access: ClientAccess | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self.url = _checked(url)
        self._access = access or ClientAccess()
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._retry_conflicts_s = retry_conflicts_s
        self._clock = clock or SystemClock()
        self._transport = transport
        self._http: httpx2.Client | None = None

    def server_info(self) -> dict[str, Any]:
        """`GET /`: version, commit, kafka_cluster_id."""
        return self._read("GET", "/", _as_object)

    def health(self) -> dict[str, Any]:
        """`GET /health`: status (healthy, starting, unhealthy) and message; never an error while the worker answers."""
        response = self._send("GET", "/health")
        if response.status_code not in (200, 500, 503):
            self._raise_for(response)
        return _as_object(self._json(response))

    def connectors(self) -> list[str]:
        """Names of all connectors."""
        return self._read("GET", "/connectors", lambda body: [str(name) for name in _as_list(body)])

    def connector_statuses(self) -> dict[str, ConnectorStatus]:
        """Statuses of all connectors in one request."""
        return self._read(
            "GET",
            "/connectors?expand=status",
            lambda body: {name: _status(item["status"]) for name, item in _as_object(body).items()},
        )

    def connector_infos(self) -> dict[str, ConnectorInfo]:
        """Configs and task ids of all connectors in one request."""
        return self._read(
            "GET",
            "/connectors?expand=info",
            lambda body: {name: _info(item["info"]) for name, item in _as_object(body).items()},
        )

    def connector(self, name: str) -> ConnectorInfo:
        """Config and task ids of one connector."""
        return self._read("GET", _path(name), _info)

    def connector_config(self, name: str) -> dict[str, str]:
        """Config of one connector."""
        return self._read("GET", _path(name, "config"), _as_object)

    def connector_status(self, name: str) -> ConnectorStatus:
        """What a connector and its tasks were seen doing."""
        return self._read("GET", _path(name, "status"), _status)

    def create_connector(
        self, name: str, config: Mapping[str, str], *, initial_state: str | None = None
    ) -> ConnectorInfo:
        """Create a connector, RUNNING unless `initial_state` is PAUSED or STOPPED. Errors: AlreadyExistsError."""
        body: dict[str, Any] = {"name": name, "config": dict(config)}
        if initial_state is not None:
            body["initial_state"] = initial_state
        return self._read("POST", "/connectors", _info, body)

    def put_connector_config(self, name: str, config: Mapping[str, str]) -> ConnectorInfo:
        """Create a connector, or replace its config."""
        return self._read("PUT", _path(name, "config"), _info, dict(config))

    def patch_config(self, name: str, changes: Mapping[str, str | None]) -> ConnectorInfo:
        """Change some settings of a connector; None removes one. Gives the connector as it is then."""
        return self._read("PATCH", _path(name, "config"), _info, dict(changes))

    def delete_connector(self, name: str) -> None:
        """Stop a connector and forget its config; its offsets stay."""
        self._do("DELETE", _path(name))

    def pause_connector(self, name: str) -> None:
        """Tasks stay where they are and idle. Returns before they have paused."""
        self._do("PUT", _path(name, "pause"))

    def resume_connector(self, name: str) -> None:
        """Run a paused or stopped connector. Returns before its tasks run."""
        self._do("PUT", _path(name, "resume"))

    def stop_connector(self, name: str) -> None:
        """End all tasks; the config stays."""
        self._do("PUT", _path(name, "stop"))

    def restart_connector(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus | None:
        """Restart a connector; with one of the flags by a plan, whose status is given back."""
        path = _path(name, "restart")
        if not (include_tasks or only_failed):
            self._do("POST", path)
            return None
        flags = f"?includeTasks={str(include_tasks).lower()}&onlyFailed={str(only_failed).lower()}"
        return self._read("POST", path + flags, _status)

    def topics(self, name: str) -> list[str]:
        """Topics a connector was seen to use. Errors: ConnectError when the worker does not track them."""
        return self._read("GET", _path(name, "topics"), lambda body: _topics(body, name))

    def reset_topics(self, name: str) -> None:
        """Forget the topics a connector was seen to use. Errors: ConnectError when the worker does not allow it."""
        self._do("PUT", _path(name, "topics", "reset"))

    def tasks(self, name: str) -> list[TaskInfo]:
        """Tasks of a connector with their configs."""
        return self._read("GET", _path(name, "tasks"), lambda body: [_task_info(item) for item in _as_list(body)])

    def task_status(self, task: TaskId) -> TaskState:
        """What one task was seen doing."""
        return self._read("GET", _path(task.connector, "tasks", str(task.task), "status"), _task_state)

    def restart_task(self, task: TaskId) -> None:
        """Restart one task."""
        self._do("POST", _path(task.connector, "tasks", str(task.task), "restart"))

    def connector_offsets(self, name: str) -> list[ConnectorOffset]:
        """Committed offsets of a connector."""
        return self._read("GET", _path(name, "offsets"), offsets_from_json)

    def alter_connector_offsets(self, name: str, offsets: Sequence[ConnectorOffset]) -> str:
        """Set offsets of a STOPPED connector; offset None resets that partition. Gives the worker's message."""
        return self._read("PATCH", _path(name, "offsets"), _message, offsets_to_json(offsets))

    def reset_connector_offsets(self, name: str) -> str:
        """Forget all offsets of a STOPPED connector. Gives the worker's message."""
        return self._read("DELETE", _path(name, "offsets"), _message)

    def plugins(self, *, connectors_only: bool = True) -> list[dict[str, Any]]:
        """Plugins of the worker: class, type, version."""
        query = "" if connectors_only else "?connectorsOnly=false"
        return self._read(
            "GET", f"/connector-plugins{query}", lambda body: [_as_object(item) for item in _as_list(body)]
        )

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        """Settings of one plugin of any type: name, type, required, default_value, importance, documentation, .."""
        query = f"?version={quote(version, safe='')}" if version is not None else ""
        path = f"/connector-plugins/{_segment(plugin)}/config{query}"
        return self._read("GET", path, lambda body: [_as_object(item) for item in _as_list(body)])

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> dict[str, Any]:
        """What a worker finds wrong with a connector's config, without creating it.

        Shape: name, error_count, groups, configs: [{definition, value: {name, value, recommended_values, errors,
        visible}}, ..].
        """
        return self._read("PUT", f"/connector-plugins/{_segment(plugin)}/config/validate", _as_object, dict(config))

    def slots(self) -> list[dict[str, Any]]:
        """Where tasks run; NotFoundError from a worker that has no slots, such as Java's."""
        return self._read("GET", "/admin/slots", _as_list)

    def loggers(self) -> dict[str, dict[str, Any]]:
        """Loggers of the worker that have a level of their own: name -> level, last_modified (epoch ms or None)."""
        return self._read("GET", "/admin/loggers", _as_object)

    def logger(self, name: str) -> dict[str, Any]:
        """One logger: level, last_modified."""
        return self._read("GET", f"/admin/loggers/{_segment(name)}", _as_object)

    def set_logger(self, name: str, level: str, *, scope: str | None = None) -> list[str]:
        """Set the level of a logger and of those below it; gives their names.

        `scope`: "worker" (as without), or "cluster", whose names are not told: an empty list.
        """
        query = f"?scope={quote(scope, safe='')}" if scope is not None else ""
        response = self._send("PUT", f"/admin/loggers/{_segment(name)}{query}", {"level": level})
        self._raise_for(response)
        if response.status_code == 204:
            return []
        try:
            return [str(changed) for changed in _as_list(self._json(response))]
        except TypeError as err:
            raise self._foreign(response) from err

    def close(self) -> None:
        """Close connections. The client may be used again."""
        if self._http is not None:
            self._http.close()
            self._http = None

    def __enter__(self) -> ConnectClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def _do(self, method: str, path: str) -> None:
        self._raise_for(self._send(method, path))

    def _read(self, method: str, path: str, parse: Callable[[Any], T], body: object = None) -> T:
        response = self._send(method, path, body)
        self._raise_for(response)
        try:
            return parse(self._json(response))
        except (KeyError, TypeError, ValueError, AttributeError, BadRequestError) as err:
            raise self._foreign(response) from err

    def _send(self, method: str, path: str, body: object = None) -> httpx2.Response:
        """One request, again while it meets a conflict that may pass and there is time."""
        deadline = self._clock.monotonic() + self._retry_conflicts_s
        pause_s = _FIRST_PAUSE_S
        while True:
            response = self._send_once(method, path, body)
            if response.status_code != 409 or _is_taken(_message_of(response)):
                return response
            if self._clock.monotonic() + pause_s > deadline:
                return response
            self._clock.wait(threading.Event(), pause_s)
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)

    def _send_once(self, method: str, path: str, body: object) -> httpx2.Response:
        import httpx2

        if self._http is None:
            self._http = self._new_http()
        try:
            return self._http.request(method, self.url + path, json=body)
        except httpx2.ConnectTimeout as err:
            raise self._unreachable(f"no connection within {self._connect_timeout_s:g} s") from err
        except httpx2.TimeoutException as err:
            raise TimedOutError(
                f"{self.url} did not answer {method} {path} within {self._timeout_s:g} s",
                hint="The worker may still carry it out: look at its state and its log before you try again.",
            ) from err
        except httpx2.ConnectError as err:
            raise self._untrusted(err) or self._unreachable(_reason(err)) from err
        except httpx2.TransportError as err:
            raise self._untrusted(err) or UnreachableError(
                f"{self.url} broke off {method} {path}: {err}",
                hint=_BROKEN_OFF[self.url.startswith("https:")],
            ) from err

    def _new_http(self) -> httpx2.Client:
        import ssl

        import httpx2

        secure = self.url.startswith("https:")
        access = self._access
        return httpx2.Client(
            timeout=httpx2.Timeout(self._timeout_s, connect=self._connect_timeout_s),
            headers={"accept": "application/json"},
            # Loading the CA certificates costs 25 ms, which plain http does not need
            verify=_trust(access) if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            auth=httpx2.BasicAuth(access.user, access.password or "") if access.user is not None else None,
            # Workers stand next to us: no proxies or .netrc from the environment
            trust_env=False,
            follow_redirects=False,
            transport=self._transport,
        )

    def _unreachable(self, reason: str) -> UnreachableError:
        return UnreachableError(
            f"Nobody answers at {self.url} ({reason})",
            hint="Is the worker running? `connect standalone` starts one; --url or KCONNECT_URL names another.",
        )

    def _untrusted(self, err: Exception) -> UnreachableError | None:
        """What is wrong with the certificates of one side, or with TLS as such; None when it is something else."""
        text = str(err)
        if found := re.search(r"certificate verify failed: (.+?)(?: \(_ssl|$)", text):
            return UnreachableError(
                f"{self.url} shows a certificate that is not trusted: {found[1].rstrip('.')}",
                hint="Name the authority that signed it (ca=FILE of the context), or have the certificate renewed.",
            )
        if "CERTIFICATE_REQUIRED" in text or "HANDSHAKE_FAILURE" in text or "UNKNOWN_CA" in text:
            return UnreachableError(
                f"{self.url} wants another client certificate: {text}",
                hint="Name one it trusts, with its key (cert=FILE and key=FILE of the context).",
            )
        if "[SSL: " in text and ("WRONG_VERSION_NUMBER" in text or "RECORD_LAYER_FAILURE" in text):
            return UnreachableError(
                f"{self.url} does not speak https", hint="Is it http there? See `listeners` of the worker."
            )
        return None

    def _raise_for(self, response: httpx2.Response) -> None:
        status = response.status_code
        if status < 300:
            return
        message = _message_of(response)
        if status == 401 or (status == 403 and message is None):
            who = f"user {self._access.user}" if self._access.user else "a caller without a user"
            raise ConnectError(
                f"{self.url} refuses {who} ({status})",
                hint="Give it a user and a password that this worker knows: connect contexts add NAME --user USER ..",
            )
        if message is None:
            raise self._foreign(response)
        if status == 404:
            raise NotFoundError(message)
        if status == 403:
            raise ForbiddenError(message)
        if status == 409:
            raise AlreadyExistsError(message) if _is_taken(message) else ConflictError(message)
        if status in (400, 413, 415):
            raise BadRequestError(message)
        if status == 500 and message.startswith("Request timed out"):
            raise TimedOutError(message)
        raise ConnectError(message)

    def _json(self, response: httpx2.Response) -> Any:
        try:
            return response.json()
        except ValueError as err:
            raise self._foreign(response) from err

    def _foreign(self, response: httpx2.Response) -> ConnectError:
        return ConnectError(
            f"{self.url} answered {response.request.method} {response.request.url.raw_path.decode()} with "
            f"{response.status_code} and something that Kafka Connect does not say",
            hint="Is that the URL of a Kafka Connect worker?",
        )


def _trust(access: ClientAccess) -> ssl.SSLContext:
    """What TLS checks and shows. Errors: ConfigError that names the file."""
    import ssl

    try:
        context = ssl.create_default_context(cafile=access.ca)
    except (OSError, ssl.SSLError) as err:
        raise ConfigError(f"{access.ca} can not be used as CA certificates: {err}", hint="It holds PEM text.") from err
    if access.cert is not None:
        try:
            # Without a password OpenSSL would ask the terminal for the one of a locked key
            context.load_cert_chain(access.cert, access.key, access.key_password or "")
        except (OSError, ssl.SSLError) as err:
            names = access.cert if access.key is None else f"{access.cert} and {access.key}"
            raise ConfigError(
                f"{names} can not be used as a certificate with its key: {err}",
                hint="Both hold PEM text; a key under a passphrase needs its password.",
            ) from err
    return context


def _checked(url: str) -> str:
    """The URL without a slash at its end; `host:port` alone means http."""
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid:
        raise BadRequestError(f"{url} is no URL of a worker", hint="It looks like http://localhost:8083.")
    return full.rstrip("/")


def _path(name: str, *rest: str) -> str:
    """Path below a connector."""
    return "/".join(("/connectors", _segment(name), *rest))


def _segment(name: str) -> str:
    """One segment of a path. A name of dots is encoded too, or it would mean a folder."""
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")


def _message_of(response: httpx2.Response) -> str | None:
    """The `message` of an error body, or None when it is no error body of Connect."""
    try:
        body = response.json()
    except ValueError:
        return None
    if not isinstance(body, dict) or "error_code" not in body:
        return None
    return str(body.get("message"))


def _is_taken(message: str | None) -> bool:
    return message is not None and message.endswith("already exists")


def _reason(err: Exception) -> str:
    text = str(err)
    return "connection refused" if "refused" in text else text


def _as_object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise TypeError("no object")
    return body


def _as_list(body: Any) -> list[Any]:
    if not isinstance(body, list):
        raise TypeError("no list")
    return body


def _message(body: Any) -> str:
    return str(_as_object(body)["message"])


def _topics(body: Any, name: str) -> list[str]:
    return [str(topic) for topic in _as_list(_as_object(_as_object(body)[name])["topics"])]


def _type(body: Mapping[str, Any]) -> ConnectorType:
    return ConnectorType(body.get("type") or "unknown")


def _info(body: Any) -> ConnectorInfo:
    tasks = tuple(TaskId(task["connector"], task["task"]) for task in body["tasks"])
    return ConnectorInfo(body["name"], body["config"], tasks, _type(body))


def _task_info(body: Any) -> TaskInfo:
    return TaskInfo(TaskId(body["id"]["connector"], body["id"]["task"]), body["config"])


def _task_state(body: Any) -> TaskState:
    return TaskState(
        body["id"], RunState(body["state"]), body["worker_id"], body.get("trace") or None, body.get("version")
    )


def _status(body: Any) -> ConnectorStatus:
    own = body["connector"]
    return ConnectorStatus(
        name=body["name"],
        connector=ConnectorState(
            RunState(own["state"]), own["worker_id"], own.get("trace") or None, own.get("version")
        ),
        tasks=tuple(_task_state(task) for task in body["tasks"]),
        type=_type(body),
    )

"""A worker's settings for its REST server, read once: users, origins, listeners and TLS."""

from __future__ import annotations

import csv
import ipaddress
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kconnect.client.trust import trusting
from kconnect.errors import ConfigError
from kconnect.runtime.config.own_worker_keys import own_topics
from kconnect.runtime.config.worker_config import WorkerConfig
from kconnect.runtime.rest.access.access import Gatekeeper
from kconnect.runtime.rest.access.limits import Host
from kconnect.runtime.rest.access.principals import SETTING as PRINCIPALS
from kconnect.runtime.rest.access.principals import PrincipalRules
from kconnect.runtime.rest.access.roles_file import SETTING as ROLES
from kconnect.runtime.rest.access.roles_file import RolesFile
from kconnect.runtime.rest.audit.changes import shared_changes
from kconnect.runtime.rest.audit.trail import AuditTrail, audit_trail
from kconnect.runtime.rest.connection import ConnectionLimits
from kconnect.runtime.rest.cors import CrossOrigin, OwnPages, origin_check
from kconnect.runtime.rest.extensions import load_extensions
from kconnect.runtime.rest.jaas import LoginFile, users_files
from kconnect.runtime.rest.security import EXTENSION, BasicAuth, find_login, is_basic_auth, jaas_file
from kconnect.runtime.rest.tls import peer_context, server_context, tls_settings

if TYPE_CHECKING:
    from kconnect.api import ConnectRestExtension
    from kconnect.runtime.plugins import PluginRegistry

MAIN_TLS: Final = "listeners.https."
ADMIN_TLS: Final = "admin.listeners.https."
_SIGNED: Final = "sessioned"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOptions:
    """`admin_listeners`: None serves /admin with the rest, empty serves it nowhere. `tls` is for https listeners."""

    admin_listeners: Sequence[str] | None = None
    tls: ssl.SSLContext | None = None
    admin_tls: ssl.SSLContext | None = None
    allowed_origins: str = ""
    allowed_methods: str = ""
    header_rules: Sequence[HeaderRule] = ()
    login: LoginFile | None = None
    extensions: Sequence[ConnectRestExtension] = ()
    """Configured, in order."""
    gatekeeper: Gatekeeper = field(default_factory=Gatekeeper)
    """Who may do what."""
    trail: AuditTrail | None = None
    """Started and stopped by the server."""
    changes: AuditTrail | None = None
    """Keeps what the cluster shares; started and stopped likewise."""
    rate: tuple[float, int] | None = None
    """Requests a second and at once that a caller may send; None: any."""
    namespace: str | None = None
    """The path below which other workers of a MirrorMaker flow ask; all else is for this machine alone then."""
    connections: ConnectionLimits = field(default_factory=ConnectionLimits)
    peer_tls: Callable[[], ssl.SSLContext] = field(default=trusting, repr=False)
    """Makes what other workers of the cluster are shown, and how they are checked, over https."""
    peer_scheme: str | None = None
    """http or https of rest.advertised.listener; None: http if there is such a listener."""
    forward_answer_s: float = 3.0
    """How long a worker that a request is forwarded to may be silent."""

    @classmethod
    def parse(cls, config: WorkerConfig, env: Mapping[str, str], plugins: PluginRegistry | None = None) -> RestOptions:
        """Errors: ConfigError that names the setting, before anything is bound. `plugins` finds REST extensions."""
        origin_check(config.access_control_allow_origin)
        names: Sequence[str] = config.values["rest.extension.classes"]
        others = [name for name in names if not is_basic_auth(name)]
        login, own = find_login(names, config.kconnect.jaas_file, env), config.kconnect
        trail, changes = audit_trail(config), shared_changes(config)
        return cls(
            admin_listeners=config.admin_listeners,
            tls=server_context(config.originals, MAIN_TLS) if _has_https(config.listeners) else None,
            admin_tls=server_context(config.originals, ADMIN_TLS) if _has_https(config.admin_listeners) else None,
            allowed_origins=config.access_control_allow_origin,
            allowed_methods=config.access_control_allow_methods,
            header_rules=parse_rules(config.response_http_headers_config),
            login=login,
            gatekeeper=_gatekeeper(
                config,
                login is not None or bool(others),
                plugins,
                is_auditing=trail is not None,
                is_keeping=changes is not None,
            ),
            trail=trail,
            changes=changes,
            rate=(own.rest_requests_per_second, own.rest_requests_burst) if own.rest_requests_per_second else None,
            namespace=own.rest_namespace,
            connections=ConnectionLimits(
                own.rest_max_connections,
                own.rest_request_read_timeout_ms / 1000,
                own.rest_idle_timeout_ms / 1000,
                own.rest_max_header_bytes,
            ),
            extensions=load_extensions(others, plugins, config.originals, EXTENSION.rpartition(".")[2]),
            peer_scheme=(config.values["rest.advertised.listener"] or "").strip().lower() or None,
            peer_tls=peer_context(config.originals, MAIN_TLS),
            forward_answer_s=own.forward_answer_timeout_ms / 1000,
        )

    def around_main(self, app: ASGIApp, refused: Callable[[Scope], Response | None] = lambda _: None) -> ASGIApp:
        """The application as `listeners` serve it. What comes last here sees a request first, as in Java."""
        app = self.around_admin(app, refused)
        if self.header_rules:
            app = ResponseHeaders(app, self.header_rules)
        if self.allowed_origins.strip():
            app = CrossOrigin(app, self.allowed_origins, self.allowed_methods)
        return app if self.namespace is None else Namespace(app, self.namespace)

    def around_admin(self, app: ASGIApp, refused: Callable[[Scope], Response | None] = lambda _: None) -> ASGIApp:
        """The application as `admin.listeners` serve it: for operators, not for browsers."""
        app = OwnPages(app, self.allowed_origins)
        return BasicAuth(app, self.login, refused) if self.login is not None else app


def _host(config: WorkerConfig, plugins: PluginRegistry | None) -> Host:
    providers = frozenset(config.values["config.providers"] or ())
    group = config.originals.get("group.id")
    host = Host(
        own_topics=frozenset(own_topics(config.originals)),
        providers=providers,
        group=group,
        has_login=any(key.endswith("sasl.jaas.config") for key in config.originals),
    )
    return host if plugins is None else replace(host, full_name=plugins.known_as, passwords=plugins.password_keys)


def guarded_files(config: WorkerConfig, env: Mapping[str, str]) -> list[str]:
    """The files of who may log in, who may do what, and what was done: for no connector to read or write.

    Errors: ConfigError for a JAAS file that cannot be read.
    """
    own = config.kconnect
    jaas, setting = jaas_file(own.jaas_file, env)
    users = [] if jaas is None else users_files(jaas, setting)
    return [file for file in (own.rest_roles_file, own.audit_log_file, jaas, *users) if file]


def _gatekeeper(
    config: WorkerConfig,
    knows_callers: bool,
    plugins: PluginRegistry | None,
    *,
    is_auditing: bool,
    is_keeping: bool,
) -> Gatekeeper:
    """Errors: ConfigError for roles that can never be anybody's, or that a cluster's own requests would go around."""
    settings, found = tls_settings(config.originals, MAIN_TLS)
    rules = PrincipalRules.parse(settings.get(PRINCIPALS), f"{found}{PRINCIPALS}")
    if not (file := config.kconnect.rest_roles_file):
        return Gatekeeper(None, rules, is_auditing=is_auditing, is_keeping=is_keeping)
    roles = RolesFile(Path(file))
    asks = (settings.get("ssl.client.auth") or "none") != "none" and _has_https(config.listeners)
    if not (knows_callers or asks or roles.roles().knows_anonymous()):
        raise ConfigError(
            f"{ROLES}={file} gives roles to users, and nobody could say who he is.",
            hint=f"Set rest.extension.classes={EXTENSION.rpartition('.')[2]} or listeners.https.ssl.client.auth.",
        )
    protocol = str(config.values.get("connect.protocol", _SIGNED)).lower()
    if protocol != _SIGNED:
        raise ConfigError.invalid(
            "connect.protocol",
            protocol,
            f"with {ROLES} it must be {_SIGNED}: else workers do not sign their requests to each other, and anybody "
            "could send these without a role",
        )
    return Gatekeeper(roles, rules, is_auditing=is_auditing, is_keeping=is_keeping, host=_host(config, plugins))


def _has_https(listeners: Sequence[str] | None) -> bool:
    return any(listener.strip().lower().startswith("https:") for listener in listeners or ())


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One rule; `replaces` an earlier value (set, setDate), `is_date` counts from now."""

    name: str
    value: str
    replaces: bool
    is_date: bool = False

    def text(self, now_s: float) -> str:
        return formatdate(now_s + int(self.value) / 1000, usegmt=True) if self.is_date else self.value


def parse_rules(text: str) -> tuple[HeaderRule, ...]:
    """Rules of the setting, whose form was already validated. Errors: ConfigError for a date."""
    if not text.strip():
        return ()
    return tuple(_rule(rule) for rule in next(csv.reader([text], skipinitialspace=True)))


def _rule(text: str) -> HeaderRule:
    action, header = text.strip().split(None, 1)
    name, _, value = header.strip().rstrip(":").partition(":")
    is_date = action.lower().endswith("date")
    if is_date and not re.fullmatch(r"-?\d{1,15}", value.strip()):
        raise ConfigError.invalid("response.http.headers.config", text.strip(), "a date takes milliseconds from now")
    if not value.isprintable() or not (name + value).isascii():
        raise ConfigError.invalid("response.http.headers.config", text.strip(), "headers are printable ASCII")
    return HeaderRule(name.strip(), value.strip(), action.lower().startswith("set"), is_date)


class ResponseHeaders:
    """Adds headers to every answer. The application's own headers win over `set`, as they are written later."""

    def __init__(self, app: ASGIApp, rules: Sequence[HeaderRule]) -> None:
        self._app = app
        self._rules = tuple(rules)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.get("headers", [])
                message = {**message, "headers": _joined(self._rules, own, time.time())}
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _joined(rules: Sequence[HeaderRule], own: Sequence[tuple[bytes, bytes]], now_s: float) -> list[tuple[bytes, bytes]]:
    headers = MutableHeaders(raw=[])
    for rule in rules:
        if rule.replaces:
            headers[rule.name] = rule.text(now_s)
        else:
            headers.append(rule.name, rule.text(now_s))
    given = {name for name, _ in own}
    return [item for item in headers.raw if item[0] not in given] + list(own)


_OF_PEERS: Final = re.compile(rb"/connectors/[^/]+/(tasks|fence)")
_FOR_ALL: Final = (b"/health",)


class Namespace:
    """The REST server of a MirrorMaker flow's worker, which has many flows' workers for neighbours.

    Workers of one flow ask each other below the flow's `path`, such as `/east/west`, as Java's do; for anybody else
    there is this machine alone. Threads: the event loop.
    Source: InternalMirrorResource (Kafka 4.3). Differs: Java's has no other endpoints at all.
    """

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        inner = raw.removeprefix(self._path)
        if len(inner) < len(raw) and _OF_PEERS.fullmatch(inner):
            await self._app({**scope, "raw_path": inner, "path": unquote(inner.decode())}, receive, send)
        elif _is_here(scope) or raw in _FOR_ALL:
            await self._app(scope, receive, send)
        else:
            text = "Only the workers of its own flow may ask the worker of a mirror from another machine"
            await JSONResponse({"error_code": 403, "message": text}, 403)(scope, receive, send)


def _is_here(scope: Scope) -> bool:
    host = (scope.get("client") or ("", 0))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # an IPv4 caller of a socket for both
    return (mapped or address).is_loopback

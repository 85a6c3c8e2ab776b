"""A worker's settings for its REST server, read once: users, origins, listeners and TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp

from kconnect.config.worker_config import WorkerConfig
from kconnect.rest.cors import CrossOrigin, origin_check
from kconnect.rest.extensions import load_extensions
from kconnect.rest.headers import HeaderRule, ResponseHeaders, parse_rules
from kconnect.rest.jaas import Login
from kconnect.rest.security import EXTENSION, BasicAuth, find_login, is_basic_auth
from kconnect.rest.tls import peer_context, server_context

if TYPE_CHECKING:
    from kconnect.api import ConnectRestExtension
    from kconnect.plugins import PluginRegistry

MAIN_TLS: Final = "listeners.https."
ADMIN_TLS: Final = "admin.listeners.https."


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOptions:
    """`admin_listeners`: None serves /admin with the rest, empty serves it nowhere. `tls` is for https listeners."""

    admin_listeners: Sequence[str] | None = None
    tls: ssl.SSLContext | None = None
    admin_tls: ssl.SSLContext | None = None
    allowed_origins: str = ""
    allowed_methods: str = ""
    header_rules: Sequence[HeaderRule] = ()
    login: Login | None = None
    extensions: Sequence[ConnectRestExtension] = ()
    """Configured, in order."""
    peer_tls: Callable[[], ssl.SSLContext] = field(default=ssl.create_default_context, repr=False)
    """Makes what other workers of the cluster are shown, and how they are checked, over https."""
    peer_scheme: str | None = None
    """http or https of rest.advertised.listener; None: http if there is such a listener."""

    @classmethod
    def parse(cls, config: WorkerConfig, env: Mapping[str, str], plugins: PluginRegistry | None = None) -> RestOptions:
        """Errors: ConfigError that names the setting, before anything is bound. `plugins` finds REST extensions."""
        origin_check(config.access_control_allow_origin)
        names: Sequence[str] = config.values["rest.extension.classes"]
        others = [name for name in names if not is_basic_auth(name)]
        return cls(
            admin_listeners=config.admin_listeners,
            tls=server_context(config.originals, MAIN_TLS) if _has_https(config.listeners) else None,
            admin_tls=server_context(config.originals, ADMIN_TLS) if _has_https(config.admin_listeners) else None,
            allowed_origins=config.access_control_allow_origin,
            allowed_methods=config.access_control_allow_methods,
            header_rules=parse_rules(config.response_http_headers_config),
            login=find_login(names, config.kconnect.jaas_file, env),
            extensions=load_extensions(others, plugins, config.originals, EXTENSION.rpartition(".")[2]),
            peer_scheme=(config.values["rest.advertised.listener"] or "").strip().lower() or None,
            peer_tls=partial(peer_context, config.originals, MAIN_TLS),
        )

    def around_main(self, app: ASGIApp) -> ASGIApp:
        """The application as `listeners` serve it. What comes last here sees a request first, as in Java."""
        app = self.around_admin(app)
        if self.header_rules:
            app = ResponseHeaders(app, self.header_rules)
        if self.allowed_origins.strip():
            app = CrossOrigin(app, self.allowed_origins, self.allowed_methods)
        return app

    def around_admin(self, app: ASGIApp) -> ASGIApp:
        """The application as `admin.listeners` serve it: for operators, not for browsers."""
        return BasicAuth(app, self.login) if self.login is not None else app


def _has_https(listeners: Sequence[str] | None) -> bool:
    return any(listener.strip().lower().startswith("https:") for listener in listeners or ())

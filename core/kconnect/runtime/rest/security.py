"""Basic authentication, as Java's BasicAuthSecurityRestExtension does it: `rest.extension.classes` and a JAAS file.

Differs: admin listeners ask for the user too, preflights of browsers do not (they carry no user), the answer 401 is
JSON and names the scheme in `WWW-Authenticate`.
"""

from __future__ import annotations

import base64
import binascii
import logging
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kconnect.api.rest_extension import USER
from kconnect.errors import ConfigError
from kconnect.runtime.rest.access.access import CHALLENGE
from kconnect.runtime.rest.cors import is_preflight
from kconnect.runtime.rest.jaas import LoginFile
from kconnect.runtime.rest.problems import error_body

log = logging.getLogger(__name__)

EXTENSION: Final = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
_SETTING: Final = "kconnect.jaas.file"
_PROPERTY: Final = "java.security.auth.login.config"
# Where the scripts of a Kafka release and the JVM itself take system properties from; the later one wins in Java
_VARIABLES: Final = ("JAVA_TOOL_OPTIONS", "KAFKA_OPTS")


def is_basic_auth(extension: str) -> bool:
    """Whether this is a name of the extension that is built in."""
    return extension.rpartition(".")[2] == EXTENSION.rpartition(".")[2]


def find_login(extensions: Sequence[str], file: str | None, env: Mapping[str, str]) -> LoginFile | None:
    """Who may call REST by the worker's settings; None when everybody may. Errors: ConfigError.

    `file` is the setting kconnect.jaas.file.
    """
    wanted = [name for name in extensions if is_basic_auth(name)]
    if not wanted:
        return None
    found, setting = jaas_file(file, env)
    if found is None:
        raise ConfigError(
            f"rest.extension.classes={wanted[0]} needs a JAAS file, and none is named.",
            hint=f"Set {_SETTING}=FILE in the worker's properties, or KAFKA_OPTS=-D{_PROPERTY}=FILE around it.",
        )
    return LoginFile(found, setting)


def jaas_file(setting: str | None, env: Mapping[str, str]) -> tuple[str | None, str]:
    """The JAAS file and where it is named: the setting, else the system property that Java's worker would have."""
    if setting:
        return setting, _SETTING
    found: tuple[str | None, str] = (None, _SETTING)
    for variable in _VARIABLES:
        try:
            words = shlex.split(env.get(variable, ""))
        except ValueError as err:
            raise ConfigError(f"The environment variable {variable} cannot be read: {err}.") from err
        for word in words:
            if word.startswith(f"-D{_PROPERTY}="):
                value = word.partition("=")[2].removeprefix("=").removeprefix("file:")
                found = (value, f"-D{_PROPERTY} in {variable}")
    return found


class BasicAuth:
    """Lets requests through to the application that carry a known user and password, and answers 401 to others."""

    def __init__(
        self, app: ASGIApp, login: LoginFile, refused: Callable[[Scope], Response | None] = lambda _: None
    ) -> None:
        """`refused` hears of who is not let in, and may give another answer than 401."""
        self._app = app
        self._login = login
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The user's name goes along in the scope, for roles."""
        if scope["type"] != "http" or _is_internal(scope) or is_preflight(scope):
            await self._app(scope, receive, send)
            return
        if (user := self._user(scope)) is not None:
            await self._app({**scope, USER: user}, receive, send)
            return
        log.debug("%s %s without a known user", scope["method"], scope["path"])
        headers = {"www-authenticate": CHALLENGE}
        body = error_body(401, "User cannot access the resource.")
        answer = self._refused(scope) or Response(body, 401, headers, media_type="application/json")
        await answer(scope, receive, send)

    def _user(self, scope: Scope) -> str | None:
        found = credentials(Headers(scope=scope).get("authorization"))
        return found[0] if found is not None and self._login.admits(*found) else None


def credentials(header: str | None) -> tuple[str, str] | None:
    """User and password of an Authorization header, None when it has no such. Source: BasicAuthCredentials."""
    scheme, _, encoded = (header or "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return None
    return (user, password) if colon and user else None


def _is_internal(scope: Scope) -> bool:
    """Requests between workers, which are signed instead. Source: JaasBasicAuthFilter.INTERNAL_REQUEST_MATCHERS."""
    parts = scope["raw_path"].decode("latin-1").strip("/").split("/")
    if len(parts) != 3 or parts[0] != "connectors" or not parts[1]:
        return False
    return (scope["method"], parts[2]) in (("POST", "tasks"), ("PUT", "fence"))

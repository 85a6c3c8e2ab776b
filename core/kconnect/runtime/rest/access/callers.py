"""Who calls: what authentication left in the ASGI scope of a request.

A guard (basic auth, the middleware of an extension) puts the user's name under USER. The server puts the subject of a
client certificate under the extension `tls` of ASGI; rules turn it into a name, as Kafka's brokers do. A user wins over
a certificate. Whoever dispatches a request of its own into the application (a page of the console) takes both along
from the scope of the request it answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.types import Scope

from kconnect.api.rest_extension import USER
from kconnect.runtime.rest.access.principals import PrincipalRules

ANONYMOUS: Final = "ANONYMOUS"
"""Who has neither a user nor a certificate, in roles and in the audit log, as in Kafka."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request: `name` is None for who did not say. `address` is the other end of the connection."""

    name: str | None = None
    address: str = ""

    def __str__(self) -> str:
        return ANONYMOUS if self.name is None else self.name


def caller_of(scope: Scope, rules: PrincipalRules) -> Caller:
    """Errors: none; a certificate that no rule applies to is nobody's."""
    client = scope.get("client")
    address = str(client[0]) if client else ""
    if user := scope.get(USER):
        return Caller(str(user), address)
    subject = certificate_subject(scope)
    return Caller(None if subject is None else rules.name_of(subject), address)


def certificate_subject(scope: Scope) -> str | None:
    """The distinguished name in the client's certificate (RFC 4514), None without one."""
    subject = scope.get("extensions", {}).get("tls", {}).get("client_cert_name")
    return str(subject) if subject else None

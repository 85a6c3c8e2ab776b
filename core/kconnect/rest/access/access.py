"""One request's caller and roles: what it may do, and the refusal if it may not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from starlette.types import Scope

from kconnect.errors import ForbiddenError
from kconnect.rest.access.callers import Caller, caller_of
from kconnect.rest.access.needs import Needs, Of, Role
from kconnect.rest.access.principals import PrincipalRules
from kconnect.rest.access.roles import Roles
from kconnect.rest.access.roles_file import SETTING, RolesFile

CHALLENGE: Final = 'Basic realm="Kafka Connect", charset="UTF-8"'
"""Header `WWW-Authenticate` of every 401."""


class DeniedError(ForbiddenError):
    """The caller may not do it: 401 if it did not say who it is, else 403."""

    def __init__(self, message: str, *, is_unknown: bool) -> None:
        super().__init__(message)
        self.status: Final = 401 if is_unknown else 403


@dataclass(frozen=True, slots=True)
class Access:
    """Who sent one request, and what it may do. Without roles everybody may do everything, as in Java."""

    caller: Caller = field(default_factory=Caller)
    roles: Roles | None = None

    @property
    def is_guarded(self) -> bool:
        """Whether roles decide at all."""
        return self.roles is not None

    def allows(self, role: Role, connector: str | None) -> bool:
        """Whether the caller has a role for a connector; None: for any."""
        return self.roles is None or self.roles.allows(self.caller, role, connector)

    def readable(self, connectors: Iterable[str]) -> list[str]:
        """Those the caller may see."""
        if self.roles is None:
            return list(connectors)
        return [name for name in connectors if self.allows(Role.READER, name)]

    def may_read(self, connector: str) -> bool:
        return self.allows(Role.READER, connector)

    def require(self, needs: Needs, connector: str | None, what: str) -> None:
        """`what` names the request, for the message. Errors: DeniedError."""
        caller, roles, role = self.caller, self.roles, needs.role
        if roles is None or needs.of is Of.PEERS:
            return
        if role is None and (caller.name is not None or roles.knows_anonymous()):
            return
        if role is not None and roles.allows(caller, role, connector):
            return
        if caller.name is None or role is None:
            raise DeniedError(
                f"{what} is for known users only: log in with user and password, or with a client certificate",
                is_unknown=True,
            )
        target = "for any connector" if connector is None else f"for connector {connector}"
        if needs.of is Of.WORKER:
            target = "for this worker"
        has = roles.highest(caller, connector)
        raise DeniedError(
            f"User {caller} lacks the role {role} {target}: {what} needs it, and {caller} "
            + (f"is only {has}" if has is not None else "has no role for it")
            + f" (setting {SETTING} of the worker)",
            is_unknown=False,
        )


OPEN: Final = Access()
"""Of a server without roles."""


class Gatekeeper:
    """Gives each request its Access. Threads: any."""

    def __init__(self, roles: RolesFile | None = None, principals: PrincipalRules | None = None) -> None:
        self.roles = roles
        self._principals = principals or PrincipalRules()

    def access(self, scope: Scope) -> Access:
        """Of the request with this scope."""
        return Access(caller_of(scope, self._principals), None if self.roles is None else self.roles.roles())

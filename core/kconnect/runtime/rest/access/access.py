"""One request's caller and roles: what it may do, and the refusal if it may not.

Requests that one worker sends another for a caller say who that is, signed with the group's session key. A certificate
stays on the connection it was shown on, and so does what an extension knows of a caller. So the worker that was asked
states the caller in one header and signs it, with method, target and body, in another. An outsider cannot make the
signature: its key is derived from the one in the config topic (KIP-507), and differs from it, so that neither signature
can stand for the other.
Differs: Java's workers forward the header Authorization alone.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

from kconnect.client.masks import masked, unmasked
from kconnect.errors import ForbiddenError
from kconnect.runtime.rest.access.callers import Caller, caller_of
from kconnect.runtime.rest.access.limits import Host, Others
from kconnect.runtime.rest.access.needs import Needs, Of, Role
from kconnect.runtime.rest.access.principals import PrincipalRules
from kconnect.runtime.rest.access.roles import Roles
from kconnect.runtime.rest.access.roles_file import SETTING, RolesFile

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
    request_id: str = ""
    """Identifies the request on every worker it comes to."""
    is_audited: bool = False
    """Whether another worker, which forwarded it, writes the audit log's line."""
    signed_caller: SignedCaller | None = None
    """What that worker says of it."""
    host: Host = field(default_factory=Host)

    @property
    def is_guarded(self) -> bool:
        """Whether roles decide at all."""
        return self.roles is not None

    def allows(self, role: Role, connector: str | None) -> bool:
        """Whether the caller has a role for a connector; None: for any."""
        return self.roles is None or self.roles.allows(self.caller, role, connector)

    def readable(self, connectors: Iterable[str]) -> list[str]:
        """The connectors that the caller may see."""
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

    def shown(
        self, config: Mapping[str, str], connector: str, of: Callable[[], Mapping[str, str]] | None = None
    ) -> dict[str, str]:
        """A config as the caller may see it: no secrets for who may not edit the connector.

        `of`: gives the connector's config, where this is a task's.
        Differs: Java knows no roles, and shows all of it to everybody.
        """
        if self.allows(Role.EDITOR, connector):
            return dict(config)
        return masked(config, self.host.passwords(config if of is None else of()))

    def require_config(
        self, config: Mapping[str, str], connector: str | None, groups: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        """Refuse a config that names what no grant of an editor of the connector allows.

        `groups`: gives the consumer groups of connectors, by their names.
        Errors: DeniedError; BadRequestError for a mask that `shown` gave, which would become the secret.
        """
        if self.roles is not None:
            unmasked(config, {}, connector or "the config")
        limits = [] if self.roles is None else self.roles.limits(self.caller, connector)
        others = Others(connector, lambda name: self.allows(Role.EDITOR, name), groups)
        beyond = [one.beyond(config, self.host, others) for one in limits]
        if not beyond or not all(beyond):
            return
        first, *more = min(beyond, key=len)
        raise DeniedError(
            f"User {self.caller} may not give connector {connector or 'of any name'} this config: {first}"
            + (f"; and {len(more)} more: {'; '.join(more)}" if more else "")
            + f" (setting {SETTING} of the worker)",
            is_unknown=False,
        )

    def require_topic(self, topic: str, what: str) -> None:
        """Refuse who may not read the records of a topic. Errors: DeniedError."""
        if self.roles is None or self.roles.reads(self.caller, topic):
            return
        raise DeniedError(
            f"User {self.caller} may not read the records of {topic}: {what} needs a grant whose records name it "
            f"(setting {SETTING} of the worker)",
            is_unknown=self.caller.name is None,
        )


OPEN: Final = Access()
"""Is that of a server without roles."""


class Gatekeeper:
    """Gives each request its Access, and tells other workers of the cluster whose requests they get. Threads: any."""

    def __init__(
        self,
        roles: RolesFile | None = None,
        principals: PrincipalRules | None = None,
        *,
        is_auditing: bool = False,
        is_keeping: bool = False,
        host: Host | None = None,
        time_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        """`is_auditing`: this worker writes an audit log; `is_keeping`: changes into the log that the cluster shares.

        `host`: what names in configs mean on it.
        """
        self.roles = roles
        self._host = host or Host()
        self._principals = principals or PrincipalRules()
        self._is_auditing = is_auditing
        self._is_keeping = is_keeping
        self._time_ms = time_ms
        self.denied = 0
        """Requests that were refused, for want of a name or a role."""

    def access(self, scope: Scope, sign: Sign | None = None) -> Access:
        """Gives the access of the request with this scope.

        Errors: ForbiddenError for a forged word of another worker.
        """
        roles = None if self.roles is None else self.roles.roles()
        signed = None
        if sign is not None and (roles is not None or self._is_auditing or self._is_keeping):
            signed = self.signed_caller(scope, sign)
        if signed is not None:
            return Access(signed.caller, roles, signed.request_id, signed.is_audited, signed, self._host)
        return Access(caller_of(scope, self._principals), roles, secrets.token_hex(8), host=self._host)

    def caller(self, scope: Scope) -> Caller:
        """Who sent the request with this scope, without what another worker may say of it."""
        return caller_of(scope, self._principals)

    def signed_caller(self, scope: Scope, sign: Sign) -> SignedCaller | None:
        """What another worker says of this request. Errors: ForbiddenError."""
        headers = Headers(scope=scope)
        if CALLER_HEADER not in headers:
            return None
        query = scope.get("query_string", b"").decode("latin-1")
        target = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        return signed_caller(sign, headers, scope["method"], target, self._time_ms())

    def headers_for(self, access: Access, sign: Sign, method: str, target: str, body: bytes) -> dict[str, str]:
        """Gives the headers of a request to another worker on behalf of this caller."""
        who = SignedCaller(access.caller, access.request_id, access.is_audited or self._is_auditing, body_digest(body))
        return signed_headers(sign, who, method, target, self._time_ms())

    def warnings(self) -> list[str]:
        """What an administrator should know, and no request fails of."""
        problem = None if self.roles is None else self.roles.problem
        return [] if problem is None else [f"The roles from before stay in force: {problem}"]


CALLER_HEADER: Final = "x-kconnect-caller"
SIGNATURE_HEADER: Final = "x-kconnect-caller-signature"
# What two workers' clocks may differ by, and a request may wait; a copy of it is worthless afterwards
_MAX_AGE_MS: Final = 300_000

Sign = Callable[[bytes], bytes | None]
"""Signs a message with the group's key; gives None while there is none."""


@dataclass(frozen=True, slots=True)
class SignedCaller:
    """What another worker says of a request. `is_audited`: it writes the audit log's line itself."""

    caller: Caller
    request_id: str
    is_audited: bool
    body_sha256: str

    def check_body(self, body: bytes) -> None:
        """Errors: ForbiddenError."""
        if hashlib.sha256(body).hexdigest() != self.body_sha256:
            raise ForbiddenError("The body of the forwarded request is not the one that was signed")


def signed_headers(sign: Sign, who: SignedCaller, method: str, target: str, now_ms: int) -> dict[str, str]:
    """Headers for a request to another worker; none while the group has no key."""
    claims = {
        "user": who.caller.name,
        "address": who.caller.address,
        "id": who.request_id,
        "audited": who.is_audited,
        "body": who.body_sha256,
        "method": method,
        "target": target,
        "at": now_ms,
    }
    stated = base64.urlsafe_b64encode(json.dumps(claims, separators=(",", ":")).encode()).decode()
    signature = sign(stated.encode())
    return {} if signature is None else {CALLER_HEADER: stated, SIGNATURE_HEADER: signature.hex()}


def signed_caller(sign: Sign, headers: Mapping[str, str], method: str, target: str, now_ms: int) -> SignedCaller | None:
    """Gives who sent a forwarded request; None if nobody says. Errors: ForbiddenError for a signature that is not the
    group's.
    """
    stated, given = headers.get(CALLER_HEADER), headers.get(SIGNATURE_HEADER)
    if stated is None:
        return None
    expected = sign(stated.encode("latin-1", "replace"))
    own = b"" if expected is None else expected.hex().encode()
    if not own or not hmac.compare_digest(own, (given or "").encode("latin-1", "replace")):
        raise ForbiddenError(
            f"{CALLER_HEADER} is not signed with this group's session key: it comes from no worker of the group, or "
            "from one that has not read the newest key yet. Try again"
        )
    claims = json.loads(base64.urlsafe_b64decode(stated))
    if (claims["method"], claims["target"]) != (method, target):
        raise ForbiddenError(f"{CALLER_HEADER} was made for another request")
    if abs(now_ms - claims["at"]) > _MAX_AGE_MS:
        raise ForbiddenError(
            f"{CALLER_HEADER} was made {abs(now_ms - claims['at']) // 1000} s from now by this worker's clock: set the "
            "clocks of the workers right"
        )
    return SignedCaller(Caller(claims["user"], claims["address"]), claims["id"], claims["audited"], claims["body"])


def body_digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()

"""Roles of users for connectors, and the file they are in: text to decisions, without I/O.

    [[grant]]
    role = "editor"
    users = ["bob", "carol"]
    connectors = ["orders-*"]
    files = ["/data/orders"]

Users are names of basic auth, of certificates (after ssl.principal.mapping.rules) and of extensions; "*" is everybody
who has a name, "ANONYMOUS" who has none. In the names of connectors `*` is any text and `?` one character.
Differs: in Java every authenticated user may do everything.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.errors import ConfigError
from kconnect.runtime.config.slot_keys import memory_bytes
from kconnect.runtime.rest.access.callers import ANONYMOUS, Caller
from kconnect.runtime.rest.access.limits import Limits
from kconnect.runtime.rest.access.needs import Role

_EVERYBODY: Final = "*"
_EVERY_CONNECTOR: Final = "*"
_NAMES: Final = ("classes", "files", "hosts", "topics", "providers", "secrets")
_NUMBERS: Final = ("tasks", "cores")
_LIMITS: Final = (*_NAMES, *_NUMBERS, "memory")
_KNOWN: Final = ("role", "users", "connectors", "records", *_LIMITS)
_TABLE = re.compile(r"^\s*\[\[\s*grant\s*]]", re.MULTILINE)
EXAMPLE: Final = 'It looks like: [[grant]] / role = "operator" / users = ["bob"] / connectors = ["orders-*"]'


@dataclass(frozen=True, slots=True)
class Grant:
    """These users have this role for the connectors whose names match."""

    role: Role
    users: Sequence[str]
    connectors: Sequence[str] = (_EVERY_CONNECTOR,)
    limits: Limits = field(default_factory=Limits)
    """Limits the configs of an editor."""
    records: Sequence[str] = ()
    """Topics whose records the users may read over REST."""


class Roles:
    """Decides who may do what. Immutable; threads: any.

    A question costs a match of one regular expression, whatever the number of grants.
    """

    def __init__(self, grants: Iterable[Grant]) -> None:
        self.grants = tuple(grants)
        named = {user for grant in self.grants for user in grant.users}
        self._of = {user: _by_role(grant for grant in self.grants if _is_for(grant, user)) for user in named}
        self._others = self._of.get(_EVERYBODY, {})

    def allows(self, caller: Caller, role: Role, connector: str | None) -> bool:
        """Whether the caller has this role, or a higher one, for the connector; None: for at least one of all."""
        patterns = self._patterns(caller).get(role)
        return patterns is not None and (connector is None or patterns.fullmatch(connector) is not None)

    def highest(self, caller: Caller, connector: str | None = None) -> Role | None:
        """The caller's highest role for a connector, or for any."""
        return next((role for role in sorted(Role, reverse=True) if self.allows(caller, role, connector)), None)

    def limits(self, caller: Caller, connector: str | None) -> list[Limits]:
        """Gives the limits of the grants by which the caller may edit a connector, or any; an admin has none."""
        if self.allows(caller, Role.ADMIN, None):
            return []
        return [
            grant.limits
            for grant in self._grants_of(caller)
            if grant.role is Role.EDITOR and (connector is None or _pattern(grant.connectors).fullmatch(connector))
        ]

    def reads(self, caller: Caller, topic: str) -> bool:
        """Whether the caller may read the records of a topic: an administrator, or whom a grant names its topic."""
        if self.allows(caller, Role.ADMIN, None):
            return True
        return any(_pattern(grant.records).fullmatch(topic) for grant in self._grants_of(caller) if grant.records)

    def _grants_of(self, caller: Caller) -> list[Grant]:
        user = ANONYMOUS if caller.name is None else caller.name
        is_known = caller.name is None or (user in self._of and user not in (ANONYMOUS, _EVERYBODY))
        return [grant for grant in self.grants if _is_for(grant, user if is_known else _EVERYBODY)]

    def knows_anonymous(self) -> bool:
        return ANONYMOUS in self._of

    def _patterns(self, caller: Caller) -> Mapping[Role, re.Pattern[str]]:
        if caller.name is None:
            return self._of.get(ANONYMOUS, {})
        # a user of that very name is not who has none
        return self._others if caller.name in (ANONYMOUS, _EVERYBODY) else self._of.get(caller.name, self._others)


def _is_for(grant: Grant, user: str) -> bool:
    return user in grant.users or (_EVERYBODY in grant.users and user != ANONYMOUS)


def _by_role(grants: Iterable[Grant]) -> dict[Role, re.Pattern[str]]:
    """For each role one pattern of the connectors for which it, or a higher one, was granted."""
    found: dict[Role, list[str]] = {}
    for grant in grants:
        for role in Role:
            if role <= grant.role:
                found.setdefault(role, []).extend(grant.connectors)
    return {role: _pattern(names) for role, names in found.items()}


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    if _EVERY_CONNECTOR in names:
        names = [_EVERY_CONNECTOR]
    spelled = (re.escape(name).replace(r"\*", ".*").replace(r"\?", ".") for name in dict.fromkeys(names))
    return re.compile("|".join(f"(?:{name})" for name in spelled), re.DOTALL)


def parse_roles(text: str, file: str) -> Roles:
    """Errors: ConfigError with file and line."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise ConfigError(f"{file} is not TOML: {err}.", hint=EXAMPLE) from None
    if unknown := [key for key in document if key != "grant"]:
        line = _line_of(text, 0, len(text), unknown[0])
        raise _wrong(file, line, f'Unknown setting: {unknown[0]}; a file of roles has tables "[[grant]]"')
    tables = document.get("grant", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise _wrong(file, _line_of(text, 0, len(text), "grant"), "grants are tables, [[grant]] with two brackets")
    if not tables:
        raise ConfigError(f"{file} grants nothing to anybody.", hint=EXAMPLE)
    return Roles(_grant(table, place) for table, place in zip(tables, _places(text, file, len(tables)), strict=True))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a grant is in the text."""

    file: str
    text: str
    begin: int
    end: int

    def wrong(self, key: str | None, problem: str) -> ConfigError:
        return _wrong(self.file, _line_of(self.text, self.begin, self.end, key), problem)


def _places(text: str, file: str, count: int) -> Iterator[_Place]:
    begins = [found.start() + found[0].index("[") for found in _TABLE.finditer(text)]
    if len(begins) != count:  # an inline array, or brackets in a text
        begins = [0] * count
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        yield _Place(file, text, begin, end)


def _grant(table: Mapping[str, Any], place: _Place) -> Grant:
    if unknown := [key for key in table if key not in _KNOWN]:
        raise place.wrong(unknown[0], f"Unknown setting: {unknown[0]}; a grant has {', '.join(_KNOWN)}")
    names = [str(role) for role in Role]
    if table.get("role") not in names:
        message = "Unknown role: " + str(table["role"]) if "role" in table else "the grant has no role"
        raise place.wrong("role", f"{message}; roles are {', '.join(names)}")
    role = Role(names.index(table["role"]) + 1)
    users = _texts(table, "users", place)
    connectors = _texts(table, "connectors", place) if "connectors" in table else (_EVERY_CONNECTOR,)
    if role is Role.ADMIN and connectors != (_EVERY_CONNECTOR,):
        raise place.wrong("connectors", "admin is a role for the whole worker; for some connectors there is editor")
    given = [key for key in _LIMITS if key in table]
    if given and role is not Role.EDITOR:
        raise place.wrong(given[0], f"{given[0]} limits the configs of an editor; {role} has no such limit")
    records = _texts(table, "records", place) if "records" in table else ()
    return Grant(role, users, connectors, Limits(**{key: _limit(table, key, place) for key in given}), records)


def _limit(table: Mapping[str, Any], key: str, place: _Place) -> Any:
    found = table[key]
    if key in _NUMBERS:
        if type(found) is not int or found < 1:
            raise place.wrong(key, f"{key} must be a number from 1, such as {key} = 4")
        return found
    if key != "memory":
        return _texts(table, key, place)
    try:
        memory_bytes(found if isinstance(found, str) else "")
    except ConfigError:
        raise place.wrong(key, 'memory must be a size, such as memory = "512m"') from None
    return found


def _texts(table: Mapping[str, Any], key: str, place: _Place) -> tuple[str, ...]:
    found = table.get(key)
    if not isinstance(found, list) or not found or not all(isinstance(item, str) and item for item in found):
        raise place.wrong(key, f'{key} must be a list of names, such as {key} = ["orders"]')
    return tuple(found)


def _line_of(text: str, begin: int, end: int, key: str | None) -> int:
    """The line of a key between two positions; where these begin if it is not found."""
    found = None
    if key is not None:
        found = re.compile(rf"""^[ \t\[]*["']?{re.escape(key)}["']?\s*[=.\]]""", re.MULTILINE).search(text, begin, end)
    return text.count("\n", 0, begin if found is None else found.start()) + 1


def _wrong(file: str, line: int, problem: str) -> ConfigError:
    return ConfigError(f"{file}, line {line}: {problem}.", hint=EXAMPLE)

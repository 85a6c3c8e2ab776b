"""JAAS login files as BasicAuthSecurityRestExtension reads them: the entry `KafkaConnect`, and its users.

    KafkaConnect {
        org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
        file="/etc/connect/users.properties";
    };

Source: javax.security.auth.login.Configuration and LoginContext, PropertyFileLoginModule (Kafka 4.3).
Differs: anything that would refuse or admit everyone at run time (no entry, another login module, a missing or empty
file) is an error when the worker starts. Java admits everyone if the file contains no user.
"""

from __future__ import annotations

import hmac
import logging
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError, ConnectError
from kconnect.files.folders import is_open_to_others
from kconnect.files.reread import Reread
from kconnect.java.compat.properties import parse_properties, read_text_bytes

log = logging.getLogger(__name__)

ENTRY: Final = "KafkaConnect"
_FALLBACK: Final = "other"
_MODULE: Final = "PropertyFileLoginModule"
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_PROCESS_KEY: Final = secrets.token_bytes(32)
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | (?P<quoted>"(?:\\.|[^"\\])*") | (?P<sign>[{};=]) | (?P<word>[^\s{};="]+)""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One line of an entry."""

    name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Login:
    """The accepted logins: for each module its flag and its users. Answers yes or no, in constant time."""

    modules: Sequence[tuple[str, Mapping[str, str]]] = field(repr=False)

    def admits(self, user: str, password: str) -> bool:
        """Source: the rules of javax.security.auth.login.Configuration for several modules."""
        succeeded, failed = False, False
        for flag, users in self.modules:
            if _matches(users, user, password):
                succeeded = True
                if flag == "sufficient" and not failed:
                    return True
            elif flag == "requisite":
                return False
            elif flag == "required":
                failed = True
        return succeeded and not failed


class LoginFile:
    """The logins of a JAAS file and of the files that it names, as they are now. Threads: any.

    Differs: Java reads them at its start, and an old password stays valid.
    """

    def __init__(self, file: str, setting: str) -> None:
        """Errors: as `load_login`."""
        self._reread = Reread(
            lambda: load_login(file, setting),
            lambda: map(Path, [file, *users_files(file, setting)]),
            reported=lambda _: log.info("Users were read again from %s", file),
            failed=lambda err: log.error("%s The users from before stay (%s=%s)", err, setting, file),
        )

    def admits(self, user: str, password: str) -> bool:
        """Works as that of `Login`."""
        return self._reread.value().admits(user, password)


def load_login(file: str, setting: str) -> Login:
    """The users of a JAAS file. Errors: ConfigError that names the file, and no user or password of it."""
    entries = _entries(file, setting)
    modules = entries.get(ENTRY) or entries.get(_FALLBACK)
    if not modules:
        raise ConfigError(f"{setting}={file} has no entry {ENTRY}, which REST needs.", hint=_EXAMPLE)
    if any("password" in option.lower() for found in entries.values() for module in found for option in module.options):
        _warn_if_open(Path(file))  # logins of Kafka's clients, in other entries
    return Login([(module.flag, _users(module, file)) for module in modules])


def users_files(file: str, setting: str) -> list[str]:
    """The files of users and passwords that a JAAS file names. Errors: as load_login, for the JAAS file."""
    modules = [module for found in _entries(file, setting).values() for module in found]
    return [module.options["file"] for module in modules if module.options.get("file")]


def _entries(file: str, setting: str) -> dict[str, list[LoginModule]]:
    try:
        return parse_jaas_file(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as err:
        raise ConfigError(f"{setting}={file} cannot be read: {err}.") from err
    except ValueError as err:
        raise ConfigError(f"{setting}={file} is not a JAAS file: {err}.", hint=_EXAMPLE) from None


_EXAMPLE: Final = (
    f"It looks like: {ENTRY} {{ org.apache.kafka.connect.rest.basic.auth.extension.{_MODULE} required "
    'file="/etc/connect/users.properties"; };'
)


def parse_jaas_file(text: str) -> dict[str, list[LoginModule]]:
    """Login modules by the name of their entry. Errors: ValueError with the line that is wrong."""
    tokens = _Tokens(text)
    entries: dict[str, list[LoginModule]] = {}
    while not tokens.at_end():
        name = tokens.word("the name of an entry")
        tokens.expect("{")
        modules = []
        while tokens.peek() != "}":
            modules.append(_module(tokens))
        tokens.expect("}")
        tokens.expect(";")
        if name in entries:
            raise ValueError(f"the entry {name} stands twice")
        entries[name] = modules
    return entries


def _module(tokens: _Tokens) -> LoginModule:
    name = tokens.word("a login module")
    flag = tokens.word("a flag").lower()
    if flag not in _FLAGS:
        raise ValueError(f"{name} has the flag {flag}, expected one of {', '.join(_FLAGS)}")
    options = {}
    while tokens.peek() != ";":
        option = tokens.word("an option")
        tokens.expect("=")
        options[option] = tokens.word(f"the value of {option}")
    tokens.expect(";")
    return LoginModule(name, flag, options)


class _Tokens:
    """Words, quoted texts and signs of a JAAS file; comments are skipped."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0

    def at_end(self) -> bool:
        return self._next >= len(self._tokens)

    def peek(self) -> str | None:
        """The next sign, or None when a word is next. Errors: ValueError at the end."""
        _, text, is_sign = self._current()
        return text if is_sign else None

    def word(self, what: str) -> str:
        line, text, is_sign = self._current()
        if is_sign:
            raise ValueError(f"expected {what} in line {line}, not {text}")
        self._next += 1
        return text

    def expect(self, sign: str) -> None:
        line, text, is_sign = self._current()
        if not is_sign or text != sign:
            raise ValueError(f"expected {sign} in line {line}")
        self._next += 1

    def _current(self) -> tuple[int, str, bool]:
        if self.at_end():
            raise ValueError("it ends too early")
        return self._tokens[self._next]


def _tokens(text: str) -> Iterator[tuple[int, str, bool]]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        line = text.count("\n", 0, position) + 1
        if found is None:
            raise ValueError(f"a text that begins in line {line} does not end")
        position = found.end()
        if found["quoted"] is not None:
            yield line, re.sub(r"\\(.)", r"\1", found["quoted"][1:-1]), False
        elif found["sign"] or found["word"]:
            yield line, found[0], bool(found["sign"])


def _users(module: LoginModule, file: str) -> Mapping[str, str]:
    """User and password pairs of a PropertyFileLoginModule."""
    if module.name.rpartition(".")[2] != _MODULE:
        raise ConfigError(
            f"{file} names the login module {module.name}, a Java class that cannot run here.",
            hint=f"Use {_MODULE}, or put a proxy that knows your users in front of the worker.",
        )
    path = module.options.get("file", "").strip()
    if not path:
        raise ConfigError(f"{_MODULE} in {file} has no option `file`, which names the file of users and passwords.")
    try:
        users = parse_properties(read_text_bytes(Path(path)), path)
    except ConnectError as err:
        raise ConfigError(f"The file of users {path} cannot be read: {err}") from err
    _warn_if_open(Path(path))
    if not users:
        raise ConfigError(
            f"The file of users {path} is empty: nobody could log in.",
            hint="Add a line user=password for everybody who may; to let all in, leave rest.extension.classes out.",
        )
    return users


def _warn_if_open(path: Path) -> None:
    if is_open_to_others(path):
        log.warning("%s holds passwords and others may read it: chmod 600 %s", path, path)


def _matches(users: Mapping[str, str], user: str, password: str) -> bool:
    """Whether the password is the user's. Threads: any; the time does not depend on which users exist."""
    known = users.get(user)
    same = hmac.compare_digest(_digest(known or ""), _digest(password))
    return same and known is not None


def _digest(password: str) -> bytes:
    """Has one length for every password, under a key of this process."""
    return hmac.digest(_PROCESS_KEY, password.encode("utf-8", "surrogatepass"), "sha256")

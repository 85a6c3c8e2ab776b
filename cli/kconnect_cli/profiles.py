"""Contexts: named workers with their URL, user and certificates, in one TOML file that only its owner may read.

A context is a `Profile` here, so that it is not mistaken for a log's or a typer context. The file, contexts.toml in
the platform's config folder, may be edited by hand:

    current = "prod"
    [contexts.prod]
    url = "https://connect.example.com:8443"
    user = "ann"
    password_env = "PROD_PASSWORD"       # or password_file = "..", or password = ".."
    ca = "/etc/connect/ca.pem"
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kconnect.errors import ConfigError, ConnectError, NotFoundError

__all__ = ["Profile", "Profiles", "checked", "contexts_path", "is_open_to_others", "load_profiles", "save_profiles"]

_PASSWORDS = ("password", "password_env", "password_file")


@dataclass(frozen=True, slots=True)
class Profile:
    """One context as the file has it. Of the three passwords at most one is given."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_env: str | None = None
    password_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None

    def secret(self, environ: Mapping[str, str]) -> str | None:
        """The password, from where the context says. Errors: ConnectError when it is not there."""
        if self.password_env is not None:
            if self.password_env not in environ:
                raise ConnectError(
                    f"The password of {self.user} is to be in the environment variable {self.password_env}, "
                    "which is not set",
                    hint=f"export {self.password_env}=..",
                )
            return environ[self.password_env]
        if self.password_file is not None:
            try:
                return Path(self.password_file).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeDecodeError) as err:
                raise ConnectError(f"The password of {self.user} can not be read: {err}") from err
        return self.password

    def to_toml(self) -> dict[str, str]:
        """Fields that are given."""
        named = {item.name: getattr(self, item.name) for item in fields(self)}
        return {key: value for key, value in named.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Profiles:
    """All contexts, and which one is used when none is named."""

    known: Mapping[str, Profile] = field(default_factory=dict)
    current: str | None = None

    def get(self, name: str) -> Profile:
        """Errors: NotFoundError with names that are alike."""
        if name in self.known:
            return self.known[name]
        near = get_close_matches(name, self.known, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else "`connect contexts list` shows what there is."
        raise NotFoundError(f"There is no context {name}", hint=hint)

    def with_profile(self, name: str, profile: Profile) -> Profiles:
        """With one more, or another under the name; the first becomes the current one."""
        return Profiles({**self.known, name: profile}, self.current or name)

    def without(self, name: str) -> Profiles:
        self.get(name)
        known = {other: profile for other, profile in self.known.items() if other != name}
        return Profiles(known, None if self.current == name else self.current)

    def using(self, name: str) -> Profiles:
        self.get(name)
        return replace(self, current=name)


def contexts_path() -> Path:
    """Where contexts are kept."""
    from platformdirs import user_config_path

    return user_config_path("kconnect") / "contexts.toml"


def load_profiles(path: Path) -> Profiles:
    """Contexts of a file; none when there is no file. Errors: ConfigError that names the file and the place."""
    import tomllib

    try:
        tree = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Profiles()
    except ValueError as err:  # malformed TOML, or bytes that are not UTF-8
        raise ConfigError(f"{path} is not valid TOML: {err}", hint="Correct the place that is named.") from err
    current, contexts = tree.get("current"), tree.get("contexts", {})
    if not isinstance(contexts, dict) or not isinstance(current, str | None):
        raise ConfigError(f'{path}: expected current = "NAME" and [contexts.NAME] tables')
    return Profiles({name: _profile(path, name, table) for name, table in contexts.items()}, current)


def save_profiles(path: Path, profiles: Profiles) -> None:
    """Write all contexts at once: a reader sees the old file or the new one, and only the owner may read it."""
    import tempfile

    import tomli_w

    tree: dict[str, Any] = {} if profiles.current is None else {"current": profiles.current}
    tree["contexts"] = {name: profile.to_toml() for name, profile in profiles.known.items()}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number, name = tempfile.mkstemp(prefix=".contexts-", dir=path.parent)  # mkstemp gives 0600
    try:
        with os.fdopen(number, "wb") as file:
            tomli_w.dump(tree, file)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def is_open_to_others(path: Path) -> bool:
    """Whether others than the owner may read the file."""
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)


def checked(name: str, profile: Profile, lead: str = "") -> Profile:
    """Refuses half-given settings. Errors: ConfigError, after `lead`."""
    given = [key for key in _PASSWORDS if getattr(profile, key) is not None]
    if len(given) > 1:
        raise ConfigError(f"{lead}Context {name} has {' and '.join(given)}", hint="Keep one of them.")
    if given and profile.user is None:
        raise ConfigError(f"{lead}Context {name} has a password and no user", hint="Add the user it belongs to.")
    if profile.key is not None and profile.cert is None:
        raise ConfigError(f"{lead}Context {name} has a key and no certificate", hint="Add cert, or leave key out.")
    return profile


def _profile(path: Path, name: str, table: object) -> Profile:
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise ConfigError(f"{path}: [contexts.{name}] must hold strings only")
    unknown = sorted(set(table) - {item.name for item in fields(Profile)})
    if unknown or "url" not in table:
        what = f"does not know {', '.join(unknown)}" if unknown else "has no url"
        raise ConfigError(
            f"{path}: [contexts.{name}] {what}",
            hint="It takes url, user, password, password_env, password_file, ca, cert, key.",
        )
    return checked(name, Profile(**table), f"{path}: ")

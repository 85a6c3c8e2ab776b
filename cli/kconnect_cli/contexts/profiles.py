"""Contexts: named clusters with URLs of workers, user and certificates, in one TOML file only its owner may read.

A context is a `Profile` here, so that it is not mistaken for a log's or a typer context. The file, contexts.toml in
the platform's config folder, may be edited by hand:

    current = "prod"
    [contexts.prod]
    url = "https://connect-1.example.com:8443,https://connect-2.example.com:8443"
    user = "ann"
    password_env = "PROD_PASSWORD"       # or password_file = "..", or password = ".."
    ca = "/etc/connect/ca.pem"
    cert = "/etc/connect/ann.pem"        # with its key in it, or key = ".."
    key_password_file = "/run/secrets/k" # or key_password_env = "..", or key_password = ".."
    worker = "/etc/connect/worker.properties"  # for the internal topics, when no worker is up
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from kconnect.errors import ConfigError, ConnectError, NotFoundError, did_you_mean
from kconnect.files.durable_file import replace_file

_PASSWORDS = ("password", "password_env", "password_file")
_KEY_PASSWORDS = ("key_password", "key_password_env", "key_password_file")


@dataclass(frozen=True, slots=True)
class Profile:
    """What one place says of a worker: a context of the file, the environment, or the options of a call.

    Of the three ways to give a password at most one is used. `url` may be several, with commas between them; it is
    empty only outside of the file.
    """

    url: str = ""
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_env: str | None = None
    password_file: str | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    key_password_env: str | None = None
    key_password_file: str | None = None
    worker: str | None = None
    """Properties file of the cluster's workers, for commands that go to its topics."""

    @property
    def holds_a_secret(self) -> bool:
        """Whether a password itself stands here, not only where it is."""
        return self.password is not None or self.key_password is not None

    def secret(self, environ: Mapping[str, str]) -> str | None:
        """The password, from where the context says. Errors: ConnectError when it is not there."""
        what = f"password of {self.user}" if self.user else "password"
        return _secret(what, self.password, self.password_env, self.password_file, environ)

    def key_secret(self, environ: Mapping[str, str]) -> str | None:
        """What opens the key, as `secret`."""
        what = f"password of the key {self.key or self.cert}" if self.cert else "password of the key"
        return _secret(what, self.key_password, self.key_password_env, self.key_password_file, environ)

    @property
    def secret_files(self) -> list[Path]:
        """Files with a password that this place names."""
        return [Path(file).expanduser() for file in (self.password_file, self.key_password_file) if file is not None]

    def to_toml(self) -> dict[str, str]:
        """Fields that are given."""
        named = {item.name: getattr(self, item.name) for item in fields(self)}
        return {key: value for key, value in named.items() if value is not None}


def _secret(
    what: str, itself: str | None, variable: str | None, file: str | None, environ: Mapping[str, str]
) -> str | None:
    if variable is not None:
        if variable not in environ:
            raise ConnectError(
                f"The {what} should be in the environment variable {variable}, which is not set",
                hint=f"export {variable}=..",
            )
        return environ[variable]
    if file is not None:
        try:
            return Path(file).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as err:
            raise ConnectError(f"The {what} cannot be read: {err}") from err
    return itself


@dataclass(frozen=True, slots=True)
class Profiles:
    """All contexts, and which one is used when none is named."""

    known: Mapping[str, Profile] = field(default_factory=dict)
    current: str | None = None

    def get(self, name: str) -> Profile:
        """Errors: NotFoundError with names that are alike."""
        if name in self.known:
            return self.known[name]
        hint = did_you_mean(name, self.known) or "`connect contexts list` shows what there is."
        raise NotFoundError(f"Unknown context: {name}", hint=hint)

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
    from kconnect.files.folders import config_folder

    return config_folder() / "contexts.toml"


def load_profiles(path: Path) -> Profiles:
    """Contexts of a file; none when there is no file. Errors: ConfigError that names the file and the place."""
    import tomli

    try:
        tree = tomli.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Profiles()
    except ValueError as err:  # malformed TOML, or bytes that are not UTF-8
        raise ConfigError(f"{path} is not valid TOML: {err}", hint="Correct the file at that place.") from err
    current, contexts = tree.get("current"), tree.get("contexts", {})
    if not isinstance(contexts, dict) or not isinstance(current, str | None):
        raise ConfigError(f'{path}: expected current = "NAME" and [contexts.NAME] tables')
    return Profiles({name: _profile(path, name, table) for name, table in contexts.items()}, current)


def save_profiles(path: Path, profiles: Profiles) -> None:
    """Write all contexts at once: a reader sees the old file or the new one, and only the owner may read it."""
    import tomli_w

    tree: dict[str, Any] = {} if profiles.current is None else {"current": profiles.current}
    tree["contexts"] = {name: profile.to_toml() for name, profile in profiles.known.items()}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(path, tomli_w.dumps(tree), is_secret=True)


def checked(profile: Profile, whose: str, *, in_file: bool = True) -> Profile:
    """Refuses half-given settings. Errors: ConfigError; `whose` is the subject of its sentence.

    Outside of the file a password may stand alone: the user it is for may be named elsewhere.
    """
    for ways in (_PASSWORDS, _KEY_PASSWORDS):
        given = [key for key in ways if getattr(profile, key) is not None]
        if len(given) > 1:
            raise ConfigError(f"{whose} has {' and '.join(given)}", hint="Keep one of them.")
        if given and in_file and ways is _PASSWORDS and profile.user is None:
            raise ConfigError(f"{whose} has a password and no user", hint="Add the user it belongs to.")
        if given and in_file and ways is _KEY_PASSWORDS and profile.cert is None:
            raise ConfigError(f"{whose} has a password for a key and no certificate", hint="Add cert, or leave it out.")
    if profile.key is not None and profile.cert is None:
        raise ConfigError(f"{whose} has a key and no certificate", hint="Add cert, or leave key out.")
    return profile


def _profile(path: Path, name: str, table: object) -> Profile:
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise ConfigError(f"{path}: [contexts.{name}] must hold strings only")
    unknown = sorted(set(table) - {item.name for item in fields(Profile)})
    if unknown or "url" not in table:
        what = f"does not know {', '.join(unknown)}" if unknown else "has no url"
        raise ConfigError(
            f"{path}: [contexts.{name}] {what}",
            hint=f"It takes {', '.join(item.name for item in fields(Profile))}.",
        )
    return checked(Profile(**table), f"{path}: Context {name}")

"""Which worker a call is meant for: options, then the environment, then the current context, then localhost.

A URL that is named wins over a context that is not, and takes no user or certificate from it: these belong to the
context's worker. Named together (`--url .. --context ..`) they count together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from kconnect.client import ClientAccess
    from kconnect_cli.profiles import Profile

__all__ = ["DEFAULT_URL", "Target", "find_target", "without_user"]

DEFAULT_URL = "http://localhost:8083"


@dataclass(frozen=True, slots=True)
class Target:
    """A worker's URL, without user and password, and the context that was chosen, if any."""

    url: str
    context: str | None = None
    profile: Profile | None = None
    userinfo: tuple[str, str] | None = None  # of a URL such as http://ann:secret@host:8083

    def access(self, environ: Mapping[str, str]) -> ClientAccess | None:
        """User, password and certificates. Errors: ConnectError when the password is not where the context says."""
        if self.profile is None and self.userinfo is None:
            return None
        from kconnect.client import ClientAccess

        if self.profile is None or self.userinfo is not None:
            user, password = self.userinfo or (None, None)
        else:
            user, password = self.profile.user, self.profile.secret(environ)
        profile = self.profile
        return ClientAccess(
            user=user,
            password=password,
            ca=profile.ca if profile else None,
            cert=profile.cert if profile else None,
            key=profile.key if profile else None,
        )


def find_target(
    url: str | None, context: str | None, environ: Mapping[str, str], warn: Callable[[str], None]
) -> Target:
    """The worker that is meant. Errors: NotFoundError for an unknown context, ConfigError for a damaged file."""
    if url is None and context is None:
        url, context = environ.get("KCONNECT_URL") or None, environ.get("KCONNECT_CONTEXT") or None
        if url is not None:
            context = None
    if context is None and url is not None:
        return _at(url)
    found = _profile(context, warn)
    if found is None:
        return Target(DEFAULT_URL)
    name, profile = found
    return _at(url or profile.url, name, profile)


def without_user(url: str) -> tuple[str, tuple[str, str] | None]:
    """The URL alone, and user and password that stood in it."""
    if "@" not in url:
        return url, None
    full = url if "://" in url else f"http://{url}"
    parts = urlsplit(full)
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl(), (unquote(parts.username or ""), unquote(parts.password or ""))


def _at(url: str, context: str | None = None, profile: Profile | None = None) -> Target:
    bare, userinfo = without_user(url)
    return Target(bare, context, profile, userinfo)


def _profile(name: str | None, warn: Callable[[str], None]) -> tuple[str, Profile] | None:
    """The named context, else the current one, else None."""
    from kconnect_cli.profiles import contexts_path, is_open_to_others, load_profiles

    path = contexts_path()
    profiles = load_profiles(path)
    name = name or profiles.current
    if name is None:
        return None
    profile = profiles.get(name)
    if profile.password is not None and is_open_to_others(path):
        warn(f"{path} holds a password and others may read it: chmod 600 {path}")
    return name, profile

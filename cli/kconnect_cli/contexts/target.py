"""Which worker a call is meant for, and who we are to it: options, then the environment, then a context.

A URL that is named wins over a context that is not, and takes no user or certificate from it: these belong to the
context's worker. Named together (`--url .. --context ..`) they count together. A context that --context names comes
before the environment, one that KCONNECT_CONTEXT names or that is the current one behind it.
A secret counts only for the user or the certificate that it was given for, or when it was given for none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from kconnect.errors import BadRequestError, ConfigError
from kconnect_cli.contexts.profiles import Profile, checked, contexts_path, load_profiles
from kconnect_cli.exits import refuse_empty, refused_as_usage

if TYPE_CHECKING:
    from kconnect.client import ClientAccess


DEFAULT_URL = "http://localhost:8083"

# Field of a Profile -> the variable that gives it; a context itself is KCONNECT_CONTEXT
VARIABLES = {
    "url": "KCONNECT_URL",
    "user": "KCONNECT_USER",
    "password": "KCONNECT_PASSWORD",
    "password_file": "KCONNECT_PASSWORD_FILE",
    "ca": "KCONNECT_CA_FILE",
    "cert": "KCONNECT_CERT_FILE",
    "key": "KCONNECT_KEY_FILE",
    "key_password": "KCONNECT_KEY_PASSWORD",
    "key_password_file": "KCONNECT_KEY_PASSWORD_FILE",
}


@dataclass(frozen=True, slots=True)
class Target:
    """URLs of workers of a cluster, without user and password; the context, if any; what each place says, in order.

    `source`: where the URLs come from, for messages.
    """

    urls: tuple[str, ...]
    source: str
    context: str | None = None
    profile: Profile | None = None
    places: Sequence[Profile] = ()

    @property
    def url(self) -> str:
        """The one that is tried first."""
        return self.urls[0]

    def access(self, environ: Mapping[str, str]) -> ClientAccess | None:
        """User, password and certificates; None without any. Errors: ConnectError when a password cannot be read."""
        from kconnect.client import ClientAccess

        user = next((place.user for place in self.places if place.user is not None), None)
        shown = next((place for place in self.places if place.cert is not None), Profile())
        found = ClientAccess(
            user=user,
            password=_first(place.secret(environ) for place in self.places if place.user in (None, user))
            if user is not None
            else None,
            ca=next((place.ca for place in self.places if place.ca is not None), None),
            cert=shown.cert,
            key=shown.key,
            key_password=_first(place.key_secret(environ) for place in self.places if place.cert in (None, shown.cert))
            if shown.cert is not None
            else None,
        )
        return None if found == ClientAccess() else found


def find_target(
    url: str | None,
    context: str | None,
    environ: Mapping[str, str],
    warn: Callable[[str], None],
    options: Profile | None = None,
) -> Target:
    """The worker that is meant.

    Errors: UsageProblem for what no URL or no name of a context can be on the command line and in the environment;
    NotFoundError for an unknown context, ConfigError for a damaged file.
    """
    refuse_empty("--url", url)
    refuse_empty("--context", context)
    with refused_as_usage():
        given = checked(
            Profile(**{key: environ[variable] for key, variable in VARIABLES.items() if environ.get(variable)}),
            "The environment (KCONNECT_..)",
            in_file=False,
        )
        options = checked(options or Profile(), "The command line", in_file=False)
    is_first, on_line = context is not None, url
    if url is None and context is None:
        url, context = given.url or None, environ.get("KCONNECT_CONTEXT") or None
        if url is not None:
            context = None
    if context is None and url is not None:
        name, profile = None, None
    else:
        name, profile = _profile(context, warn)
    bare, login = without_user(url or (profile.url if profile else DEFAULT_URL))
    if url is not None:
        source = "--url" if url == on_line else VARIABLES["url"]
    else:
        source = f"context {name}" if profile else "the default"
    places = [options, *([login] if login else [])]
    if profile is not None:
        places += [profile, given] if is_first else [given, profile]
    else:
        places.append(given)
    for file in dict.fromkeys(file for place in places for file in place.secret_files):
        _warn_if_open(file, warn)
    return Target(_checked_urls(bare, source), source, name, profile, tuple(places))


def _checked_urls(text: str, source: str) -> tuple[str, ...]:
    """Errors: UsageProblem; ConfigError where a context has them."""
    from kconnect.client.transport import checked_url

    urls = urls_of(text) or [text]
    if source == "--url" or source in VARIABLES.values():
        with refused_as_usage(f"{source}: "):
            return tuple(map(checked_url, urls))
    try:
        return tuple(map(checked_url, urls))
    except BadRequestError as err:
        raise ConfigError(f"{contexts_path()}: {source}: {err}", hint=err.hint) from err


def urls_of(text: str) -> list[str]:
    """One or several URLs of a cluster's workers, with commas between them."""
    return [url for part in text.split(",") if (url := part.strip())]


def without_user(text: str) -> tuple[str, Profile | None]:
    """The URLs alone, and the first user and password in them."""
    if "@" not in text:
        return text, None
    found = [_without_user(url) for url in urls_of(text)]
    return ",".join(bare for bare, _ in found), next((login for _, login in found if login is not None), None)


def _without_user(url: str) -> tuple[str, Profile | None]:
    if "@" not in url:
        return url, None
    full = url if "://" in url else f"http://{url}"
    parts = urlsplit(full)
    host = parts.netloc.rpartition("@")[2]
    password = None if parts.password is None else unquote(parts.password)
    return parts._replace(netloc=host).geturl(), Profile(user=unquote(parts.username or ""), password=password)


def _first(secrets: Iterable[str | None]) -> str | None:
    return next((secret for secret in secrets if secret is not None), None)


def _profile(name: str | None, warn: Callable[[str], None]) -> tuple[str | None, Profile | None]:
    """The named context, else the current one, else none."""
    path = contexts_path()
    profiles = load_profiles(path)
    name = name or profiles.current
    if name is None:
        return None, None
    profile = profiles.get(name)
    if profile.holds_a_secret:
        _warn_if_open(path, warn)
    return name, profile


def _warn_if_open(path: Path, warn: Callable[[str], None]) -> None:
    from kconnect.files.folders import is_open_to_others

    if is_open_to_others(path):
        warn(f"{path} holds a password and others may read it: chmod 600 {path}")

"""Where the next page of a JSON service is: in a header, in the answer, or counted. Pure."""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.api import ConnectError, DataError
from kconnect.api.http_client import Response, origin, shown_url

COUNTED: Final = ("page", "offset")
KINDS: Final = ("none", "link", "next", *COUNTED)


@dataclass(frozen=True, slots=True)
class Page:
    """What to ask for: the URL, and values for the template of the body (`token`, `page`, `offset`, `count`)."""

    url: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def text(self) -> str:
        """For an offset: the URL alone where it says all."""
        return json.dumps({"url": self.url, **self.values}) if self.values else self.url

    @classmethod
    def of(cls, text: str) -> Page:
        """Errors: DataError."""
        if not text.startswith("{"):
            return cls(text)
        try:
            values = json.loads(text)
            return cls(values.pop("url"), values)
        except (ValueError, KeyError) as err:
            raise DataError(f"It is not a page: {text[:80]!r}") from err


@dataclass(frozen=True, slots=True)
class Paging:
    """How pages follow each other. `in_body`: variables that the body's template has, which the URL so needs not."""

    kind: str
    base_url: str
    pointer: str = "/next"
    param: str = ""
    start: int = 1
    size: int = 0
    size_param: str = ""
    total_pointer: str = ""
    in_body: frozenset[str] = frozenset()

    def first(self, url: str) -> Page:
        """The first page of a round that begins with this URL."""
        if self.size and self.size_param and "limit" not in self.in_body:
            url = with_parameter(url, self.size_param, self.size)
        if self.kind not in COUNTED:
            return Page(url)
        return self._counted(url, self.start if self.kind == "page" else 0, 0)

    def following(self, page: Page, answer: Response, document: Any, items: int) -> Page | None:
        """The page behind this one, which has so many items; None if it is the last.

        Errors: ConnectError for one on another server, and for one that is this page again.
        """
        if self.kind in COUNTED:
            return self._following_count(page, document, items)
        if self.kind == "none":
            return None
        if self.kind == "link":
            found = next_link(page.url, answer.headers.get("link", ""))
            return None if found is None else self._checked(page, Page(found))
        pointed = pointer(document, self.pointer)
        if pointed in (None, "", False):
            return None
        if "token" in self.in_body:
            return self._checked(page, Page(page.url, {"token": pointed}))
        if self.param:
            return self._checked(page, Page(with_parameter(page.url, self.param, pointed)))
        return self._checked(page, Page(urllib.parse.urljoin(page.url, str(pointed))))

    def _following_count(self, page: Page, document: Any, items: int) -> Page | None:
        """An empty page is the last: one with fewer items than we ask for may be all that the server gives at once."""
        count = int(page.values.get("count", 0)) + items
        total = pointer(document, self.total_pointer) if self.total_pointer else None
        is_over = isinstance(total, int) and not isinstance(total, bool) and count >= total
        if not items or is_over:
            return None
        at = int(page.values[self.kind]) + (1 if self.kind == "page" else items)
        return self._counted(page.url, at, count)

    def _counted(self, url: str, at: int, count: int) -> Page:
        if self.kind not in self.in_body:
            url = with_parameter(url, self.param or self.kind, at)
        return Page(url, {self.kind: at, "count": count})

    def _checked(self, page: Page, found: Page) -> Page:
        url = at_base(found.url, self.base_url)
        if url is None:
            message = f"{shown_url(page.url)} names a next page on another server: {shown_url(found.url)}"
            raise ConnectError(message, hint="Its credentials are for the server of url alone.")
        found = Page(url, found.values)
        if found == page:
            raise ConnectError(f"{shown_url(page.url)} names itself as its next page: it would be read without end")
        return found


def at_base(url: str, base: str) -> str | None:
    """A URL of the base's host with the base's scheme and port; None for another host.

    Behind a proxy that ends TLS a server names itself by http, and may not know the port.
    """
    if origin(url) == origin(base):
        return url
    ours, theirs = urllib.parse.urlsplit(base), urllib.parse.urlsplit(url)
    if theirs.hostname != ours.hostname or theirs.port not in (None, ours.port) or theirs.username is not None:
        return None
    return urllib.parse.urlunsplit(theirs._replace(scheme=ours.scheme, netloc=ours.netloc))


def pointer(document: Any, path: str, default: Any = None) -> Any:
    """The value at a JSON pointer (RFC 6901): "" is the document, "/data/0/id" descends; a plain name is a field."""
    if not path:
        return document
    found = document
    for part in (path[1:] if path.startswith("/") else path).split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, Mapping) and part in found:
            found = found[part]
        elif isinstance(found, list) and part.isdigit() and int(part) < len(found):
            found = found[int(part)]
        else:
            return default
    return found


_LINK = re.compile(r"<([^>]*)>([^<]*)")
_REL = re.compile(r';\s*rel\s*=\s*"?([^";,]*)"?', re.IGNORECASE)


def next_link(url: str, header: str) -> str | None:
    """The URL with rel=next in a Link header (RFC 8288), made absolute; None if there is none."""
    for target, parameters in _LINK.findall(header):
        rel = _REL.search(parameters)
        if rel and "next" in rel.group(1).lower().split():
            return urllib.parse.urljoin(url, str(target))
    return None


def with_parameter(url: str, name: str, value: Any) -> str:
    """The URL with one query parameter set, replacing its previous value."""
    parts = urllib.parse.urlsplit(url)
    query = [pair for pair in urllib.parse.parse_qsl(parts.query, keep_blank_values=True) if pair[0] != name]
    query.append((name, str(value)))
    return urllib.parse.urlunsplit(parts._replace(query=urllib.parse.urlencode(query)))


_VARIABLE = re.compile(r"\$\{(cursor|token|page|offset|limit)\}")
_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*"')


def variables_of(template: str) -> frozenset[str]:
    """The variables that a body's template has."""
    return frozenset(_VARIABLE.findall(template))


def filled(template: str, values: Mapping[str, Any], *, is_form: bool = False) -> str:
    """The body of a template: values as JSON, inside of a text as part of it; as of forms if it is one.

    What has no value is null, and nothing inside of a text and in forms.
    """

    def value(found: re.Match[str]) -> str:
        given = values.get(found[1])
        text = "" if given is None else given if isinstance(given, str) else json.dumps(given)
        if is_form:
            return urllib.parse.quote_plus(text)
        is_inside = len(_QUOTE.findall(template[: found.start()])) % 2 == 1
        return json.dumps(text, ensure_ascii=False)[1:-1] if is_inside else json.dumps(given, ensure_ascii=False)

    return _VARIABLE.sub(value, template)

"""How a JSON service is read on: where its next page is, and its cursors. Pure.

The next page is in a header, in the answer, or counted. Cursors are compared as what they are; which items at the
last one came already is known.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import re
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from email.utils import parsedate_to_datetime
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


_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)
_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:([T ])(\d\d:\d\d(?::\d\d)?)(?:[.,](\d+))?"
    r"(\s?(?:Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)(?:\[[\w/+-]+\])?)?)?",  # Java adds the name of a zone
    re.ASCII | re.IGNORECASE,
)
_HTTP_DATE: Final = re.compile(r"[A-Z][a-z]{2}, \d\d? [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d (?:GMT|[+-]\d{4})")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TEXT, _NUMERIC, _TEMPORAL = "text", "number", "time"
_DIGEST_BYTES: Final = 8
_DIGEST_CHARS: Final = 11
# 110 kB in an offset; a broker takes a megabyte
_MOST_KNOWN: Final = 10_000


@functools.total_ordering
@dataclass(frozen=True, slots=True)
class Cursor:
    """A value by which items are in order: numbers, also in texts, times with zone and fraction, or texts."""

    given: Any
    kind: str = field(init=False)
    value: Any = field(init=False)
    """The number, the seconds since 1970, or the text."""

    def __post_init__(self) -> None:
        kind, value = _read(self.given)
        object.__setattr__(self, "kind", kind)
        object.__setattr__(self, "value", value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cursor):
            return NotImplemented
        return bool(self.value == other.value) if self.kind == other.kind else str(self.given) == str(other.given)

    def __lt__(self, other: Cursor) -> bool:
        return bool(self.value < other.value) if self.kind == other.kind else str(self.given) < str(other.given)

    def __hash__(self) -> int:
        return hash(self.value)

    def before(self, distance: Decimal) -> Cursor:
        """The cursor that lies so much before this one, seconds of a time, spelled as it is; a text has none."""
        if not distance or self.kind == _TEXT:
            return self
        earlier = self.value - distance
        if self.kind == _TEMPORAL:
            return Cursor(_spelled(str(self.given), earlier))
        whole = earlier == earlier.to_integral_value()
        number: Any = int(earlier) if whole else earlier
        return Cursor(str(number) if isinstance(self.given, str) else number if whole else float(earlier))


def _read(given: Any) -> tuple[str, Any]:
    if isinstance(given, int | float | Decimal):
        return _NUMERIC, Decimal(str(given))
    text = str(given).strip()
    if _NUMBER.fullmatch(text):
        return _NUMERIC, Decimal(text)
    seconds = _seconds(text)
    return (_TEXT, str(given)) if seconds is None else (_TEMPORAL, seconds)


def _seconds(text: str) -> Decimal | None:
    """Returns seconds since 1970, with all digits of the fraction; None for text that is no time. No zone means UTC."""
    found = _TIME.fullmatch(text)
    try:
        if found is None:
            return _since(parsedate_to_datetime(text)) if _HTTP_DATE.fullmatch(text) else None
        day, _, clock, fraction, zone = found.groups()
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}").replace(tzinfo=_zone(zone))
    except ValueError:
        return None
    return _since(moment) + (Decimal(f"0.{fraction}") if fraction else 0)


def _since(moment: datetime) -> Decimal:
    whole = moment - _EPOCH
    return Decimal(whole.days * 86_400 + whole.seconds)


def _zone(text: str | None) -> timezone:
    text = (text or "Z").strip().partition("[")[0]
    if text.isalpha():
        return UTC
    minutes = int(text[1:3]) * 60 + (int(text[-2:]) if len(text) > 3 else 0)
    return timezone(timedelta(minutes=minutes if text[0] == "+" else -minutes))


def _spelled(example: str, seconds: Decimal) -> str:
    """A time as the example is written: its zone, its digits of a second, the rest of which is cut off."""
    found = _TIME.fullmatch(example.strip())
    whole = int(seconds.to_integral_value(ROUND_FLOOR))
    moment = _EPOCH + timedelta(seconds=whole)
    if found is None:
        return f"{moment:%a, %d %b %Y %H:%M:%S} GMT"
    _, separator, clock, fraction, zone = found.groups()
    local = moment.astimezone(_zone(zone))
    if clock is None:
        return f"{local:%Y-%m-%d}"
    digits = f".{int((seconds - whole) * 10 ** len(fraction)):0{len(fraction)}d}" if fraction else ""
    form = "%H:%M:%S" if clock.count(":") == 2 else "%H:%M"
    return f"{local:%Y-%m-%d}{separator}{local.strftime(form)}{digits}{zone or ''}"


def cursor_before(example: object, time_ms: int) -> str | None:
    """The last cursor before a time, spelled as the example is: its zone, its digits of a second; None if that is none.

    A number is none, however much it looks like seconds since 1970: it may be an id.
    """
    if not isinstance(example, str):
        return None
    found = _TIME.fullmatch(example)
    if found is None or found[3] is None or len(found[3]) < 8:
        return None
    unit = Decimal(1).scaleb(-len(found[4] or ""))
    at_or_after = (Decimal(time_ms) / 1000 / unit).to_integral_value(ROUND_CEILING) * unit
    return _spelled(example, at_or_after - unit)


# --- what came already ---


@dataclass(frozen=True, slots=True)
class Had:
    """Items that came, by a digest each, with their cursors: those at the last one, and some way before it."""

    items: tuple[tuple[Any, str], ...] = ()

    def digests(self) -> frozenset[str]:
        return frozenset(digest for _, digest in self.items)

    def with_items(self, more: Iterable[tuple[Any, str]], floor: Cursor) -> Had:
        """These and more, those before the floor left out; each once."""
        found: dict[str, Any] = {}
        for given, digest in (*self.items, *more):
            if Cursor(given) >= floor:
                found[digest] = given
        return Had(tuple((given, digest) for digest, given in found.items())[-_MOST_KNOWN:])

    @property
    def is_full(self) -> bool:
        return len(self.items) >= _MOST_KNOWN

    def text(self) -> str:
        """For an offset: pairs of a cursor and the digests of its items, as JSON."""
        groups: dict[str, list[Any]] = {}
        for given, digest in self.items:
            groups.setdefault(json.dumps(given), [given, ""])[1] += digest
        return json.dumps(list(groups.values()), separators=(",", ":"))

    @classmethod
    def of(cls, text: str) -> Had:
        """Errors: DataError for what `text()` did not write."""
        try:
            items = []
            for given, digests in json.loads(text):
                starts = range(0, len(digests), _DIGEST_CHARS)
                items += [(given, digests[start : start + _DIGEST_CHARS]) for start in starts]
            return cls(tuple(items))
        except (ValueError, TypeError) as err:
            raise DataError(f"It has no items that came before: {text[:80]!r}") from err


def digest_of(item: Any) -> str:
    """What tells an item from others: by what is in it, whatever the order of its members."""
    text = json.dumps(item, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Reach:
    """How far rounds have come. `cursor` and `known` are of the last round, `highest` and `seen` of the one that is on.

    `known` None: nothing is known of the items at the cursor, and they count as known.
    """

    cursor: Any = None
    known: Had | None = None
    highest: Any = None
    seen: Had = Had()

    def page(self, items: Sequence[tuple[Any, Any, Any]], lookback: Decimal) -> tuple[Reach, list[bool]]:
        """Behind a page, and which of its items are new. An item is its cursor, what tells it apart, and itself."""
        cursors = [Cursor(given) for given, *_ in items]
        top = max([*cursors, *([Cursor(self.highest)] if self.highest is not None else [])], default=None)
        old = None if self.cursor is None else Cursor(self.cursor)
        floor = None if old is None else old.before(lookback)
        rim = None if top is None else top.before(lookback)
        if rim is not None and old is not None and top is not None and top < old:
            rim = floor
        had = self.seen.digests() | (self.known.digests() if self.known is not None else frozenset())
        fresh: list[bool] = []
        more: list[tuple[Any, str]] = []
        for cursor, (given, apart, _) in zip(cursors, items, strict=True):
            if floor is not None and cursor < floor:
                fresh.append(False)
                continue
            is_near = (rim is not None and cursor >= rim) or (old is not None and cursor <= old)
            digest = digest_of(apart) if is_near else ""
            is_new = not digest or digest not in had
            if old is not None and cursor <= old and self.known is None:
                is_new = False
            fresh.append(is_new)
            if digest:
                had |= {digest}
                more.append((given, digest))
        highest = self.highest if top is None else top.given
        seen = self.seen.with_items(more, rim) if rim is not None else self.seen
        return Reach(self.cursor, self.known, highest, seen), fresh

    def ended(self, lookback: Decimal) -> Reach:
        """Behind the last page of a round."""
        if self.highest is None:
            return Reach(self.cursor, self.known)
        top = Cursor(self.highest)
        if self.cursor is not None and top < Cursor(self.cursor):
            top = Cursor(self.cursor)
        known = (self.known or Had()).with_items(self.seen.items, top.before(lookback))
        return Reach(top.given, known)

"""HttpJsonSource: polls a URL for JSON, and produces a record for each item."""

from __future__ import annotations

import base64
import json
import logging
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final

from kconnect.api import (
    Backoff,
    ConfigDef,
    ConfigError,
    ConnectError,
    DataError,
    RetriableError,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from kconnect.api.http_client import Response, shown_url
from kconnect.builtin.connectors.http_config import CONFIG, HEADER_PREFIX
from kconnect.builtin.connectors.http_pages import (
    BusyError,
    HttpClient,
    json_of,
    next_link,
    pointer,
    same_origin,
    with_parameter,
)
from kconnect.builtin.types.declarations import declarations
from kconnect.builtin.types.reading import exact_json
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)


class HttpJsonSourceConnector(SourceConnector):
    """Polls one URL in one task."""

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        _headers(CONFIG.parse(props), props)
        self._props = props

    def task_class(self) -> type[SourceTask]:
        return HttpJsonSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One config regardless of `max_tasks`: pages are read one after the other."""
        return [dict(self._props)]

    def stop(self) -> None:
        """Nothing runs besides the task."""

    def offsets_at(
        self,
        config: Mapping[str, str],
        offsets: list[tuple[Mapping[str, Any], Mapping[str, Any]]],
        time_ms: int,
    ) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] | None:
        """A cursor that is a time in ISO 8601 is set just before the time; page and validators are left out."""
        found: list[tuple[Mapping[str, Any], Mapping[str, Any] | None]] = []
        for partition, offset in offsets:
            kept = offset.get("cursor")
            cursor = cursor_before(kept, time_ms)
            if cursor is None:
                field = config.get("cursor.field") or "(not set)"
                raise DataError(f"its cursor {kept!r} (cursor.field={field}) is not a time in ISO 8601")
            found.append((partition, {"cursor": cursor}))
        return found

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION


@dataclass(frozen=True, slots=True)
class _Place:
    """The source's position; an offset consists of it.

    `cursor` applies to the current round; `highest` is the largest cursor seen in it and becomes `cursor` after its
    last page; `page` is the next page to request, None at the start of a round. So a restart in the middle of a round
    continues at its page, whatever the order of items. `etag` and `modified` are those of the first page when it was
    last read completely.
    """

    cursor: Any = None
    highest: Any = None
    page: str | None = None
    etag: str | None = None
    modified: str | None = None

    def to_offset(self) -> dict[str, Any]:
        fields = (
            ("cursor", self.cursor),
            ("highest", self.highest),
            ("page", self.page),
            ("etag", self.etag),
            ("modified", self.modified),
        )
        return {name: value for name, value in fields if value is not None}


class HttpJsonSourceTask(SourceTask):
    """One poll is one page: its items beyond the cursor, in the server's order.

    The offset of the last record of a page leads to the next page, that of the others to the page itself: a page is
    read again completely unless Kafka has all of it. Without cursor.field every round returns every item, unless the
    server answers 304 to If-None-Match or If-Modified-Since.
    """

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = CONFIG.parse(props)
        self._url: str = config["url"]
        self._topic: str = config["topic"]
        # a declared decimal is read by all its digits
        self._loads = exact_json if declarations(props, is_sink=False) else json.loads
        self._http = HttpClient(
            self._url,
            _headers(config, props),
            config["request.timeout.ms"] / 1000,
            config["response.max.bytes"],
            config["tls.ca.file"] or None,
        )
        self._partition = {"url": self._url}
        kept = self.context.offset_storage_reader().offset(self._partition) or {}
        self._place = _Place(**{name: kept.get(name) for name in ("cursor", "highest", "page", "etag", "modified")})
        if self._place.cursor is None and config["cursor.initial"]:
            self._place = _Place(cursor=config["cursor.initial"])
        self._etag_of_round: tuple[str | None, str | None] = (self._place.etag, self._place.modified)
        self._wait_s = 0.0
        self._failures = 0

    def poll(self) -> list[SourceRecord] | None:
        """The items of the next page; None after an interrupted wait, and for an unchanged page."""
        if self._wait_s:
            if self.context.wait(self._wait_s):
                return None
            self._wait_s = 0.0
        url = self._place.page or self._first_url()
        try:
            answer = self._http.get(url, self._conditions())
        except BusyError as err:
            raise self._back_off(err) from err
        self._failures = 0
        if answer.status == 304:
            self._wait_s = self._config["poll.interval.ms"] / 1000
            return None
        document = json_of(answer, url, self._loads)
        items = self._items(document, url)
        before, self._place = self._place, self._after(url, answer, document, items)
        if self._place.page is None:
            self._wait_s = self._config["poll.interval.ms"] / 1000
        fresh = [item for item in items if self._is_fresh(item, before.cursor)]
        records = [self._record(item, before) for item in fresh]
        if records:
            records[-1].source_offset = self._place.to_offset()
        return records or None

    def stop(self) -> None:
        """Nothing to release between polls."""

    # --- the request ---

    def _first_url(self) -> str:
        param, cursor = self._config["cursor.param"], self._place.cursor
        return with_parameter(self._url, param, cursor) if param and cursor is not None else self._url

    def _conditions(self) -> dict[str, str]:
        """Headers by which the server may answer 304: for the first page only."""
        place = self._place
        if place.page is not None:
            return {}
        found = {"If-None-Match": place.etag, "If-Modified-Since": place.modified}
        return {name: value for name, value in found.items() if value}

    def _back_off(self, err: BusyError) -> RetriableError:
        """The error that delays the next request: as long as the server requests, else longer each time.

        Errors: ConnectError after retries.max failures in a row.
        """
        self._failures += 1
        most = self._config["retries.max"]
        if 0 <= most < self._failures:
            raise ConnectError(f"{err}, {self._failures} times in a row (retries.max={most})") from err
        if err.retry_after_s is not None:
            wait_s = err.retry_after_s
        else:
            first_s, most_s = self._config["retry.backoff.ms"] / 1000, self._config["retry.backoff.max.ms"] / 1000
            wait_s = Backoff(first_s=first_s, most_s=most_s).pause_s(self._failures - 1)
        return RetriableError(str(err), retry_after_s=wait_s)

    # --- the answer ---

    def _items(self, document: Any, url: str) -> list[Any]:
        where = self._config["items.pointer"]
        found = pointer(document, where, _MISSING)
        if found is _MISSING:
            raise DataError(f"The answer of {shown_url(url)} has nothing at items.pointer={where}")
        if isinstance(found, list):
            return found
        return [] if found is None else [found]

    def _after(self, url: str, answer: Response, document: Any, items: list[Any]) -> _Place:
        """The position after this page."""
        place = self._place
        if place.page is None:
            self._etag_of_round = (answer.headers.get("etag"), answer.headers.get("last-modified"))
        highest = place.highest
        for item in items:
            cursor = self._cursor(item)
            if cursor is not None and _is_beyond(cursor, highest):
                highest = cursor
        page = self._next_page(url, answer, document)
        if page is not None:
            return _Place(place.cursor, highest, page, place.etag, place.modified)
        reached = highest if highest is not None and _is_beyond(highest, place.cursor) else place.cursor
        return _Place(reached, None, None, *self._etag_of_round)

    def _next_page(self, url: str, answer: Response, document: Any) -> str | None:
        kind = self._config["pagination"]
        if kind == "none":
            return None
        if kind == "link":
            found = next_link(url, answer.headers.get("link", ""))
        else:
            pointed = pointer(document, self._config["pagination.next.pointer"])
            param = self._config["pagination.next.param"]
            if pointed in (None, "", False):
                return None
            found = with_parameter(url, param, pointed) if param else urllib.parse.urljoin(url, str(pointed))
        if found is None:
            return None
        if not same_origin(found, self._url):
            raise ConnectError(f"{shown_url(url)} names a next page on another server: {shown_url(found)}")
        if found == url:
            raise ConnectError(f"{shown_url(url)} names itself as its next page: it would be read without end")
        return found

    def _cursor(self, item: Any) -> Any:
        field = self._config["cursor.field"]
        if not field:
            return None
        cursor = pointer(item, field)
        if cursor is None or isinstance(cursor, bool | list | dict):
            raise DataError(
                f"An item of {shown_url(self._url)} has no usable cursor at cursor.field={field}: {cursor!r}"
            )
        return cursor

    def _is_fresh(self, item: Any, cursor: Any) -> bool:
        found = self._cursor(item)
        return found is None or _is_beyond(found, cursor)

    def _record(self, item: Any, before: _Place) -> SourceRecord:
        field = self._config["key.field"]
        key = pointer(item, field) if field else None
        return SourceRecord(self._partition, before.to_offset(), self._topic, item, key=key)


_MISSING = object()


def _is_beyond(cursor: Any, other: Any) -> bool:
    """Whether one cursor is greater than another: by number if both are or parse as numbers, else by text."""
    if other is None:
        return True
    try:
        return float(cursor) > float(other) if not _are_ints(cursor, other) else int(cursor) > int(other)
    except ValueError:
        return str(cursor) > str(other)


def _are_ints(*values: Any) -> bool:
    return all(isinstance(value, int) or (isinstance(value, str) and value.lstrip("-").isdecimal()) for value in values)


def _headers(config: Mapping[str, Any], props: Mapping[str, str]) -> dict[str, str]:
    """The headers of each request. Errors: ConfigError for incomplete authentication settings."""
    found = {
        key[len(HEADER_PREFIX) :]: value
        for key, value in props.items()
        if key.startswith(HEADER_PREFIX)
        and key not in ("header.converter",)
        and not key.startswith("header.converter.")
    }
    for name, value in found.items():
        if not name or any(sign in name + value for sign in "\r\n"):
            raise ConfigError(f"{HEADER_PREFIX}{name} is not a header: a name and a value of one line are needed")
    if config["auth.type"] == "bearer":
        if config["auth.token"] is None:
            raise ConfigError("auth.type=bearer needs auth.token")
        found["Authorization"] = f"Bearer {config['auth.token'].value}"
    elif config["auth.type"] == "basic":
        if not config["auth.user"] or config["auth.password"] is None:
            raise ConfigError("auth.type=basic needs auth.user and auth.password")
        pair = f"{config['auth.user']}:{config['auth.password'].value}"
        found["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    return found


_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)([T ])(\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:?\d\d)?", re.ASCII | re.IGNORECASE
)


def cursor_before(example: object, time_ms: int) -> str | None:
    """The last cursor before a time, spelled as the example is: its zone, its digits of a second; None if that is none.

    Items at the time itself are beyond it, as a cursor leaves out what is not beyond it. A number is none, however
    much it looks like seconds since 1970: it may be an id. A time without a zone is taken as UTC.
    """
    found = _TIME.fullmatch(example) if isinstance(example, str) else None
    if found is None:
        return None
    _, separator, _, fraction, zone = found.groups()
    unit_us = 10 ** (6 - len(fraction or ""))
    wanted_us = -(-time_ms * 1000 // unit_us) * unit_us - unit_us  # the first unit at or after it, less one
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=wanted_us)
    local = moment.astimezone(_zone(zone))
    digits = f".{local.microsecond:06d}"[: len(fraction) + 1] if fraction else ""
    return f"{local:%Y-%m-%d}{separator}{local:%H:%M:%S}{digits}{zone or ''}"


def _zone(text: str | None) -> timezone:
    if text is None or text.upper() == "Z":
        return UTC
    minutes = int(text[1:3]) * 60 + int(text[-2:])
    return timezone(timedelta(minutes=minutes if text[0] == "+" else -minutes))

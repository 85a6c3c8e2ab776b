"""HttpJsonSource: polls a URL for JSON, and produces a record for each item."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from kconnect.api import (
    Backoff,
    Config,
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
from kconnect.api.wording import pluralize
from kconnect.builtin.connectors.checked_settings import raised_by, with_problems
from kconnect.builtin.connectors.http_answers import json_of
from kconnect.builtin.connectors.http_config import CONFIG
from kconnect.builtin.connectors.http_reading import (
    COUNTED,
    Cursor,
    Had,
    Page,
    Paging,
    Reach,
    cursor_before,
    digest_of,
    filled,
    pointer,
    variables_of,
    with_parameter,
)
from kconnect.builtin.connectors.http_requests import HttpClient, OAuthToken, own_headers, refused
from kconnect.builtin.types.declarations import declarations
from kconnect.builtin.types.exact_numbers import exact_json
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)


class HttpJsonSourceConnector(SourceConnector):
    """Polls one URL in one task."""

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        _checked(props)
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

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        for partition, offset in offsets:
            if offset is not None:
                if not partition or not isinstance(partition.get("url"), str):
                    raise DataError("A partition of HttpJsonSource has the key 'url', which is a text")
                _Place.of(offset)
        return True

    def config(self) -> ConfigDef:
        return CONFIG

    def validate(self, configs: Mapping[str, str]) -> Config:
        """Also checks combinations of settings."""
        return with_problems(super().validate(configs), lambda: raised_by(lambda: _checked(configs), CONFIG, "url"))

    def version(self) -> str:
        return KAFKA_VERSION


def _checked(props: Mapping[str, str]) -> dict[str, Any]:
    """Errors: ConfigError."""
    config = CONFIG.parse(props)
    own_headers(config, props)
    if config["auth.type"] == "oauth2":
        OAuthToken(config, props)
    body = config["request.body"]
    if body and config["request.method"] != "POST":
        raise ConfigError.invalid("request.body", body, "request.method=POST sends it")
    if config["pagination"] == "next" and "token" in variables_of(body) and config["pagination.next.param"]:
        message = "The token goes into the body, where request.body has ${token}, or into a parameter"
        raise ConfigError.invalid("pagination.next.param", config["pagination.next.param"], message)
    return config


@dataclass(frozen=True, slots=True)
class _Place:
    """The source's position; an offset consists of it.

    `reach` is how far rounds have come; `page` is the next page to request, None at the start of a round. So a restart
    in the middle of a round continues at its page, whatever the order of items. `etag` and `modified` are those of the
    first page when it was last read completely.
    """

    reach: Reach = dataclasses.field(default_factory=Reach)
    page: Page | None = None
    etag: str | None = None
    modified: str | None = None

    def to_offset(self) -> dict[str, Any]:
        reach = self.reach
        fields = (
            ("cursor", reach.cursor),
            ("known", reach.known.text() if reach.known is not None else None),
            ("highest", reach.highest),
            ("seen", reach.seen.text() if reach.seen.items else None),
            ("page", self.page.text() if self.page is not None else None),
            ("etag", self.etag),
            ("modified", self.modified),
        )
        return {name: value for name, value in fields if value is not None}

    @classmethod
    def of(cls, offset: Mapping[str, Any]) -> _Place:
        """Errors: DataError for fields that an offset has not, and for values of other types."""
        for name, value in offset.items():
            if name not in _FIELDS:
                raise DataError(f"An offset of HttpJsonSource has no field '{name}'; it has {', '.join(_FIELDS)}")
            if value is not None and (isinstance(value, bool) or not isinstance(value, _FIELDS[name])):
                kind = "a text or a number" if name in ("cursor", "highest") else "a text"
                raise DataError(f"The '{name}' in an offset of HttpJsonSource is {kind}, not {value!r}")
        known, seen, page = offset.get("known"), offset.get("seen"), offset.get("page")
        reach = Reach(
            offset.get("cursor"),
            None if known is None else Had.of(known),
            offset.get("highest"),
            Had() if seen is None else Had.of(seen),
        )
        return cls(reach, None if page is None else Page.of(page), offset.get("etag"), offset.get("modified"))


_FIELDS: dict[str, tuple[type, ...]] = {
    "cursor": (str, int, float),
    "known": (str,),
    "highest": (str, int, float),
    "seen": (str,),
    "page": (str,),
    "etag": (str,),
    "modified": (str,),
}


class HttpJsonSourceTask(SourceTask):
    """One poll is one page: its items that are new, in the server's order.

    The offset of the last record of a page leads to the next page, that of the others to the page itself: a page is
    read again completely unless Kafka has all of it. Without cursor.field every round returns every item, unless the
    server answers 304 to If-None-Match or If-Modified-Since.
    """

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = _checked(props)
        self._url: str = config["url"]
        self._topic: str = config["topic"]
        self._body: str = config["request.body"]
        self._lookback = Decimal(str(config["cursor.lookback"]))
        in_body = variables_of(self._body)
        self._paging = Paging(
            kind=config["pagination"],
            base_url=self._url,
            pointer=config["pagination.next.pointer"],
            param=config["pagination.next.param"],
            start=config["pagination.start"],
            size=config["pagination.size"],
            size_param=config["pagination.size.param"],
            total_pointer=config["pagination.total.pointer"],
            in_body=in_body,
        )
        self._http = HttpClient(
            self._url,
            own_headers(config, props),
            OAuthToken(config, props) if config["auth.type"] == "oauth2" else None,
            config["request.timeout.ms"] / 1000,
            config["response.max.bytes"],
            config["tls.ca.file"] or None,
        )
        # a declared decimal is read by all its digits
        self._loads = exact_json if declarations(props, is_sink=False) else json.loads
        self._partition = {"url": self._url}
        self._place = _Place.of(self.context.offset_storage_reader().offset(self._partition) or {})
        if self._place.reach.cursor is None and config["cursor.initial"]:
            self._place = _Place(Reach(config["cursor.initial"], Had()))
        self._etag_of_round: tuple[str | None, str | None] = (self._place.etag, self._place.modified)
        self._last_items: list[Any] = []  # of the page before, where pages are counted
        self._wait_s = 0.0
        self._failures = 0
        self._without_cursor: dict[str, None] = {}  # digests of items that were given up, in their order
        self._has_reported_full = False
        self._is_ahead = False  # of the last record
        self._is_resumed = self._place.page is not None

    def poll(self) -> list[SourceRecord] | None:
        """The items of the next page; None after an interrupted wait, and for an unchanged page."""
        if self._wait_s:
            if self.context.wait(self._wait_s):
                return None
            self._wait_s = 0.0
        page = self._place.page or self._paging.first(self._first_url())
        try:
            answer = self._asked(page)
        except RetriableError:
            raise
        except ConnectError as err:
            if not self._is_resumed or self._place.page is None:
                raise
            self._begin_again(err)
            return None
        self._failures = 0
        self._is_resumed = False
        if answer.status == 304:
            self._wait_s = self._config["poll.interval.ms"] / 1000
            return None
        if answer.status == 404:
            if self._place.page is None or self._paging.kind not in COUNTED:
                raise refused(page.url, answer)
            items: list[Any] = []  # a page behind the last one
            document: Any = None
        else:
            document = json_of(answer, page.url, self._config["response.max.bytes"], self._loads)
            items = self._items(document, page.url)
        before = self._place
        fresh = self._turn(page, answer, document, items)
        if self._place.page is None:
            self._wait_s = self._config["poll.interval.ms"] / 1000
        offset = before.to_offset()
        records = [self._record(item, offset) for item in fresh]
        if records:
            records[-1].source_offset = self._place.to_offset()
        self._is_ahead = not records
        return records or None

    def stop(self) -> None:
        """Nothing to release between polls."""

    def update_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
        """The position, where it is behind the last record: its page was empty, or the round has ended.

        Each time, though it was said before: it has no effect while records are on their way, and nobody reports that.
        """
        return [(self._partition, self._place.to_offset())] if self._is_ahead and self._place != _Place() else []

    def _begin_again(self, err: ConnectError) -> None:
        """Ask for the first page of the round: the one that the offset has is refused, as old tokens are."""
        page = self._place.page
        assert page is not None
        log.warning("%s, as a page to go on at. The round begins again, and some items may come twice", err)
        self._is_resumed = False
        self._place = replace(self._place, page=None)

    # --- the request ---

    def _asked_cursor(self) -> Any:
        """The cursor that goes to the server: so much before the one that was reached as cursor.lookback says."""
        reach = self._place.reach
        return None if reach.cursor is None else Cursor(reach.cursor).before(self._lookback).given

    def _first_url(self) -> str:
        param, cursor = self._config["cursor.param"], self._asked_cursor()
        return with_parameter(self._url, param, cursor) if param and cursor is not None else self._url

    def _asked(self, page: Page) -> Response:
        method, body = self._config["request.method"], None
        extra = self._conditions() if method == "GET" else {"Content-Type": self._config["request.content.type"]}
        if method == "POST":
            values = {"cursor": self._asked_cursor(), "limit": self._config["pagination.size"] or None, **page.values}
            is_form = "form-urlencoded" in self._config["request.content.type"]
            body = filled(self._body, values, is_form=is_form).encode()
        try:
            return self._http.ask(method, page.url, body, extra)
        except RetriableError as err:
            raise self._back_off(err) from err

    def _conditions(self) -> dict[str, str]:
        """Headers by which the server may answer 304: for the first page only."""
        place = self._place
        if place.page is not None:
            return {}
        found = {"If-None-Match": place.etag, "If-Modified-Since": place.modified}
        return {name: value for name, value in found.items() if value}

    def _back_off(self, err: RetriableError) -> RetriableError:
        """The error that delays the next request: as long as the server requests, else longer each time.

        Errors: ConnectError after retries.max failures in a row.
        """
        self._failures += 1
        most = self._config["retries.max"]
        if 0 <= most < self._failures:
            raise ConnectError(f"{err}, {pluralize(self._failures, 'time')} in a row (retries.max={most})") from err
        if err.retry_after_s is not None:
            wait_s = err.retry_after_s
        else:
            first_s, most_s = self._config["retry.backoff.ms"] / 1000, self._config["retry.backoff.max.ms"] / 1000
            wait_s = Backoff(first_s=first_s, most_s=most_s).pause_s(self._failures - 1)
        return RetriableError(str(err), retry_after_s=wait_s)

    # --- the answer ---

    def _items(self, document: Any, url: str) -> list[Any]:
        if document is None:
            return []
        where = self._config["items.pointer"]
        found = pointer(document, where, _MISSING)
        if found is _MISSING:
            raise DataError(f"The answer of {shown_url(url)} has nothing at items.pointer={where}")
        if isinstance(found, list):
            return found
        return [] if found is None else [found]

    def _turn(self, page: Page, answer: Response, document: Any, items: list[Any]) -> list[Any]:
        """The new items of a page; the position is behind it then."""
        place = self._place
        if place.page is None:
            self._etag_of_round = (answer.headers.get("etag"), answer.headers.get("last-modified"))
            self._last_items = []
        reach, fresh = place.reach, items
        if self._config["cursor.field"]:
            usable = self._with_cursors(items)
            reported = [(cursor, self._apart(item, cursor), item) for item, cursor in usable]
            reach, is_fresh = reach.page(reported, self._lookback)
            fresh = [item for (item, _), is_new in zip(usable, is_fresh, strict=True) if is_new]
        following = self._paging.following(page, answer, document, len(items))
        if self._paging.kind in COUNTED and items:
            if items == self._last_items:
                param = self._config["pagination.next.param"] or self._paging.kind
                at = page.values[self._paging.kind]
                raise ConnectError(
                    f"{shown_url(page.url)} answers {param}={at} with the items of the page before",
                    hint="The server seems not to know the parameter: see pagination.next.param.",
                )
            self._last_items = items
        if following is not None:
            self._place = replace(place, reach=reach, page=following)
        else:
            ended = reach.ended(self._lookback)
            self._place = _Place(ended, None, *self._etag_of_round)
            if ended.known is not None and ended.known.is_full and not self._has_reported_full:
                self._has_reported_full = True
                log.warning(
                    "More than %d items of %s have the cursor %r or lie in cursor.lookback: some come again",
                    len(ended.known.items),
                    shown_url(self._url),
                    ended.cursor,
                )
        return fresh

    def _with_cursors(self, items: list[Any]) -> list[tuple[Any, Any]]:
        """Each item with its cursor; one without is given up, once, as it comes again with each round.

        Errors: what fails the task if that is not tolerated.
        """
        field = self._config["cursor.field"]
        found = []
        for item in items:
            cursor = pointer(item, field)
            if isinstance(cursor, Decimal):
                cursor = int(cursor) if cursor == cursor.to_integral_value() else str(cursor)
            if cursor is not None and not isinstance(cursor, bool | list | dict):
                found.append((item, cursor))
                continue
            digest = digest_of(item)
            if digest in self._without_cursor:
                continue
            message = f"An item of {shown_url(self._url)} has no usable cursor at cursor.field={field}: {cursor!r}"
            self.context.report_errant(self._record(item, self._place.to_offset()), DataError(message))
            self._without_cursor[digest] = None
            if len(self._without_cursor) > _MOST_GIVEN_UP:
                del self._without_cursor[next(iter(self._without_cursor))]
        return found

    def _apart(self, item: Any, cursor: Any) -> Any:
        """What tells an item from others with its cursor."""
        if self._config["cursor.identity"] == "key":
            return [pointer(item, self._config["key.field"]), cursor]
        return item

    def _record(self, item: Any, offset: Mapping[str, Any]) -> SourceRecord:
        field = self._config["key.field"]
        key = pointer(item, field) if field else None
        return SourceRecord(self._partition, offset, self._topic, item, key=key)


_MISSING = object()
_MOST_GIVEN_UP = 10_000

"""SingerSource: the records of a Singer tap."""

from __future__ import annotations

import json
import logging
import os
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kconnect.api import (
    Config,
    ConfigDef,
    ConfigError,
    ConnectError,
    DataError,
    ExactlyOnceSupport,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from kconnect.builtin.connectors.checked_settings import raised_by, with_problems
from kconnect.builtin.connectors.singer.tap import BadRecord, Messages, State, Tap, secrets_of
from kconnect.builtin.types.declarations import with_value_schema
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)

STATE_FIELD, TAP_FIELD = "state", "tap"
_T, _I = ConfigDef.Type, ConfigDef.Importance
CONFIG = (
    with_value_schema(ConfigDef())
    .define(
        "singer.command",
        _T.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonEmptyString(),
        _I.HIGH,
        "The tap's program and its arguments, quoted as in a shell; no shell runs it. --config, --catalog and --state "
        "are added.",
    )
    .define(
        "singer.config",
        _T.PASSWORD,
        None,
        None,
        _I.HIGH,
        "The tap's settings, a JSON object. They are written to a file for its owner alone, which goes with the tap.",
    )
    .define(
        "singer.catalog",
        _T.STRING,
        "",
        None,
        _I.MEDIUM,
        "The tap's catalog: a file, or the JSON itself; empty: the tap gets none.",
    )
    .define(
        "singer.catalog.option",
        _T.STRING,
        "--catalog",
        ConfigDef.ValidString.in_("--catalog", "--properties"),
        _I.LOW,
        "The option by which the tap takes its catalog: older taps take --properties.",
    )
    .define(
        "singer.streams",
        _T.LIST,
        [],
        None,
        _I.MEDIUM,
        "Streams to select; the tap is asked for its catalog first (--discover).",
    )
    .define(
        "topic.prefix",
        _T.STRING,
        "",
        None,
        _I.HIGH,
        "What comes before the stream's name in the name of its topic.",
    )
    .define(
        "poll.interval.ms",
        _T.LONG,
        300_000,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "Time between the end of the tap and its next start.",
    )
    .define(
        "singer.silence.max.ms",
        _T.LONG,
        600_000,
        ConfigDef.Range.at_least(1),
        _I.MEDIUM,
        "How long the tap may write nothing before it counts as stuck, and the task fails.",
    )
)
_BATCH = 2000
_IDLE_S = 0.5


class SingerSourceConnector(SourceConnector):
    """Runs one tap, in one task."""

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        _Settings(props)
        self._props = props

    def task_class(self) -> type[SourceTask]:
        return SingerSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """One config regardless of `max_tasks`: a tap is one program with one state."""
        return [dict(self._props)]

    def stop(self) -> None:
        """Nothing runs besides the task."""

    def config(self) -> ConfigDef:
        return CONFIG

    def validate(self, configs: Mapping[str, str]) -> Config:
        """Also reads the JSON among the settings."""
        look = partial(raised_by, partial(_Settings, configs), CONFIG, "singer.command")
        return with_problems(super().validate(configs), look)

    def version(self) -> str:
        return KAFKA_VERSION

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """A tap repeats after a restart what came after its last state."""
        return ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        for _, offset in offsets:
            if offset is not None:
                _check_state(offset)
        return True


class _Settings:
    """The settings, with the JSON among them read. Errors: ConfigError, without what may be secret."""

    def __init__(self, props: Mapping[str, str]) -> None:
        config = CONFIG.parse(props)
        self.command = _split(config["singer.command"])
        given = config["singer.config"]
        self.config = "{}" if given is None or not given.value.strip() else given.value
        read = _object("singer.config", self.config, is_secret=True)
        self.secrets = secrets_of(read)
        self.catalog = _catalog(config["singer.catalog"])
        self.catalog_option: str = config["singer.catalog.option"]
        self.streams: list[str] = config["singer.streams"]
        if self.catalog and self.streams:
            raise ConfigError.invalid("singer.streams", self.streams, "singer.catalog selects streams already")
        self.topic_prefix: str = config["topic.prefix"]
        self.interval_s = config["poll.interval.ms"] / 1000
        self.silence_s = config["singer.silence.max.ms"] / 1000


class SingerSourceTask(SourceTask):
    """Runs the tap to its end, again and again. The offset is its last state, which it gets at its next start.

    Records behind the last state come again after a kill: a tap does so by itself.
    """

    def __init__(self) -> None:
        self._tap: Tap | None = None

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        self._settings = settings = _Settings(props)
        self._name = os.path.basename(settings.command[0])
        self._partition = {TAP_FIELD: self._name}
        kept = self.context.offset_storage_reader().offset(self._partition)
        self._state: str | None = _check_state(kept) if kept else None
        self._catalog = settings.catalog
        self._next_start_s = 0.0
        self._has_letters = False

    def poll(self) -> list[SourceRecord] | None:
        """Errors: ConnectError when the tap failed, hangs, or writes something else than messages."""
        if self._tap is None:
            left_s = self._next_start_s - time.monotonic()
            if left_s > 0:
                self.context.wait(left_s)
                return None
            self._start_tap()
        tap = self._tap
        assert tap is not None
        records = self._read(tap.take(_BATCH))
        if records:
            return records
        code = tap.ended()
        if code is not None:
            self._ended(tap, code)
        elif tap.silent_s() > self._settings.silence_s:
            self._stop_tap()
            raise ConnectError(
                f"{self._name} has written nothing for {self._settings.silence_s:g} s and was ended. {_said(tap)}",
                hint="singer.silence.max.ms is how long it may be silent.",
            )
        else:
            self.context.wait(_IDLE_S)
        return None

    def stop(self) -> None:
        self._stop_tap()

    def update_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
        """The last state, which may be behind all records; not while one was given up that goes with the next one.

        Each time, though it was said before: it has no effect while records are on their way, and nobody reports that.
        """
        if self._state is None or self._has_letters:
            return []
        return [(self._partition, {STATE_FIELD: self._state})]

    def _read(self, lines: Sequence[bytes]) -> list[SourceRecord]:
        """Records, each with the last state before it; the state behind the last one is its."""
        records: list[SourceRecord] = []
        for line in lines:
            found = self._messages.read(line)
            if isinstance(found, State):
                self._state = found.text
                if records:
                    records[-1].source_offset = {STATE_FIELD: found.text}
                continue
            if isinstance(found, BadRecord):
                self._has_letters = True
                found.record.source_offset = self._offset()
                self.context.report_errant(found.record, found.error)
            elif found is not None:
                found.source_offset = self._offset()
                records.append(found)
        if records:
            self._has_letters = False
        return records

    def _offset(self) -> dict[str, str] | None:
        return None if self._state is None else {STATE_FIELD: self._state}

    # --- the tap's runs ---

    def _start_tap(self) -> None:
        settings = self._settings
        if settings.streams and not self._catalog:
            self._catalog = self._discovered()
        files = {"--config": settings.config, settings.catalog_option: self._catalog, "--state": self._state}
        self._messages = Messages(self._name, settings.topic_prefix, self._partition)
        self._tap = self._new_tap(settings.command, {option: text for option, text in files.items() if text})

    def _new_tap(self, command: Sequence[str], files: Mapping[str, str]) -> Tap:
        tap = Tap(command, files, self._settings.secrets, self.context.wake)
        tap.start()
        return tap

    def _discovered(self) -> str:
        """The tap's own catalog, with the chosen streams selected."""
        command = [*self._settings.command, "--discover"]
        tap = self._tap = self._new_tap(command, {"--config": self._settings.config})
        lines: list[bytes] = []
        while (code := tap.ended()) is None:
            lines += tap.take(_BATCH)
            if tap.silent_s() > self._settings.silence_s or self.context.wait(0.01):
                self._stop_tap()
                raise ConnectError(f"{self._name} --discover did not end. {_said(tap)}")
        self._stop_tap()
        if code:
            raise ConnectError(f"{self._name} --discover ended with code {code}. {_said(tap)}")
        return selected(b"".join(lines), self._settings.streams, self._name)

    def _ended(self, tap: Tap, code: int) -> None:
        self._stop_tap()
        if code == 127:
            raise ConnectError(
                tap.tail() or f"{self._name} ended with code 127",
                hint="Install it where the tasks run, or name it with its folder in singer.command.",
            )
        if code:
            how = f"was killed by signal {code - 128}" if code > 128 else f"ended with code {code}"
            raise ConnectError(f"{self._name} {how}. {_said(tap)}")
        self._next_start_s = time.monotonic() + self._settings.interval_s
        log.info("%s has ended; it is started again in %g s", self._name, self._settings.interval_s)

    def _stop_tap(self) -> None:
        tap, self._tap = self._tap, None
        if tap is not None:
            tap.stop()


def selected(catalog: bytes, streams: Sequence[str], name: str) -> str:
    """A catalog with these streams selected and no others. Errors: ConnectError names those that are not in it."""
    try:
        found = json.loads(catalog)
        known = {stream.get("stream") or stream["tap_stream_id"]: stream for stream in found["streams"]}
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise ConnectError(f"{name} --discover gave no catalog: {err}") from err
    missing = [stream for stream in streams if stream not in known]
    if missing:
        raise ConnectError(f"{name} has no stream {missing[0]}; it has: {', '.join(sorted(known))}")
    for title, stream in known.items():
        metadata = stream.setdefault("metadata", [])
        whole = next((part for part in metadata if not part.get("breadcrumb")), None)
        if whole is None:
            whole = {"breadcrumb": [], "metadata": {}}
            metadata.append(whole)
        whole.setdefault("metadata", {})["selected"] = stream["selected"] = title in streams
        if isinstance(stream.get("schema"), dict):
            _mark(stream["schema"], title in streams)
    return json.dumps(found)


def _mark(node: dict[str, Any], is_selected: bool) -> None:
    """Select a schema and all of its properties, as taps look for it that take --properties; others do not."""
    node["selected"] = is_selected
    for part in (node.get("properties") or {}).values():
        if isinstance(part, dict):
            _mark(part, is_selected)


def _said(tap: Tap) -> str:
    tail = tap.tail()
    return f"The last that it said:\n{tail}" if tail else "It said nothing."


def _split(command: str) -> list[str]:
    try:
        found = shlex.split(command)
    except ValueError as err:
        raise ConfigError.invalid("singer.command", command, str(err)) from None
    if not found:
        raise ConfigError.invalid("singer.command", command, "It names no program")
    return found


def _catalog(text: str) -> str:
    """The JSON of a catalog that is given as such, or as a file."""
    if not text:
        return ""
    if not text.lstrip().startswith("{"):
        try:
            with open(text, encoding="utf-8") as file:
                read = file.read()
        except OSError as err:
            raise ConfigError.invalid("singer.catalog", text, f"It cannot be read: {err.strerror}") from err
    else:
        read = text
    _object("singer.catalog", read)
    return read


def _object(key: str, text: str, *, is_secret: bool = False) -> dict[str, Any]:
    shown = "[hidden]" if is_secret else text
    try:
        found = json.loads(text)
    except ValueError as err:
        message = f"It is not JSON: {err}" if not is_secret else "It is not JSON"
        raise ConfigError.invalid(key, shown, message) from None
    if not isinstance(found, dict):
        raise ConfigError.invalid(key, shown, "It must be a JSON object")
    return found


def _check_state(offset: Mapping[str, Any]) -> str:
    state = offset.get(STATE_FIELD)
    try:
        if isinstance(state, str):
            json.loads(state)
            return state
    except ValueError:
        pass
    raise DataError(f"The '{STATE_FIELD}' in the offset of a tap is its state, as a text of JSON")

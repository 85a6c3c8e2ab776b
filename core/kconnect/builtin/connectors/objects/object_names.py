"""Names of the objects a sink writes: the folder by a template, the name by the range of offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import reduce
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kconnect.api import ConfigError, DataError, RecordBatch, Struct
from kconnect.api.columns import values_of
from kconnect.api.plain_values import plain
from kconnect.builtin.connectors.objects.object_formats import SUFFIXES
from kconnect.builtin.stores.hive_paths import HIVE_NULL, folder_value
from kconnect.builtin.types.iso_text import moment_of_iso

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_KNOWN = (
    "there are ${topic}, ${partition}, ${date:%Y-%m-%d}, ${field:NAME}, ${time:FIELD:%Y-%m-%d}; "
    "date and time take a zone behind: ${date:%H:Europe/Berlin}"
)
_EXTENSIONS = {"lines": "txt"}
_COMPRESSED_INSIDE = ("parquet", "avro")
# As many as Kafka writes in the names of its own segments
_DIGITS = 20
# As file systems take them
_LONGEST_NAME = 255


@dataclass(frozen=True, slots=True)
class _Variable:
    """`field`: the place of its field among `ObjectNames.fields`, of field and time. `form`: of date and time."""

    kind: str
    field: int = -1
    form: str = ""
    zone: tzinfo = UTC
    begins_folder: bool = False


class ObjectNames:
    """Where the rows of one unit of a partition go: `FOLDER/TOPIC+PARTITION+FIRST-LAST.EXTENSION`.

    A unit is the rows between two writes; each folder that they go to has one object, whose name has the range of the
    whole unit. So rows that are delivered again in the same unit replace the same objects. `fields` are the names of
    fields whose values the folder is made of. Errors: ConfigError for a template with unknown variables.
    """

    def __init__(self, template: str, format_: str, compression: str) -> None:
        texts = _VARIABLE.split(template.strip("/"))
        inside = format_ in _COMPRESSED_INSIDE
        self._extension = _EXTENSIONS.get(format_, format_) + ("" if inside else SUFFIXES[compression])
        fields: list[str] = []
        self._parts: list[str | _Variable] = []
        for index, text in enumerate(texts):
            begins = (index == 1 and not texts[0]) or (index > 0 and texts[index - 1].endswith("/"))
            part = text if index % 2 == 0 else _variable(text, fields, begins_folder=begins)
            if part is None:
                raise ConfigError.invalid("object.path", template, f"${{{text}}} is unknown: {_KNOWN}")
            self._parts.append(part)
        self.fields = tuple(fields)
        if ".." in template.split("/"):
            raise ConfigError.invalid("object.path", template, "It must not lead out of object.url")
        self.has_dates = any(isinstance(part, _Variable) and part.kind == "date" for part in self._parts)

    def folder(self, topic: str, partition: int, time_ms: int | None, values: Sequence[Any] = ()) -> str:
        """The folder of a record. `values`: of its `fields`, in this order.

        Errors: DataError for a record without time, if the template has a date, and for a value that names no folder.
        """
        if self.has_dates and time_ms is None:
            raise DataError("It has no timestamp, and object.path has a date")
        found = "".join(
            part if isinstance(part, str) else self._text(part, topic, partition, time_ms, values)
            for part in self._parts
        )
        for name in found.split("/"):
            if len(name.encode()) > _LONGEST_NAME:
                raise DataError(f"The folder {name[:40]}.. has a name of more than {_LONGEST_NAME} bytes")
        return found

    def _text(self, variable: _Variable, topic: str, partition: int, time_ms: int | None, values: Sequence[Any]) -> str:
        kind = variable.kind
        if kind in ("topic", "partition"):
            return topic if kind == "topic" else str(partition)
        if kind == "date":
            return local_time(time_ms or 0, variable.zone).strftime(variable.form)
        value, name = values[variable.field], self.fields[variable.field]
        if kind == "time":
            when = instant(value, name)
            return HIVE_NULL if when is None else _in_zone(when, variable.zone).strftime(variable.form)
        if isinstance(value, dict | list | tuple | bytes) or hasattr(value, "schema"):
            raise DataError(f"Field {name} of object.path is {type(value).__name__}, which names no folder")
        text = folder_value(plain(value) if isinstance(value, datetime) else value)
        if variable.begins_folder and text[:1] in (".", "_") and text != HIVE_NULL:
            return f"%{ord(text[0]):02X}{text[1:]}"  # a way out, or a folder that readers take for hidden
        return text

    names_first_of_folder = False
    """Whether `name` wants the first offset of the rows in the folder, and not of the unit."""
    grain_ms = 1000
    """Times within this are in one folder."""

    def path(self, folder: str, name: str) -> str:
        return "/".join(part for part in (folder, name) if part)

    def name(self, topic: str, partition: int, first: int, last: int) -> str:
        return f"{_stem(topic, partition)}{first:0{_DIGITS}d}-{last:0{_DIGITS}d}.{self._extension}"

    def replay_name(self, topic: str, partition: int, token: str) -> str:
        """For rows from outside, whose offsets say nothing: `ends` leaves it out."""
        return f"{_stem(topic, partition)}replay-{token}.{self._extension}"

    def prefix(self, topic: str | None, partition: int, read_from: str) -> str | None:
        """What the paths of all objects of a partition begin with, as far as it is the same for all.

        `topic` is None if it was changed on the way, perhaps not for all records; `read_from` is the original one.
        """
        found = ""
        for part in self._parts:
            if isinstance(part, _Variable):
                if part.kind not in ("topic", "partition") or (topic is None and part.kind == "topic"):
                    return found
                part = self._text(part, topic or "", partition, None, ())
            found += part
        return f"{found}/{_stem(read_from, partition)}" if found else _stem(read_from, partition)

    def ends(self, topic: str, partition: int, paths: Iterable[str]) -> list[int]:
        """The last offsets of the units that these objects are of, ascending."""
        stem = re.escape(_stem(topic, partition))
        own = re.compile(rf"(?:.*/)?{stem}\d{{{_DIGITS}}}-(\d{{{_DIGITS}}})\.{re.escape(self._extension)}")
        return sorted({int(match[1]) for path in paths if (match := own.fullmatch(path))})


def _stem(topic: str, partition: int) -> str:
    return f"{topic}+{partition}+"


def _variable(text: str, fields: list[str], *, begins_folder: bool) -> _Variable | None:
    """What stands between the braces; its field is added to the list. None for an unknown one."""
    kind, _, rest = text.partition(":")
    if kind in ("topic", "partition"):
        return _Variable(kind) if not rest and text == kind else None
    if kind == "date":
        form, zone = _zoned(rest)
        return _Variable(kind, -1, form, zone) if form else None
    if kind not in ("field", "time"):
        return None
    field, _, form = (rest, "", "") if kind == "field" else rest.partition(":")
    form, zone = _zoned(form)
    if not field or (kind == "time" and not form):
        return None
    if field not in fields:
        fields.append(field)
    return _Variable(kind, fields.index(field), form, zone, begins_folder)


def _zoned(text: str) -> tuple[str, tzinfo]:
    """A format and the zone behind its last colon, if that is no part of it. Errors: ConfigError."""
    form, sign, zone = text.rpartition(":")
    if not sign or "%" in zone or not zone:
        return text, UTC
    return form, time_zone("object.path", text, zone)


def time_zone(setting: str, given: str, name: str) -> tzinfo:
    """The zone of this name or offset, which is in what the setting was given. Errors: ConfigError."""
    if offset := _OFFSET.fullmatch(name):
        away = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-away if offset[1] == "-" else away)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as err:
        raise ConfigError.invalid(setting, given, f"Unknown time zone: {name}. For example: Europe/Berlin") from err


_OFFSET = re.compile(r"([+-])([01]\d|2[0-3]):([0-5]\d)", re.ASCII)


def local_time(time_ms: int, zone: tzinfo) -> datetime:
    """A record's time by the clock of a zone. Errors: DataError for one beyond the calendar, as of microseconds."""
    try:
        return _in_zone(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms), zone)
    except OverflowError:
        raise DataError(f"Its timestamp, {time_ms} ms since 1970, is not in the years 1 to 9999") from None


def _in_zone(when: datetime, zone: tzinfo) -> datetime:
    """Errors: DataError."""
    try:
        return when.astimezone(zone)
    except OverflowError:
        raise DataError(f"The time {when.isoformat()} is not in the years 1 to 9999 in {zone}") from None


def instant(value: Any, field: str) -> datetime | None:
    """The time that a field holds: one of Connect's, milliseconds, or ISO 8601, in UTC if it has no zone.

    Errors: DataError for what is no time.
    """
    if value is None or isinstance(value, datetime):
        return value if value is None or value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    try:
        if isinstance(value, str):
            found = moment_of_iso(value)
            return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=value)
    except (ValueError, OverflowError):
        pass
    raise DataError(f"Field {field} is {value!r}, which is neither milliseconds nor a time in ISO 8601")


def field_values(value: Any, fields: Sequence[str]) -> tuple[Any, ...]:
    """The values of fields of a record's value; None for those that it has not.

    A dot leads into a field, but for one in double quotes, as Confluent's sinks have it: `"a.b".c`.
    """
    return tuple(_field_of(value, name) for name in fields)


def batch_field_values(batch: RecordBatch, fields: Sequence[str]) -> list[tuple[Any, ...]]:
    """The same of each row of a batch. Only columns that have these fields are made values."""
    import pyarrow as pa

    column = batch.value
    if column is None or not pa.types.is_struct(column.type):
        return [(None,) * len(fields)] * len(batch)
    roots = {root for name in fields for root in (name, *_roots(name))}
    parts = [(field, part) for field, part in zip(column.type, column.flatten(), strict=True) if field.name in roots]
    if not parts:
        return [(None,) * len(fields)] * len(batch)
    chosen = pa.StructArray.from_arrays([part for _, part in parts], fields=[field for field, _ in parts])
    rows = values_of(None, chosen, len(batch)) if batch.value_schema is None else chosen.to_pylist()
    return [field_values(row, fields) for row in rows]


def _roots(name: str) -> list[str]:
    """The fields of the value that a name may lead into."""
    bare = name.replace('"', "")
    return [bare.partition(".")[0], *_steps(name)[:1]]


def _steps(name: str) -> list[str]:
    """What dots that are not in double quotes part, without the quotes."""
    return [step.replace('"', "") for step in _QUOTED_STEP.findall(name)]


_QUOTED_STEP = re.compile(r'(?:[^."]|"[^"]*"?)+')


def _field_of(value: Any, name: str) -> Any:
    found = _member(value, name)
    if found is None and '"' in name:
        return reduce(_field_of, _steps(name), value)
    if found is None and "." in name:
        outer, _, inner = name.partition(".")
        return _field_of(_member(value, outer), inner)
    return found


def _member(value: Any, name: str) -> Any:
    if isinstance(value, Struct):
        return value.get(name) if value.schema.field(name) is not None else None
    return value.get(name) if isinstance(value, dict) else None

"""Names of the objects a sink writes: the folder by a template, the name by the range of offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from kconnect.api import ConfigError, DataError
from kconnect.builtin.connectors.objects.object_formats import SUFFIXES

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_EXTENSIONS = {"lines": "txt"}
_COMPRESSED_INSIDE = ("parquet", "avro")
# As many as Kafka writes in the names of its own segments
_DIGITS = 20


class ObjectNames:
    """Where the rows of one unit of a partition go: `FOLDER/TOPIC+PARTITION+FIRST-LAST.EXTENSION`.

    A unit is the rows between two writes; each folder that they go to has one object, whose name has the range of the
    whole unit. So rows that are delivered again in the same unit replace the same objects.
    Errors: ConfigError for a template with unknown variables.
    """

    def __init__(self, template: str, format_: str, compression: str) -> None:
        self._parts = _VARIABLE.split(template.strip("/"))
        inside = format_ in _COMPRESSED_INSIDE
        self._extension = _EXTENSIONS.get(format_, format_) + ("" if inside else SUFFIXES[compression])
        for variable in self._parts[1::2]:
            kind, _, form = variable.partition(":")
            if kind not in ("topic", "partition", "date") or (kind == "date") != bool(form):
                problem = f"${{{variable}}} is unknown: there are ${{topic}}, ${{partition}}, ${{date:%Y-%m-%d}}"
                raise ConfigError.invalid("object.path", template, problem)
        if ".." in template.split("/"):
            raise ConfigError.invalid("object.path", template, "It must not lead out of object.url")
        self.has_dates = any(variable.startswith("date") for variable in self._parts[1::2])

    def folder(self, topic: str, partition: int, time_ms: int | None) -> str:
        """The folder of a record. Errors: DataError for a record without time, if the template has a date."""
        if self.has_dates and time_ms is None:
            raise DataError("It has no timestamp, and object.path has a date")
        when = datetime.fromtimestamp((time_ms or 0) / 1000, UTC) if self.has_dates else None
        return "".join(
            part if index % 2 == 0 else _value(part, topic, partition, when) for index, part in enumerate(self._parts)
        )

    def name(self, topic: str, partition: int, first: int, last: int) -> str:
        return f"{_stem(topic, partition)}{first:0{_DIGITS}d}-{last:0{_DIGITS}d}.{self._extension}"

    def replay_name(self, topic: str, partition: int, token: str) -> str:
        """For rows from outside, whose offsets say nothing: `ends` leaves it out."""
        return f"{_stem(topic, partition)}replay-{token}.{self._extension}"

    def prefix(self, topic: str | None, partition: int, read_from: str) -> str:
        """What the paths of all objects of a partition begin with, as far as it is the same for all.

        `topic` is None if it was changed on the way, perhaps not for all records; `read_from` is the original one.
        """
        found = ""
        for index, part in enumerate(self._parts):
            if index % 2 and (part.startswith("date") or (topic is None and part == "topic")):
                return found
            found += part if index % 2 == 0 else _value(part, topic or "", partition, None)
        return f"{found}/{_stem(read_from, partition)}" if found else _stem(read_from, partition)

    def ends(self, topic: str, partition: int, paths: Iterable[str]) -> list[int]:
        """The last offsets of the units that these objects are of, ascending."""
        stem = re.escape(_stem(topic, partition))
        own = re.compile(rf"(?:.*/)?{stem}\d{{{_DIGITS}}}-(\d{{{_DIGITS}}})\.{re.escape(self._extension)}")
        return sorted({int(match[1]) for path in paths if (match := own.fullmatch(path))})


def _stem(topic: str, partition: int) -> str:
    return f"{topic}+{partition}+"


def _value(variable: str, topic: str, partition: int, when: datetime | None) -> str:
    if variable == "topic":
        return topic
    return str(partition) if variable == "partition" else when.strftime(variable.partition(":")[2]) if when else ""

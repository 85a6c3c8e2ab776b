"""Confluent's S3 sink by its name: ObjectSink with Java's settings, names of objects, and rotations.

At the top are the settings: their table, what they mean here, and what is refused by name.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from itertools import groupby
from typing import Any, Final

from kconnect.api import ConfigDef, ConfigError, DataError, RecordBatch, Schema, SinkRecord, SinkTask, TopicPartition
from kconnect.builtin.connectors.checked_settings import UniformSinkConnector, raised_by
from kconnect.builtin.connectors.objects.beside_values import (
    HEADERS,
    KEYS,
    ContentWithParts,
    EncoderWithParts,
    Part,
    enveloped_key_of,
    headers_of,
    key_of,
)
from kconnect.builtin.connectors.objects.confluent_layout import (
    ConfluentNames,
    TimeBuckets,
    TombstoneNames,
    next_schedule_s,
)
from kconnect.builtin.connectors.objects.joda import joda_format
from kconnect.builtin.connectors.objects.object_config import OPTIONS_PREFIX, object_store
from kconnect.builtin.connectors.objects.object_names import ObjectNames, time_zone
from kconnect.builtin.connectors.objects.object_sink import Mark, ObjectSinkTask
from kconnect.builtin.connectors.objects.object_units import Unit
from kconnect.builtin.connectors.objects.object_writers import Content, Encoder
from kconnect.builtin.stores.flush_plan import FlushLimits

_T, _I = ConfigDef.Type, ConfigDef.Importance
_S3, _STORAGE = "io.confluent.connect.s3.", "io.confluent.connect.storage."
_FORMATS: Final = {
    f"{_S3}format.json.JsonFormat": "jsonl",
    f"{_S3}format.avro.AvroFormat": "avro",
    f"{_S3}format.parquet.ParquetFormat": "parquet",
    f"{_S3}format.bytearray.ByteArrayFormat": "lines",
}
_PARTITIONERS: Final = {
    f"{_STORAGE}partitioner.{name}Partitioner": name for name in ("Default", "Field", "TimeBased", "Daily", "Hourly")
}
_EXTRACTORS: Final = ("Wallclock", "Record", "RecordField")
_EXTRACTOR_CLASS: Final = f"{_STORAGE}partitioner.TimeBasedPartitioner${{}}TimestampExtractor"
_STORAGE_CLASS: Final = f"{_S3}storage.S3Storage"
_CHAIN: Final = "com.amazonaws.auth.DefaultAWSCredentialsProviderChain"
# The chain under its newer name, and classes that look at one place that it looks at, too
_IN_THE_CHAIN: Final = (
    _CHAIN,
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
    *(
        f"{package}.{place}CredentialsProvider"
        for package in ("com.amazonaws.auth", "software.amazon.awssdk.auth.credentials")
        for place in ("EnvironmentVariable", "InstanceProfile", "WebIdentityToken", "Container")
    ),
    "com.amazonaws.auth.EC2ContainerCredentialsProviderWrapper",
    "com.amazonaws.auth.profile.ProfileCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.WebIdentityTokenFileCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider",
)
_AVRO: Final = {"null": "none", "deflate": "gzip", "snappy": "snappy", "bzip2": "bzip2"}
_PARQUET: Final = {"snappy": ".snappy", "gzip": ".gz", "zstd": ".zstd", "none": ""}
_DAY_MS, _HOUR_MS = 86_400_000, 3_600_000

# Settings of Java's with which nothing else is written here: name, type, default
_WITHOUT_EFFECT: Final[Sequence[tuple[str, Any, Any]]] = (
    ("s3.part.size", _T.INT, 26_214_400),
    ("s3.part.retries", _T.INT, 3),
    ("s3.retry.backoff.ms", _T.LONG, 200),
    ("s3.compression.level", _T.INT, -1),
    ("retry.backoff.ms", _T.LONG, 5000),
    ("shutdown.timeout.ms", _T.LONG, 3000),
    ("schema.cache.size", _T.INT, 1000),
    ("schema.generator.class", _T.STRING, ""),
    ("enhanced.avro.schema.support", _T.BOOLEAN, True),
    ("connect.meta.data", _T.BOOLEAN, True),
    ("allow.optional.map.keys", _T.BOOLEAN, False),
    ("s3.elastic.buffer.enable", _T.BOOLEAN, False),
    ("s3.elastic.buffer.init.capacity", _T.INT, 131_072),
    ("s3.http.send.expect.continue", _T.BOOLEAN, True),
    ("s3.schema.partition.affix.type", _T.STRING, "NONE"),
    ("send.digest", _T.BOOLEAN, False),
    ("s3.object.behavior.on.tagging.error", _T.STRING, "ignore"),
    ("s3.object.tagging.extra.kv", _T.LIST, []),
)
# Settings that change what is written in ways that are not there: name, type, the value that asks for nothing
_REFUSED: Final = (
    ("s3.wan.mode", _T.BOOLEAN, False),
    ("s3.proxy.url", _T.STRING, ""),
    ("s3.proxy.user", _T.STRING, ""),
    ("s3.proxy.password", _T.PASSWORD, None),
    ("s3.sse.customer.key", _T.PASSWORD, None),
    ("s3.sse.key", _T.PASSWORD, None),  # its name before 5.0
    ("s3.object.tagging", _T.BOOLEAN, False),
    ("rotate.file.deduplication", _T.BOOLEAN, False),
)


def _table() -> ConfigDef:
    in_, any_case = ConfigDef.ValidString.in_, ConfigDef.CaseInsensitiveValidString.in_
    at_least = ConfigDef.Range.at_least
    table = ConfigDef()
    rows: tuple[tuple[str, Any, Any, Any, Any, str], ...] = (
        ("s3.bucket.name", _T.STRING, ConfigDef.NO_DEFAULT, ConfigDef.NonEmptyString(), _I.HIGH, "The bucket."),
        ("s3.region", _T.STRING, "us-west-2", None, _I.MEDIUM, "Its region."),
        ("store.url", _T.STRING, "", None, _I.HIGH, "Address of another store than Amazon's."),
        ("aws.access.key.id", _T.PASSWORD, None, None, _I.HIGH, "Access key; without, as AWS's chain finds it."),
        ("aws.secret.access.key", _T.PASSWORD, None, None, _I.HIGH, "Its secret."),
        ("s3.credentials.provider.class", _T.STRING, _CHAIN, None, _I.LOW, "AWS's chain alone."),
        ("s3.path.style.access.enabled", _T.BOOLEAN, True, None, _I.LOW, "Whether the bucket is in the path."),
        ("s3.ssea.name", _T.STRING, "", in_("", "AES256", "aws:kms"), _I.LOW, "Encryption by the server."),
        ("s3.sse.kms.key.id", _T.STRING, "", None, _I.LOW, "Key of aws:kms."),
        ("s3.acl.canned", _T.STRING, "", None, _I.LOW, "Canned ACL of the objects."),
        ("s3.compression.type", _T.STRING, "none", in_("none", "gzip"), _I.LOW, "Of JSON and bytes."),
        ("format.class", _T.STRING, ConfigDef.NO_DEFAULT, in_(*_FORMATS), _I.HIGH, "What is written."),
        ("storage.class", _T.STRING, _STORAGE_CLASS, in_(_STORAGE_CLASS), _I.HIGH, "S3."),
        ("flush.size", _T.INT, ConfigDef.NO_DEFAULT, at_least(1), _I.HIGH, "Rows of a partition between two writes."),
        ("rotate.interval.ms", _T.LONG, -1, None, _I.HIGH, "Time between two writes by the records' times."),
        ("rotate.schedule.interval.ms", _T.LONG, -1, None, _I.MEDIUM, "The same by the clock, since midnight."),
        ("partitioner.class", _T.STRING, next(iter(_PARTITIONERS)), in_(*_PARTITIONERS), _I.HIGH, "Folders."),
        ("partition.field.name", _T.LIST, [], None, _I.MEDIUM, "Fields of the FieldPartitioner."),
        ("partition.duration.ms", _T.LONG, -1, None, _I.MEDIUM, "Length of a folder's time."),
        ("path.format", _T.STRING, "", None, _I.MEDIUM, "Folders of time, as Joda formats it."),
        ("locale", _T.STRING, "", None, _I.MEDIUM, "Language of names in path.format: en."),
        ("timezone", _T.STRING, "", None, _I.MEDIUM, "Zone of path.format and the schedule."),
        ("timestamp.extractor", _T.STRING, "Wallclock", None, _I.MEDIUM, "Wallclock, Record or RecordField."),
        ("timestamp.field", _T.STRING, "timestamp", None, _I.MEDIUM, "Field of RecordField."),
        ("append.late.data", _T.BOOLEAN, False, None, _I.LOW, "Whether late rows cause no write."),
        ("schema.compatibility", _T.STRING, "NONE", None, _I.HIGH, "NONE: another schema causes a write."),
        ("topics.dir", _T.STRING, "topics", None, _I.HIGH, "Folder above those of topics."),
        ("directory.delim", _T.STRING, "/", None, _I.MEDIUM, "What is between folders."),
        ("file.delim", _T.STRING, "+", None, _I.MEDIUM, "What is between topic, partition and offset."),
        ("filename.offset.zero.pad.width", _T.INT, 10, at_least(0), _I.LOW, "Digits of the offset."),
        ("behavior.on.null.values", _T.STRING, "fail", any_case("fail", "ignore", "write"), _I.LOW, "Of tombstones."),
        ("tombstone.encoded.partition", _T.STRING, "tombstone", None, _I.LOW, "Folder of tombstones that are written."),
        ("store.kafka.keys", _T.BOOLEAN, False, None, _I.LOW, "Whether keys are in objects beside."),
        ("keys.format.class", _T.STRING, f"{_S3}format.avro.AvroFormat", in_(*_FORMATS), _I.LOW, "Of keys."),
        ("store.kafka.headers", _T.BOOLEAN, False, None, _I.LOW, "Whether headers are in objects beside."),
        ("headers.format.class", _T.STRING, f"{_S3}format.avro.AvroFormat", in_(*_FORMATS), _I.LOW, "Of headers."),
        ("json.decimal.format", _T.STRING, "BASE64", any_case("BASE64", "NUMERIC"), _I.LOW, "Decimals in JSON."),
        ("avro.codec", _T.STRING, "null", in_(*_AVRO), _I.LOW, "Compression in Avro."),
        ("parquet.codec", _T.STRING, "snappy", in_(*_PARQUET), _I.LOW, "Compression in Parquet."),
        ("format.bytearray.extension", _T.STRING, ".bin", None, _I.LOW, "Extension of bytes."),
        ("format.bytearray.separator", _T.STRING, "\\n", in_("\\n", "\n"), _I.LOW, "What is between bytes."),
    )
    for name, kind, default, valid, importance, doc in rows:
        table.define(name, kind, default, valid, importance, doc)
    for name, kind, default in _WITHOUT_EFFECT:
        table.define(name, kind, default, None, _I.LOW, "Without effect here.")
    for name, kind, default in _REFUSED:
        table.define(name, kind, default, None, _I.LOW, "Refused: it does not exist here.")
    return table


S3_CONFIG = _table()


def refusals(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a config asks for that is not there: pairs of setting and message."""
    for name, _, nothing in _REFUSED:
        if config[name] not in (nothing, None):
            yield (
                name,
                f"{name} is not supported here: take it out, or run Confluent's connector (docs/java-plugins.md)",
            )
    if config["s3.credentials.provider.class"] not in _IN_THE_CHAIN:
        yield (
            "s3.credentials.provider.class",
            f"Only {_CHAIN} is there: keys in aws.access.key.id, the environment, ~/.aws, or the machine's role. "
            "A role to assume stands in ~/.aws/config, as role_arn.",
        )


def names_of(config: Mapping[str, Any]) -> ConfluentNames:
    """Errors: ConfigError."""
    kind, delim = _PARTITIONERS[config["partitioner.class"]], config["directory.delim"]
    fields: list[str] = []
    buckets = None
    if kind == "Field":
        fields = config["partition.field.name"]
        if not fields:
            raise ConfigError.invalid("partition.field.name", "", "FieldPartitioner needs it")
    elif kind != "Default":
        buckets = _buckets(kind, config, delim)
        if extractor_of(config) == "RecordField":
            fields = [config["timestamp.field"]]
    return ConfluentNames(**_files(config), fields=fields, buckets=buckets, by_field=kind == "Field")


def tombstone_names_of(config: Mapping[str, Any]) -> TombstoneNames:
    return TombstoneNames(config["tombstone.encoded.partition"], **_files(config))


def _files(config: Mapping[str, Any]) -> dict[str, Any]:
    """What names of objects have of a config, but for folders."""
    return {
        "topics_dir": config["topics.dir"],
        "directory_delim": config["directory.delim"],
        "file_delim": config["file.delim"],
        "width": config["filename.offset.zero.pad.width"],
        "extension": _extension(config),
    }


def _buckets(kind: str, config: Mapping[str, Any], delim: str) -> TimeBuckets:
    day = delim.join(("'year'=YYYY", "'month'=MM", "'day'=dd"))
    pattern, length_ms = {
        "Daily": (day, _DAY_MS),
        "Hourly": (f"{day}{delim}'hour'=HH", _HOUR_MS),
        "TimeBased": (config["path.format"], config["partition.duration.ms"]),
    }[kind]
    for name in ("locale", "timezone"):
        if not config[name].strip():
            raise ConfigError.invalid(name, config[name], f"{name.capitalize()} cannot be empty.")
    if not pattern.strip() or pattern == delim:
        raise ConfigError.invalid("path.format", pattern, "Path format cannot be empty.")
    if length_ms <= 0:
        raise ConfigError.invalid("partition.duration.ms", length_ms, "Partition duration needs to be a positive.")
    form = joda_format(pattern.removesuffix(delim), config["locale"], "path.format")
    return TimeBuckets(form, length_ms, zone_of(config))


def zone_of(config: Mapping[str, Any]) -> tzinfo:
    """Errors: ConfigError."""
    return time_zone("timezone", config["timezone"], config["timezone"] or "UTC")


def extractor_of(config: Mapping[str, Any]) -> str:
    """Errors: ConfigError."""
    given = config["timestamp.extractor"]
    for name in _EXTRACTORS:
        if given in (name, _EXTRACTOR_CLASS.format(name)):
            return name
    raise ConfigError.invalid("timestamp.extractor", given, f"There are {', '.join(_EXTRACTORS)}")


def has_times(config: Mapping[str, Any]) -> bool:
    """Whether its partitioner goes by time, and so rotate.interval.ms has effect."""
    return _PARTITIONERS[config["partitioner.class"]] not in ("Default", "Field")


def format_of(config: Mapping[str, Any], setting: str = "format.class") -> tuple[str, str]:
    """Our format and compression."""
    found = _FORMATS[config[setting]]
    if found == "avro":
        return found, _AVRO[config["avro.codec"]]
    if found == "parquet":
        codec = config["parquet.codec"]
        return found, "NONE" if codec == "none" else codec  # as pyarrow takes it
    return found, config["s3.compression.type"]


def encoder_of(config: Mapping[str, Any]) -> Encoder:
    """What makes objects of values, and of keys and headers where these are stored, too."""
    decimals = config["json.decimal.format"].upper()
    values = Encoder(*format_of(config), decimal_format=decimals)
    key = enveloped_key_of if format_of(config, "keys.format.class")[0] == "parquet" else key_of
    parts = [
        Part(infix, _extension(config, setting), Encoder(*format_of(config, setting), decimal_format=decimals), view)
        for wanted, infix, setting, view in (
            ("store.kafka.keys", KEYS, "keys.format.class", key),
            ("store.kafka.headers", HEADERS, "headers.format.class", headers_of),
        )
        if config[wanted]
    ]
    return EncoderWithParts(values, parts) if parts else values


def _extension(config: Mapping[str, Any], setting: str = "format.class") -> str:
    found = _FORMATS[config[setting]]
    if found == "parquet":
        return f"{_PARQUET[config['parquet.codec']]}.parquet"
    if found == "avro":
        return ".avro"
    plain = ".json" if found == "jsonl" else str(config["format.bytearray.extension"])
    return plain + (".gz" if config["s3.compression.type"] == "gzip" else "")


def store_of(config: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The store's URL, and its options as those of ObjectSink."""
    options: dict[str, str] = {}
    if config["store.url"]:
        options["endpoint_url"] = config["store.url"]
        if not config["s3.path.style.access.enabled"]:
            options["config_kwargs"] = json.dumps({"s3": {"addressing_style": "virtual"}})
    for name, setting in (("key", "aws.access.key.id"), ("secret", "aws.secret.access.key")):
        if config[setting] is not None and config[setting].value:
            options[name] = config[setting].value
    options["client_kwargs"] = json.dumps({"region_name": config["s3.region"]})
    more = {"ServerSideEncryption": config["s3.ssea.name"], "SSEKMSKeyId": config["s3.sse.kms.key.id"]}
    more["ACL"] = config["s3.acl.canned"]
    if given := {name: text for name, text in more.items() if text}:
        options["s3_additional_kwargs"] = json.dumps(given)
    return f"s3://{config['s3.bucket.name']}", {OPTIONS_PREFIX + name: text for name, text in options.items()}


class S3SinkConnector(UniformSinkConnector):
    """ObjectSink under the name of io.confluent.connect.s3.S3SinkConnector.

    Offsets are those of the consumer group alone, as Java's: it goes on where the other stopped.
    """

    table = S3_CONFIG

    def task_class(self) -> type[SinkTask]:
        return S3SinkTask

    def problems(self, props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """What is not there, and combinations that cannot work; the store is opened, which needs no network."""
        config = S3_CONFIG.parse(props)
        yield from refusals(config)
        for look in (lambda: _checked(config), lambda: object_store(*store_of(config))):
            yield from raised_by(look, S3_CONFIG, "s3.bucket.name")


def _checked(config: Mapping[str, Any]) -> ConfluentNames:
    """Errors: ConfigError."""
    extractor_of(config)
    if _writes_tombstones(config) and not config["store.kafka.keys"]:
        reported = "behavior.on.null.values=write needs it: a tombstone has a key alone"
        raise ConfigError.invalid("store.kafka.keys", False, reported)
    if config["store.kafka.headers"] and format_of(config, "headers.format.class")[0] == "lines":
        reported = "Headers are no bytes: AvroFormat, ParquetFormat and JsonFormat write them"
        raise ConfigError.invalid("headers.format.class", config["headers.format.class"], reported)
    if config["rotate.schedule.interval.ms"] > 0 and not config["timezone"].strip():
        raise ConfigError.invalid("timezone", "", "rotate.schedule.interval.ms needs it")
    return names_of(config)


def _writes_tombstones(config: Mapping[str, Any]) -> bool:
    return str(config["behavior.on.null.values"]).lower() == "write"


class S3SinkTask(ObjectSinkTask):
    """Objects end where Java's do: at flush.size rows of a partition, and by times and schemas of the records.

    What a kill left half-way is written again into objects of the same names, since a unit begins at the committed
    offset and ends by what is in the records; not so by rotate.schedule.interval.ms, and by Wallclock: then an object
    that was written and not committed may be there beside another one with some of its rows, as with Java's.
    Source: io.confluent.connect.s3.TopicPartitionWriter (10.5).
    """

    def __init__(self) -> None:
        super().__init__()
        self.wall_s = time.time

    def set_up(self, props: Mapping[str, str]) -> FlushLimits:
        config = self._config = S3_CONFIG.parse(props)
        for name, reported in refusals(config):
            raise ConfigError.invalid(name, config[name], reported)
        self._layout = self._names = _checked(config)
        self._store = object_store(*store_of(config))
        self._encoder = encoder_of(config)
        self._gone = tombstone_names_of(config) if _writes_tombstones(config) else None
        self._extension = _extension(config)
        self._by_wall_clock = has_times(config) and extractor_of(config) == "Wallclock"
        self._rotates_ms = config["rotate.interval.ms"] if has_times(config) else -1
        self._schedule_ms = config["rotate.schedule.interval.ms"]
        self._zone = zone_of(config)
        self._next_s = self._scheduled_s()
        return FlushLimits(config["flush.size"], sys.maxsize, math.inf)

    def put(self, records: list[SinkRecord]) -> None:
        if self._config["behavior.on.null.values"].lower() == "ignore":
            records = [record for record in records if record.value is not None]
        super().put(records)

    def put_batch(self, batch: RecordBatch) -> None:
        if batch.value is None or batch.value.null_count:
            self.put(batch.to_records())  # type: ignore[arg-type]  # a sink's batch gives sink records
        else:
            super().put_batch(batch)

    # --- rotations ---

    def _keep(
        self,
        place: TopicPartition,
        topic: str,
        schema: Schema | None,
        marks: list[Mark],
        times: Sequence[int | None],
        piece: Any,
        values: Any,
        names: ObjectNames | ConfluentNames | None = None,
    ) -> None:
        if self._by_wall_clock:
            times = [round(self.wall_s() * 1000)] * len(marks)
        super()._keep(place, topic, schema, marks, times, piece, values, names)

    def _put_some(self, place: TopicPartition, records: list[SinkRecord], marks: list[Mark]) -> None:
        """Records with a value and those without are in folders of their own."""
        at = 0
        for _, run in groupby(records, lambda record: record.value is None):
            some = list(run)
            super()._put_some(place, some, marks[at : at + len(some)])
            at += len(some)

    def _keep_records(
        self,
        place: TopicPartition,
        records: Sequence[SinkRecord],
        marks: list[Mark],
        names: ObjectNames | ConfluentNames | None = None,
    ) -> None:
        if records[0].value is None:
            if self._gone is None:
                raise DataError("It has no value", hint="behavior.on.null.values=ignore leaves such records out.")
            names = self._gone
        super()._keep_records(place, records, marks, names)

    def _room(
        self,
        unit: Unit,
        topic: str,
        offsets: Sequence[int],
        times: Sequence[int | None],
        held: Sequence[tuple[Any, ...]],
        names: ObjectNames | ConfluentNames,
    ) -> int:
        """Up to the first row whose time begins another unit: it is too far from the first, or in another folder."""
        room = super()._room(unit, topic, offsets, times, held, names)
        if self._rotates_ms <= 0 or unit.token is not None:
            return room
        layout = names if isinstance(names, ConfluentNames) else self._layout
        for row in range(room):
            values = held[row] if held else ()
            at = layout.time_ms(times[row], values)
            folder = layout.folder(topic, 0, times[row], values)
            first, last, _ = unit.mark or (at, folder, at)
            late = self._config["append.late.data"]
            if (unit.rows or row) and (at - first >= self._rotates_ms or (folder != last and not late)):
                unit.is_due = not row
                return row
            unit.mark = first, last if late and at < first else folder, at
        return room

    def _objects(self, name: str, content: Content) -> Iterable[tuple[str, Content]]:
        if isinstance(content, ContentWithParts):
            return content.objects(name, self._extension)
        return super()._objects(name, content)

    def _fits(self, unit: Unit, folder: str, piece: Any, schema: Schema | None) -> bool:
        is_other = folder in unit.schemas and unit.schemas[folder] != schema
        if is_other and self._config["schema.compatibility"].upper() == "NONE":
            return False
        return super()._fits(unit, folder, piece, schema)

    def _write_due(self) -> None:
        now_s = self.wall_s()
        is_scheduled = now_s >= self._next_s
        if is_scheduled:
            self._next_s = self._scheduled_s()
        for unit in self._units.values():
            first, _, last = unit.mark or (0, "", 0)
            at = round(now_s * 1000) if self._by_wall_clock else last
            unit.is_due |= bool(unit.rows) and (is_scheduled or 0 < self._rotates_ms <= at - first)
        super()._write_due()

    def _scheduled_s(self) -> float:
        return next_schedule_s(self.wall_s(), self._schedule_ms, self._zone) if self._schedule_ms > 0 else math.inf

"""Confluent's S3 sink: names of objects and settings, without a store."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from kconnect.api import ConfigError, DataError, RecordBatch
from kconnect.builtin.connectors.objects.confluent_layout import next_schedule_s
from kconnect.builtin.connectors.objects.joda import joda_format
from kconnect.builtin.connectors.objects.object_config import object_store
from kconnect.builtin.connectors.objects.object_names import batch_field_values, field_values
from kconnect.builtin.connectors.objects.s3_sink import S3_CONFIG, S3SinkConnector, names_of, store_of
from kconnect.builtin.stores.file_store import FsspecStore

PARTITIONER = "io.confluent.connect.storage.partitioner."
BASE = {
    "s3.bucket.name": "b",
    "flush.size": "3",
    "format.class": "io.confluent.connect.s3.format.json.JsonFormat",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
}
AT_MS = 1_767_310_199_999  # 2026-01-01T23:29:59.999Z


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("'year'=YYYY/'month'=MM/'day'=dd/'hour'=HH", "year=2026/month=01/day=02/hour=03"),
        ("YYYY-MM-dd", "2026-01-02"),
        ("yy/M/d/H/m/s", "26/1/2/3/4/5"),
        ("'dt'=yyyyMMdd'T'HHmmssSSS", "dt=20260102T030405678"),
        ("EEE EEEE MMM MMMM a h K k", "Fri Friday Jan January AM 3 3 3"),
        ("xxxx-'W'ww-e D DDD C", "2026-W01-5 2 002 20"),
        ("Z ZZ ZZZ z", "+0100 +01:00 Europe/Berlin CET"),
        ("'it''s' ''", "it's '"),
    ],
)
def test_a_pattern_of_joda_gives_what_joda_gives(pattern: str, wanted: str) -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=ZoneInfo("Europe/Berlin"))
    assert joda_format(pattern, "en", "path.format")(when) == wanted


@pytest.mark.parametrize(("pattern", "reported"), [("QQ", "Illegal pattern component: Q"), ("'x", "is not closed")])
def test_a_pattern_that_joda_refuses_is_refused(pattern: str, reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        joda_format(pattern, "en", "path.format")
    with pytest.raises(ConfigError, match="MMM is text, which is there for locale=en alone"):
        joda_format("MMM", "de", "path.format")


def path_of(settings: dict[str, str], value: Any = None, time_ms: int | None = AT_MS) -> str:
    names = names_of(S3_CONFIG.parse({**BASE, **settings}))
    values = [value.get(field) for field in names.fields] if isinstance(value, dict) else []
    return names.path(names.folder("orders", 3, time_ms, values), names.name("orders", 3, 40, 99))


TIME = {"locale": "en-US", "timezone": "Europe/Berlin", "timestamp.extractor": "Record"}


@pytest.mark.parametrize(
    ("settings", "value", "wanted"),
    [
        ({}, None, "topics/orders/partition=3/orders+3+0000000040.json"),
        ({"topics.dir": "a/b", "file.delim": "_"}, None, "a/b/orders/partition=3/orders_3_0000000040.json"),
        ({"topics.dir": "", "directory.delim": "_"}, None, "orders_partition=3_orders+3+0000000040.json"),
        ({"s3.compression.type": "gzip"}, None, "topics/orders/partition=3/orders+3+0000000040.json.gz"),
        ({"filename.offset.zero.pad.width": "3"}, None, "topics/orders/partition=3/orders+3+040.json"),
        (
            {"format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat"},
            None,
            "topics/orders/partition=3/orders+3+0000000040.snappy.parquet",
        ),
        (
            {"format.class": "io.confluent.connect.s3.format.avro.AvroFormat"},
            None,
            "topics/orders/partition=3/orders+3+0000000040.avro",
        ),
        (
            {"format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat"},
            None,
            "topics/orders/partition=3/orders+3+0000000040.bin",
        ),
        (
            {"partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "country,vip"},
            {"country": "DE", "vip": True},
            "topics/orders/country=DE/vip=true/orders+3+0000000040.json",
        ),
        (
            {"partitioner.class": f"{PARTITIONER}DailyPartitioner", **TIME},
            None,
            "topics/orders/year=2026/month=01/day=02/orders+3+0000000040.json",
        ),
        (
            {"partitioner.class": f"{PARTITIONER}HourlyPartitioner", **TIME, "timezone": "UTC"},
            None,
            "topics/orders/year=2026/month=01/day=01/hour=23/orders+3+0000000040.json",
        ),
        (
            {
                "partitioner.class": f"{PARTITIONER}TimeBasedPartitioner",
                **TIME,
                "path.format": "'dt'=YYYY-MM-dd/HHmm/",
                "partition.duration.ms": "600000",
                "timestamp.extractor": "RecordField",
                "timestamp.field": "ts",
            },
            {"ts": "2026-01-01T22:59:59Z"},
            "topics/orders/dt=2026-01-01/2350/orders+3+0000000040.json",
        ),
        (
            {
                "partitioner.class": f"{PARTITIONER}HourlyPartitioner",
                **TIME,
                "timezone": "-03:30",
                "timestamp.extractor": "RecordField",
                "timestamp.field": "ts",
            },
            {"ts": 1767310199999.0},  # as JSON has a time that was counted with a fraction
            "topics/orders/year=2026/month=01/day=01/hour=19/orders+3+0000000040.json",
        ),
    ],
)
def test_names_are_javas(settings: dict[str, str], value: Any, wanted: str) -> None:
    assert path_of(settings, value) == wanted


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("meta.at", {"meta": {"at": 5}}),
        ('"meta.at"', {"meta.at": 5}),
        ("meta.at", {"meta.at": 5}),
        ('"a.b".at', {"a.b": {"at": 5}}),
        ('a."b.c".at', {"a": {"b.c": {"at": 5}}}),
        ('"at"', {"at": 5}),
        ('"a.b"', {"a": {"b": 5}}),  # of structs, whose names have no dots, Java leaves out the quotes
    ],
)
def test_a_field_may_be_in_others_and_have_dots_in_quotes(field: str, value: Any) -> None:
    columns = pa.StructArray.from_arrays([pa.array([each]) for each in value.values()], names=list(value))
    batch = RecordBatch("t", kafka_partition=0, value=columns)
    assert field_values(value, [field]) == (5,)
    assert batch_field_values(batch, [field]) == [(5,)]


def test_a_record_without_time_or_with_a_field_that_names_nothing_is_reported() -> None:
    daily = {"partitioner.class": f"{PARTITIONER}DailyPartitioner", **TIME}
    for far_ms in (AT_MS * 1000, 253_402_300_799_999):  # of microseconds; already the next year in Berlin
        with pytest.raises(DataError, match="is not in the years 1 to 9999"):
            path_of(daily, time_ms=far_ms)
    with pytest.raises(DataError, match="It has no timestamp"):
        path_of(daily, None, None)
    with pytest.raises(DataError, match=r"its field timestamp \(timestamp.field\) is null"):
        path_of({**daily, "timestamp.extractor": "RecordField"}, {})
    field = {"partitioner.class": f"{PARTITIONER}FieldPartitioner", "partition.field.name": "f"}
    assert "/f=null/" in path_of(field, {})
    assert path_of(field, {"f": "x" * 900})
    with pytest.raises(DataError, match="Its object's name would have 1041 bytes, where S3 takes 1024"):
        path_of(field, {"f": "ä" * 500})
    for value in (1.5, [1], date(2026, 1, 1)):
        with pytest.raises(DataError, match="Field f is"):
            path_of(field, {"f": value})
    with pytest.raises(DataError, match="Field timestamp is '1767310199999', which is neither milliseconds nor"):
        path_of({**daily, "timestamp.extractor": "RecordField"}, {"timestamp": "1767310199999"})


@pytest.mark.parametrize(
    ("now", "interval_ms", "wanted"),
    [
        ("2026-01-01T10:10:00+00:00", 3_600_000, "2026-01-01T11:00:00+00:00"),
        ("2026-01-01T10:00:00+00:00", 600_000, "2026-01-01T10:10:00+00:00"),
        ("2026-01-01T23:30:00+00:00", 7_200_000 * 5, "2026-01-02T00:00:00+00:00"),
    ],
)
def test_schedules_are_counted_from_midnight(now: str, interval_ms: int, wanted: str) -> None:
    found = next_schedule_s(datetime.fromisoformat(now).timestamp(), interval_ms, UTC)
    assert datetime.fromtimestamp(found, UTC).isoformat() == wanted


@pytest.mark.parametrize(
    ("settings", "key", "reported"),
    [
        ({"format.class": "x.Y"}, "format.class", "String must be one of"),
        ({"s3.object.tagging": "true"}, "s3.object.tagging", "is not supported"),
        ({"behavior.on.null.values": "write"}, "store.kafka.keys", "a tombstone has a key alone"),
        (
            {
                "store.kafka.headers": "true",
                "headers.format.class": "io.confluent.connect.s3.format.bytearray.ByteArrayFormat",
            },
            "headers.format.class",
            "Headers are no bytes",
        ),
        ({"s3.proxy.url": "http://p"}, "s3.proxy.url", "is not supported"),
        ({"s3.sse.key": "k"}, "s3.sse.key", "is not supported"),
        ({"s3.credentials.provider.class": "x.Y"}, "s3.credentials.provider.class", "aws.access.key.id"),
        ({"s3.proxy.user": "u"}, "s3.proxy.user", "is not supported"),
        ({"timestamp.extractor": "x.Y"}, "timestamp.extractor", "There are Wallclock, Record, RecordField"),
        ({"partitioner.class": f"{PARTITIONER}FieldPartitioner"}, "partition.field.name", "needs it"),
        ({"partitioner.class": f"{PARTITIONER}DailyPartitioner"}, "locale", "Locale cannot be empty"),
        ({"partitioner.class": f"{PARTITIONER}TimeBasedPartitioner", **TIME}, "path.format", "cannot be empty"),
        (
            {"partitioner.class": f"{PARTITIONER}TimeBasedPartitioner", **TIME, "path.format": "YYYY"},
            "partition.duration.ms",
            "needs to be a positive",
        ),
        (
            {"partitioner.class": f"{PARTITIONER}DailyPartitioner", **TIME, "timezone": "CTE"},
            "timezone",
            "Unknown time zone: ",
        ),
        ({"rotate.schedule.interval.ms": "1000"}, "timezone", "needs it"),
    ],
)
def test_what_is_not_there_is_refused_by_name(settings: dict[str, str], key: str, reported: str) -> None:
    found = S3SinkConnector().validate({**BASE, "topics": "t", "name": "s", **settings})
    errors = {value.name: value.error_messages for value in found.config_values if value.error_messages}
    assert list(errors) == [key]
    assert reported in errors[key][0]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("s3.credentials.provider.class", "com.amazonaws.auth.InstanceProfileCredentialsProvider"),
        ("s3.credentials.provider.class", "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"),
        ("send.digest", "true"),
        ("s3.object.behavior.on.tagging.error", "fail"),
        ("behavior.on.null.values", "IGNORE"),
        ("json.decimal.format", "numeric"),
    ],
)
def test_what_javas_takes_and_changes_no_row_is_taken(setting: str, value: str) -> None:
    found = S3SinkConnector().validate({**BASE, "topics": "t", "name": "s", setting: value})
    assert [(each.name, each.error_messages) for each in found.config_values if each.error_messages] == []
    assert setting in S3_CONFIG.config_keys


def test_a_bucket_is_in_the_name_of_the_host_where_it_shall_not_be_in_the_path() -> None:
    settings = {"store.url": "http://x", "s3.path.style.access.enabled": "false"}
    store = object_store(*store_of(S3_CONFIG.parse({**BASE, **settings})))
    assert isinstance(store, FsspecStore)
    config = store._files.config_kwargs
    assert config.pop("s3") == {"addressing_style": "virtual"}
    assert set(config) == {"connect_timeout", "read_timeout", "retries"}  # those of each store of S3


def test_the_store_gets_javas_settings() -> None:
    settings = {"aws.access.key.id": "k", "aws.secret.access.key": "s", "store.url": "http://x", "s3.region": "eu-1"}
    settings |= {"s3.ssea.name": "aws:kms", "s3.sse.kms.key.id": "id", "s3.acl.canned": "private"}
    url, options = store_of(S3_CONFIG.parse({**BASE, **settings}))
    assert url == "s3://b"
    assert options == {
        "object.options.endpoint_url": "http://x",
        "object.options.key": "k",
        "object.options.secret": "s",
        "object.options.client_kwargs": '{"region_name": "eu-1"}',
        "object.options.s3_additional_kwargs": (
            '{"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "id", "ACL": "private"}'
        ),
    }

"""DropHeaders and InsertHeader: headers away, or one more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kconnect.api import ConfigDef, ConnectRecord, Header, Headers, RecordBatch, SchemaAndValue, Transformation, values
from kconnect.builtin.version import KAFKA_VERSION

R = TypeVar("R", bound=ConnectRecord)

HEADERS_CONFIG = "headers"
HEADER_CONFIG, LITERAL_CONFIG = "header", "value.literal"

DROP_CONFIG = ConfigDef().define(
    HEADERS_CONFIG,
    ConfigDef.Type.LIST,
    ConfigDef.NO_DEFAULT,
    ConfigDef.ValidList.any_non_duplicate_values(False, False),
    ConfigDef.Importance.HIGH,
    "Names of the headers to leave out; upper and lower case count.",
)

INSERT_CONFIG = (
    ConfigDef()
    .define(
        HEADER_CONFIG,
        ConfigDef.Type.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonNull(),
        ConfigDef.Importance.HIGH,
        "Name of the header.",
    )
    .define(
        LITERAL_CONFIG,
        ConfigDef.Type.STRING,
        ConfigDef.NO_DEFAULT,
        ConfigDef.NonNull(),
        ConfigDef.Importance.HIGH,
        "The header's value in each record: a number, boolean, date, list or map where it reads as one, else text.",
    )
)


class DropHeaders(Transformation):
    """Source: o.a.k.connect.transforms.DropHeaders (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._names = frozenset(DROP_CONFIG.parse(configs)[HEADERS_CONFIG])

    def apply(self, record: R) -> R:
        return record.new_record(headers=self._kept(record.headers) if record.has_headers else None)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch:
        """Key and value are not looked at. Without any header left the batch has none, and goes the faster way."""
        if batch.headers is None:
            return batch
        kept = [self._kept(headers) for headers in batch.headers]
        return batch.with_(headers=kept if any(kept) else None)

    def config(self) -> ConfigDef:
        return DROP_CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _kept(self, headers: Headers | None) -> Headers:
        names = self._names
        return Headers([header for header in headers or () if header.key not in names])


class InsertHeader(Transformation):
    """Source: o.a.k.connect.transforms.InsertHeader (Kafka 4.3)."""

    supports_batches = True

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = INSERT_CONFIG.parse(configs)
        literal = values.parse_string(config[LITERAL_CONFIG]) or SchemaAndValue.NULL
        self._header = Header(config[HEADER_CONFIG], literal.value, literal.schema)

    def apply(self, record: R) -> R:
        headers = record.headers.duplicate() if record.has_headers else Headers()
        return record.new_record(headers=headers.add(self._header))

    def apply_batch(self, batch: RecordBatch) -> RecordBatch:
        """Key and value are not looked at. Each row has headers of its own, as they may be changed later."""
        header = self._header
        if batch.headers is None:
            return batch.with_(headers=[Headers((header,)) for _ in range(len(batch))])
        return batch.with_(headers=[Headers(given).add(header) for given in batch.headers])

    def config(self) -> ConfigDef:
        return INSERT_CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

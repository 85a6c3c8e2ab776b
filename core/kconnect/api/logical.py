"""Logical types: Decimal, Date, Time, Timestamp - named schemas over plain types.

They convert between the plain value in the wire format (bytes, int) and the Python value that connectors see. Each
class is only a namespace, never instantiated.
"""

from __future__ import annotations

import datetime
import decimal
import re
from typing import Final

from kconnect.api.schema import Schema
from kconnect.api.schema_builder import SchemaBuilder
from kconnect.api.schema_types import Type
from kconnect.errors import DataError

_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLIS_PER_DAY = 24 * 60 * 60 * 1000
_MILLISECOND = datetime.timedelta(milliseconds=1)
# Wide enough for any scale that fits Java's int, so that shifting the point never rounds.
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)

# What Java's Integer.parseInt takes
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")


class Decimal:
    """Exact decimal numbers of a fixed scale: decimal.Decimal, as bytes of the unscaled integer.

    Source: o.a.k.connect.data.Decimal.
    """

    LOGICAL_NAME: Final = "org.apache.kafka.connect.data.Decimal"
    SCALE_FIELD: Final = "scale"
    PRECISION_FIELD: Final = "connect.decimal.precision"
    """The parameter with the digits of a schema that says them. Source: io.confluent.connect.avro.AvroData."""

    @staticmethod
    def builder(scale: int) -> SchemaBuilder:
        """A builder for decimals with that many digits behind the point (may be negative)."""
        named = SchemaBuilder.bytes().name(Decimal.LOGICAL_NAME)
        return named.parameter(Decimal.SCALE_FIELD, str(scale)).version(1)

    @staticmethod
    def schema(scale: int) -> Schema:
        """The required schema of that scale."""
        return Decimal.builder(scale).build()

    @staticmethod
    def scale(schema: Schema) -> int:
        """The scale of a Decimal schema. Errors: DataError if it has none."""
        text = (schema.parameters or {}).get(Decimal.SCALE_FIELD)
        if text is None:
            raise DataError("Invalid Decimal schema: scale parameter not found.")
        scale = int(text) if _WHOLE_NUMBER.fullmatch(text) else None
        if scale is None or not -(1 << 31) <= scale < 1 << 31:
            raise DataError(f"Invalid scale parameter found in Decimal schema: {text}")
        return scale

    @staticmethod
    def precision(schema: Schema) -> int | None:
        """The digits of a Decimal schema; None if it does not say them, or nothing useful."""
        text = (schema.parameters or {}).get(Decimal.PRECISION_FIELD, "")
        return int(text) if text.isascii() and text.isdecimal() and int(text) > 0 else None

    @staticmethod
    def scale_of(value: decimal.Decimal) -> int:
        """Digits behind the point of a value. Errors: DataError for NaN and infinities."""
        exponent = value.as_tuple().exponent
        if not isinstance(exponent, int):
            raise DataError(f"{value} is not a decimal number: NaN and infinities have no Decimal schema")
        return -exponent

    @staticmethod
    def to_logical(schema: Schema, raw: bytes) -> decimal.Decimal:
        """The decimal of these bytes: big-endian two's complement, as Java's BigInteger. Errors: DataError."""
        if not raw:
            raise DataError("Invalid value for a Decimal schema: no bytes (zero is one zero byte)")
        unscaled = decimal.Decimal(int.from_bytes(raw, "big", signed=True))
        return unscaled.scaleb(-Decimal.scale(schema), _EXACT)

    @staticmethod
    def from_logical(schema: Schema, value: decimal.Decimal) -> bytes:
        """The bytes of a decimal, as few as possible. Errors: DataError if its scale is not the schema's."""
        wanted, found = Decimal.scale(schema), Decimal.scale_of(value)
        if wanted != found:
            raise DataError(
                "Decimal value has mismatching scale for given Decimal schema. "
                f"Schema has scale {wanted}, value has scale {found}.",
                hint="Bring the value to the schema's scale first: value.quantize(Decimal(1).scaleb(-scale)).",
            )
        unscaled = int(value.scaleb(wanted, _EXACT))
        # As BigInteger's length: including the sign bit, so 128 takes two bytes and -128 one.
        magnitude = unscaled if unscaled >= 0 else ~unscaled
        return unscaled.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)


class Date:
    """Days without time or zone: datetime.date, as int32 days since 1970-01-01. Source: o.a.k.connect.data.Date.

    Differs: Python's years are 1 to 9999; a day outside is a DataError.
    """

    LOGICAL_NAME: Final = "org.apache.kafka.connect.data.Date"

    @staticmethod
    def builder() -> SchemaBuilder:
        """A builder for dates."""
        return SchemaBuilder.int32().name(Date.LOGICAL_NAME).version(1)

    SCHEMA: Final = Schema(Type.INT32, name=LOGICAL_NAME, version=1)

    @staticmethod
    def to_logical(schema: Schema, raw: int) -> datetime.date:
        """The date that many days after 1970-01-01. Errors: DataError."""
        _require(schema, Date.LOGICAL_NAME, "Date")
        try:
            return datetime.date.fromordinal(_EPOCH_DAY + raw)
        except (ValueError, OverflowError) as err:
            raise DataError(f"{raw} days since 1970-01-01 is outside the years 1 to 9999") from err

    @staticmethod
    def from_logical(schema: Schema, value: datetime.date) -> int:
        """Days since 1970-01-01. Errors: DataError for a datetime: it has a time of day."""
        _require(schema, Date.LOGICAL_NAME, "Date")
        if isinstance(value, datetime.datetime):
            raise DataError(
                "Kafka Connect Date type should not have any time fields set to non-zero values.",
                hint="Pass a datetime.date: value.date().",
            )
        return value.toordinal() - _EPOCH_DAY


class Time:
    """Time of day: datetime.time, as int32 ms since midnight. Source: o.a.k.connect.data.Time.

    Differs: 86400000 (24:00), which Java accepts, has no datetime.time and is a DataError. Microseconds are cut off.
    """

    LOGICAL_NAME: Final = "org.apache.kafka.connect.data.Time"

    @staticmethod
    def builder() -> SchemaBuilder:
        """A builder for times of day."""
        return SchemaBuilder.int32().name(Time.LOGICAL_NAME).version(1)

    SCHEMA: Final = Schema(Type.INT32, name=LOGICAL_NAME, version=1)

    @staticmethod
    def to_logical(schema: Schema, raw: int) -> datetime.time:
        """The time that many ms after midnight. Errors: DataError."""
        # Java's own message says Date here; users search for it.
        _require(schema, Time.LOGICAL_NAME, "Date")
        if not 0 <= raw < _MILLIS_PER_DAY:
            raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
        return (_EPOCH + raw * _MILLISECOND).time()

    @staticmethod
    def from_logical(schema: Schema, value: datetime.time) -> int:
        """Ms since midnight; a time zone is ignored. Errors: DataError."""
        _require(schema, Time.LOGICAL_NAME, "Time")
        seconds = (value.hour * 60 + value.minute) * 60 + value.second
        return seconds * 1000 + value.microsecond // 1000


class Timestamp:
    """Instants: aware datetime in UTC, as int64 ms since the epoch. Source: o.a.k.connect.data.Timestamp.

    Differs: Python's years are 1 to 9999; an instant outside is a DataError. Microseconds are cut off, save in a column
    of a schema with the parameter UNIT_FIELD "us": that one has them, as a Time's of the same parameter has.
    """

    LOGICAL_NAME: Final = "org.apache.kafka.connect.data.Timestamp"
    UNIT_FIELD: Final = "kconnect.unit"
    ZONE_FIELD: Final = "kconnect.zone"
    """With the value NO_ZONE: a time of a clock on the wall, written as if it were one of UTC."""
    NO_ZONE: Final = "none"

    @staticmethod
    def builder() -> SchemaBuilder:
        """A builder for instants."""
        return SchemaBuilder.int64().name(Timestamp.LOGICAL_NAME).version(1)

    SCHEMA: Final = Schema(Type.INT64, name=LOGICAL_NAME, version=1)

    @staticmethod
    def to_logical(schema: Schema, raw: int) -> datetime.datetime:
        """The instant that many ms after the epoch, in UTC. Errors: DataError."""
        _require(schema, Timestamp.LOGICAL_NAME, "Timestamp")
        try:
            return _EPOCH + raw * _MILLISECOND
        except OverflowError as err:
            raise DataError(f"{raw} ms since the epoch is outside the years 1 to 9999") from err

    @staticmethod
    def from_logical(schema: Schema, value: datetime.datetime) -> int:
        """Ms since the epoch. Errors: DataError for a datetime without time zone."""
        _require(schema, Timestamp.LOGICAL_NAME, "Timestamp")
        if value.tzinfo is None:
            raise DataError(
                f"The timestamp {value} has no time zone",
                hint="Use an aware datetime, such as datetime.now(timezone.utc).",
            )
        return (value - _EPOCH) // _MILLISECOND


def _require(schema: Schema, name: str, spoken: str) -> None:
    if schema.name != name:
        raise DataError(f"Requested conversion of {spoken} object but the schema does not match.")

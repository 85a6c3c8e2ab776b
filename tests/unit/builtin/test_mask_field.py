"""MaskField: the words for a replacement that does not fit are Java's."""

from __future__ import annotations

from decimal import Decimal as PyDecimal
from typing import Any

import pytest

from kconnect.api import DataError, Decimal, Schema, SchemaBuilder, SourceRecord, Struct
from kconnect.builtin.transforms.mask_field import MaskFieldValue


def masked(schema: Schema, value: Any, replacement: str) -> Any:
    row = SchemaBuilder.struct().field("f", schema).build()
    transform = MaskFieldValue()
    transform.configure({"fields": "f", "replacement": replacement})
    record = SourceRecord({}, {}, "t", Struct(row, {"f": value}), value_schema=row)
    return transform.apply(record).value["f"]


@pytest.mark.parametrize("schema", [Schema.INT8_SCHEMA, Schema.INT64_SCHEMA, Schema.FLOAT32_SCHEMA])
@pytest.mark.parametrize("replacement", ["many", "1_0", "NaN", "0x1"])
def test_a_replacement_that_is_no_number_is_reported_in_javas_words(schema: Schema, replacement: str) -> None:
    value = 1.0 if schema is Schema.FLOAT32_SCHEMA else 1
    with pytest.raises(DataError) as caught:
        masked(schema, value, replacement)
    assert str(caught.value) == f"Unable to convert {replacement} (class java.lang.String) to a number"


@pytest.mark.parametrize("replacement", ["many", "NaN", "1_0"])
def test_for_a_decimal_java_has_other_words(replacement: str) -> None:
    with pytest.raises(DataError) as caught:
        masked(Decimal.schema(2), PyDecimal("1.00"), replacement)
    assert str(caught.value) == f"Unable to convert {replacement} (class java.lang.String) to number"


def test_numbers_are_cut_as_java_casts_them() -> None:
    assert masked(Schema.INT8_SCHEMA, 1, "300") == 44
    assert masked(Schema.INT32_SCHEMA, 1, "1.9") == 1
    assert masked(Decimal.schema(2), PyDecimal("1.00"), "1e3") == PyDecimal("1E+3")

"""Columns made decimals: each value as it was, or none; Arrow gives other numbers beyond what 128 bits hold."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from kconnect.builtin.types.leaf_columns import leaf

KINDS = [pa.decimal128(38, scale) for scale in (0, 2, 10, 18, 38)] + [pa.decimal128(12, 2), pa.decimal128(5, 0)]
_NUMBERS = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent),
    st.one_of(st.integers(-(10**45), 10**45), st.sampled_from([1, 15, 10**37, 10**38 - 1, -(10**76)])),
    st.integers(-120, 45),
)


@pytest.mark.parametrize(
    ("given_value", "kind"),
    [
        ("1.5E+41", pa.decimal128(38, 0)),
        ("1E-39", pa.decimal128(38, 0)),
        ("2.50796562673875E-98", pa.decimal128(38, 10)),
        ("1234567890123456789012345678", pa.decimal128(38, 18)),
        (Decimal("1234567890123456789012345678.90"), pa.decimal128(38, 20)),
        (3.149911142140506e-24, pa.decimal128(38, 0)),
        (10**18, pa.decimal128(38, 38)),
    ],
)
def test_a_number_that_has_no_place_is_refused(given_value: Any, kind: pa.DataType) -> None:
    column = pa.array([given_value])
    assert leaf(column, kind, reads=not isinstance(given_value, float)) is None


@given(_NUMBERS, st.sampled_from(KINDS), st.sampled_from(["plain", "exponent", "decimal", "float", "integer"]))
@example(Decimal("9.9999999999999999999999999999999999999E+77"), pa.decimal128(38, 0), "plain")
def test_a_number_is_what_it_was_or_refused(number: Decimal, kind: pa.DataType, form: str) -> None:
    column, wanted = _column(number, form)
    made = leaf(column, kind, reads=form not in ("float", "decimal"))
    with localcontext(prec=200):
        has_place = round(wanted, kind.scale) == wanted and abs(wanted) < Decimal(10) ** (kind.precision - kind.scale)
    assert (None if made is None else made[0].as_py()) == (wanted if has_place else None)


def _column(number: Decimal, form: str) -> tuple[pa.Array, Decimal]:
    """A column of one value, and what it is."""
    if form in ("plain", "exponent"):
        return pa.array([format(number, "f") if form == "plain" else str(number)]), number
    if form == "decimal":
        with localcontext(prec=200):
            exponent = number.as_tuple().exponent
            assert isinstance(exponent, int)
            assume(-38 <= exponent <= 0 and abs(number.scaleb(-exponent)) < 10**38)
        return pa.array([number], pa.decimal128(38, -exponent)), number
    if form == "float":
        double = float(number)
        assume(abs(double) < 2**53)
        return pa.array([double]), Decimal(repr(double))
    whole = int(number) if abs(number) < 2**63 else 7
    return pa.array([whole], pa.int64()), Decimal(whole)

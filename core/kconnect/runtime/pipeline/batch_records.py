"""The records of a batch, where one may hold a value that no record can have, such as a time far beyond our years."""

from __future__ import annotations

from kconnect.api import ConnectRecord, RecordBatch, Schema
from kconnect.errors import DataError

# Of columns that do not fit their schema, of texts that are none, and of times
_FAILURES = (DataError, ValueError, OverflowError)


def rows_of(batch: RecordBatch) -> tuple[list[ConnectRecord], dict[int, Exception]]:
    """A record for each row; and why for those that have the text of their value alone, as no record can have that."""
    try:
        return list(batch.to_records()), {}
    except _FAILURES:
        pass
    records: list[ConnectRecord] = []
    misfits: dict[int, Exception] = {}
    for row in range(len(batch)):
        one = batch.slice(row, 1)
        try:
            records += one.to_records()
        except _FAILURES as error:
            misfits[row] = error
            records.append(_bare(one))
    return records, misfits


def _bare(row: RecordBatch) -> ConnectRecord:
    [record] = row.with_(key=None, key_schema=None, value=None, value_schema=None).to_records()
    held = "" if row.value is None else " ".join(str(row.value).split())
    return record.new_record(value_schema=Schema.STRING_SCHEMA, value=held)

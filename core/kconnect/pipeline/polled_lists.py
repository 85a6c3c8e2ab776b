"""Lists of records that a source polled, as columns where that is the faster way."""

from __future__ import annotations

from collections.abc import Sequence

from kconnect.api import ConnectRecord, RecordBatch
from kconnect.pipeline.stages import TransformChain

__all__ = ["PolledLists"]

# Columns cost 130 us to set up, and save 0.8 us a record without transforms, 5 us with three.
_FEWEST = 64
# Lists that are no batch (topics, schemas or offsets of several kinds) cost a look; such a source seldom changes.
_LISTS_BETWEEN_TRIES = 50


class PolledLists:
    """Makes a batch of a list whose records have one topic, one schema and a chain that takes batches.

    Measured, a thousand structs of four fields to JSON with schema: 1.4 us a record as columns, 2.2 us by records;
    with three transforms 1.4 us and 12 us.
    Threads: the task thread only.
    """

    def __init__(self, transforms: TransformChain) -> None:
        self._transforms = transforms
        self._left_out = 0

    def columns_of(self, records: Sequence[ConnectRecord]) -> RecordBatch | Sequence[ConnectRecord]:
        """The batch, or the records as they are: schemaless ones, a few, mixed ones."""
        if len(records) < _FEWEST or records[0].value_schema is None or not self._transforms.is_columnar:
            return records
        if self._left_out:
            self._left_out -= 1
            return records
        batch = RecordBatch.from_records(records)
        if batch is None:
            self._left_out = _LISTS_BETWEEN_TRIES
            return records
        return batch

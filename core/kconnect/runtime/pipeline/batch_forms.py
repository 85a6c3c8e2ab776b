"""How many batches of a task a stage took record by record, although they could have gone in columns, and why."""

from __future__ import annotations

from typing import Final

from kconnect.logs.redaction import redact
from kconnect.runtime.metrics import TaskCounters

# Of fewer records nobody notices what they cost; converters take some hundred of them for columns
FEWEST_COUNTED: Final = 100
_LONGEST_REASON: Final = 200


class BatchForms:
    """Counts the batches of one task. Threads: the task's; `count` from any.

    Lifecycle: `begin` with each batch, then `by_records` from the stage that cannot take its columns.
    """

    def __init__(self) -> None:
        self._batches = self._by_records = 0
        self._because = ""
        self._counts = False
        """Whether the batch is counted, and goes in columns until now."""

    def begin(self, records: int) -> None:
        """Begin with a batch of this many records, for which columns are tried."""
        self._counts = records >= FEWEST_COUNTED
        self._batches += self._counts

    def by_records(self, because: str) -> None:
        """The batch goes by records from here on; of several reasons for one batch the first counts."""
        if self._counts:
            self._counts = False
            self._by_records += 1
            self._because = because

    def count(self, counters: TaskCounters) -> None:
        counters.batches, counters.batches_by_records = self._batches, self._by_records
        if counters.by_records_because != self._because:
            counters.by_records_because = redact(self._because)[:_LONGEST_REASON]

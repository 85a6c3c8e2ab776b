"""The columns that the objects of a topic have, as far as a contract keeps them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kconnect.api import DataError
from kconnect.builtin.connectors.objects.avro_rows import AvroObject
from kconnect.builtin.types.contracts import Contract, Contracts, Discards
from kconnect.builtin.types.seen import joined, joined_schemas, turns_to_text
from kconnect.builtin.types.settling import Settling, kept, settled

if TYPE_CHECKING:
    import pyarrow as pa


def columns_of(format_: str, file: Any) -> pa.Schema:
    """The columns of an object of Parquet or Avro that is read. Errors: DataError."""
    if format_ == "parquet":
        import pyarrow.parquet as pq

        return pq.read_schema(file).remove_metadata()
    return AvroObject(file).fields


class ObjectColumns:
    """Makes rows fit by `schema.contract`. Threads: one.

    `last(topic, partition)` has the columns of the newest object that was written before this task, None if there is
    none, or it says nothing of types. It is asked only where a contract is another than evolve.
    """

    def __init__(
        self,
        contracts: Contracts,
        discards: Discards,
        *,
        infers: bool,
        last: Callable[[str, int | None], pa.Schema | None],
    ) -> None:
        self._contracts, self._discards, self._infers, self._last = contracts, discards, infers, last
        self._is_open = contracts.is_open
        self._known: dict[str, pa.Schema] = {}

    def fitted(
        self, topic: str, partition: int | None, rows: pa.Table, came: Callable[[], Sequence[Any]] | None
    ) -> pa.Table:
        """The rows as they may be written. `came`: gives the values that they were seen in, if they have no schema.

        Errors: DiscardedRowError, DataError: then ask for each row alone.
        """
        if came is not None and not self._infers:
            raise DataError(
                "Its value has no schema", hint="schema.infer=true takes the types that are seen in values."
            )
        if self._is_open:
            return rows
        known = self._known.get(topic) or self._last(topic, partition)
        if known is not None:
            rows = self._settled(rows, known, came)
            known = joined_schemas([known, rows.schema])
        self._known[topic] = rows.schema if known is None else known
        return rows

    def _settled(self, rows: pa.Table, known: pa.Schema, came: Callable[[], Sequence[Any]] | None) -> pa.Table:
        import pyarrow as pa

        discarded: list[tuple[str, int, DataError]] = []
        mixed: list[str] = []

        def check(old: pa.DataType, column: pa.Array, path: str) -> None:
            try:
                self._check(old, column, path)
            except DataError:
                if turns_to_text(pa.struct([("", old)]), pa.struct([("", column.type)])):
                    mixed.append(path)
                raise

        how = Settling(self._contracts, check, moves=False, discarded=lambda *one: discarded.append(one))
        is_nested = any(field.type.num_fields for field in rows.schema)
        values = came() if came is not None and is_nested else None
        made = pa.Table.from_batches([settled(rows.combine_chunks().to_batches()[0], known, how, values)])
        if mixed and discarded and came is not None and len(rows) > 1:
            # the text of one row has made texts of numbers in the others, which fit
            raise DataError(f"Column {mixed[0]} has texts among other values")
        for one in discarded:
            self._discards.some(*one)
        return made

    def _check(self, old: pa.DataType, column: pa.Array, path: str) -> None:
        """Errors: DataError for what would be another type, unless columns may become wider."""
        import pyarrow as pa

        if self._contracts.of(path) is Contract.EVOLVE:
            both = joined(old, column.type)
            if not any(turns_to_text(pa.struct([("", one)]), pa.struct([("", both)])) for one in (old, column.type)):
                return
        kept(column, old, path)

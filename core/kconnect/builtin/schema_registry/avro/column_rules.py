"""What Avro in columns leaves to records, for writing and reading alike."""

from __future__ import annotations

from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from kconnect.api import Type

Present: TypeAlias = pa.BooleanArray | None
"""The rows that have a value of the part of the schema at hand; None for all."""

KEY_TYPES: Final = frozenset({Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.STRING, Type.BYTES, Type.BOOLEAN})
"""Keys of maps: of these, two are the same in a dict if Arrow says so."""


class NotInColumns(Exception):
    """Raised for a schema, or for values, that must go by records."""


def refuse_repeated_keys(entries: pa.ListArray, keys: pa.Array) -> None:
    """Errors: NotInColumns if a row has one of its keys twice, as of a dict the last one counts, or a null as key."""
    if not len(keys):
        return
    if keys.null_count:
        raise NotInColumns
    places = keys.dictionary_encode()
    code = pc.multiply(pc.list_parent_indices(entries), pa.scalar(len(places.dictionary), pa.int64()))
    if pc.count_distinct(pc.add(code, places.indices.cast(pa.int64()))).as_py() < len(keys):
        raise NotInColumns

"""Arrow columns made to fit a type: fields by name, numbers widened, text read as what it should be. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kconnect.api import Struct

if TYPE_CHECKING:
    import pyarrow as pa


class NotFittingError(ValueError):
    """A value has no place in the column; `row` is its index."""

    def __init__(self, message: str, row: int = 0) -> None:
        super().__init__(message)
        self.row = row


def fit(column: pa.Array, kind: pa.DataType, *, is_strict: bool = False, path: str = "") -> pa.Array:
    """The column with this type: fields are taken by name, missing ones are null.

    `is_strict`: a field that `kind` lacks is an error, else it is left out. Errors: NotFittingError.
    """
    import pyarrow as pa

    if column.type == kind:
        return column
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        return _fit_struct(column, kind, is_strict=is_strict, path=path)
    is_time = pa.types.is_temporal(kind) and pa.types.is_temporal(column.type)
    try:
        return column.cast(kind, safe=not is_time)  # Connect's times are ms, Spark's us
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        if pa.types.is_nested(kind):
            return build(column.to_pylist(), kind, path)
        raise NotFittingError(f"{path or 'it'} is {column.type}, the column {kind}: {error}") from error


def build(values: Sequence[Any], kind: pa.DataType, path: str = "") -> pa.Array:
    """Plain values as a column of this type; texts are read as numbers and times where the type wants them.

    Errors: NotFittingError naming the first value that does not fit.
    """
    import pyarrow as pa

    values = [_mapping(value) for value in values]
    if pa.types.is_struct(kind):
        strange = next((row for row, value in enumerate(values) if not isinstance(value, Mapping | None)), None)
        if strange is not None:
            raise NotFittingError(f"{path or 'it'} is {values[strange]!r} and has no fields", strange)
        children = [
            build(
                [None if value is None else value.get(field.name) for value in values],
                field.type,
                f"{path}.{field.name}" if path else field.name,
            )
            for field in kind
        ]
        mask = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError, TypeError):
        return _read_texts(values, kind, path)


def _fit_struct(column: pa.Array, kind: pa.DataType, *, is_strict: bool, path: str) -> pa.Array:
    import pyarrow as pa

    names = [field.name for field in column.type]
    wanted = [field.name for field in kind]
    if is_strict and (more := [name for name in names if name not in wanted]):
        raise NotFittingError(f"{path + '.' if path else ''}{more[0]} is a field that the first records did not have")
    parts = dict(zip(names, column.flatten(), strict=True))
    children = [
        fit(parts[field.name], field.type, is_strict=is_strict, path=f"{path}.{field.name}" if path else field.name)
        if field.name in parts
        else pa.nulls(len(column), field.type)
        for field in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())


def _read_texts(values: Sequence[Any], kind: pa.DataType, path: str) -> pa.Array:
    """Values that Arrow does not take as they are: by their text, one after the other to find which one is wrong."""
    import pyarrow as pa

    if pa.types.is_nested(kind):
        raise NotFittingError(f"{path or 'it'} does not fit {kind}: {_first_wrong(values, kind)}")
    texts = [None if value is None else _text(value) for value in values]
    try:
        return pa.array(texts, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        for row, text in enumerate(texts):
            try:
                pa.array([text], pa.string()).cast(kind)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                raise NotFittingError(f"{path or 'it'} is {values[row]!r}, the column {kind}", row) from error
        raise NotFittingError(f"{path or 'it'} does not fit the column {kind}: {error}") from error


def _first_wrong(values: Sequence[Any], kind: pa.DataType) -> str:
    import pyarrow as pa

    for value in values:
        try:
            pa.array([value], kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, ValueError, TypeError):
            return repr(value)
    return "one of its values"


def _mapping(value: Any) -> Any:
    """A struct as a mapping; anything else as it is."""
    return (
        {field.name: _mapping(value.get(field)) for field in value.schema.fields}
        if isinstance(value, Struct)
        else value
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)

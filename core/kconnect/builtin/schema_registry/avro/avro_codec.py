"""Bytes of one Avro schema, by fastavro.

A record with one field has the very bytes of that field. So each branch of a union that is not null is given to
fastavro as a record of its own, whose one field tells the branch: `{"3": value}`. Reading then says which branch it
was, also of int and long, and writing needs no search for the branch that fits. Logical types are left to Connect's.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import SchemaParseException

from kconnect.builtin.schema_registry.avro.avro_schema import NAMED, AvroType
from kconnect.errors import DataError


class AvroCodec:
    """Writes and reads datums: None, bool, int, float, bytes, str, list, dict; of a union None or {branch: datum}.

    Threads: any.
    """

    def __init__(self, avro: AvroType) -> None:
        """Errors: DataError for names that Avro forbids."""
        self._is_raw = avro.kind == "bytes"  # Confluent's form of top-level bytes has no length before them
        try:
            self._schema = parse_schema(_CodecSchema().of(avro))
        except (SchemaParseException, ValueError, TypeError) as error:
            raise DataError(f"{avro.name or avro.kind} is not a valid Avro schema: {error}") from error

    def encode(self, datum: Any, head: bytes = b"") -> bytes:
        """Errors: what fastavro raises for a datum that does not fit: TypeError, ValueError, OverflowError, .."""
        if self._is_raw:
            return head + bytes(datum)
        out = BytesIO()
        out.write(head)
        schemaless_writer(out, self._schema, datum)
        return out.getvalue()

    def decode(self, data: bytes, start: int = 0) -> Any:
        """Errors: DataError for bytes that end too early, or are none of this schema."""
        if self._is_raw:
            return data[start:]
        source = BytesIO(data)
        source.seek(start)
        try:
            datum = schemaless_reader(source, self._schema, None)
        except (EOFError, IndexError, ValueError, OverflowError, MemoryError, RecursionError, TypeError) as error:
            raise DataError(f"The bytes are not of the Avro schema that they name: {_why(error)}") from error
        return datum


def _why(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "they end in the middle of a value"
    return f"{type(error).__name__} {error}".rstrip()


class _CodecSchema:
    """The schema for fastavro: names are flat, as only ours has to know which type one means."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._unions = 0

    def of(self, avro: AvroType) -> Any:
        kind = avro.kind
        if kind == "union":
            return [self._branch(index, branch) for index, branch in enumerate(avro.branches)]
        if kind == "array":
            return {"type": "array", "items": self.of(avro.inner)}
        if kind == "map":
            return {"type": "map", "values": self.of(avro.inner)}
        if kind not in NAMED:
            return kind
        name = avro.name or ""
        if name in self._names:
            return self._names[name]
        for part in name.split("."):
            _check_name(part, name)
        self._names[name] = flat = f"type{len(self._names)}"
        made: dict[str, Any] = {"type": kind, "name": flat}
        if kind == "enum":
            for symbol in avro.symbols:
                _check_name(symbol, name, is_plain=True)  # fastavro takes no others
            made["symbols"] = avro.symbols
        elif kind == "fixed":
            made["size"] = avro.size
        else:
            for field in avro.fields:
                _check_name(field.name, name)
            made["fields"] = [{"name": field.name, "type": self.of(field.type)} for field in avro.fields]
        return made

    def _branch(self, index: int, branch: AvroType) -> Any:
        if branch.kind == "null":
            return "null"
        self._unions += 1
        name = f"branch{self._unions}"
        return {"type": "record", "name": name, "fields": [{"name": branch_key(index), "type": self.of(branch)}]}


def _check_name(part: str, whole: str, *, is_plain: bool = False) -> None:
    """Source: org.apache.avro.NameValidator.UTF_VALIDATOR (1.12): letters of any language, as in Java's records."""
    if (
        not part
        or part[0].isdecimal()
        or not all(_is_of_name(sign) and (sign.isascii() or not is_plain) for sign in part)
    ):
        raise DataError(
            f"{part!r} is not a valid Avro name (in {whole!r}).",
            hint="Names in Avro have letters, digits and _; scrub.invalid.names=true replaces other characters.",
        )


def _is_of_name(sign: str) -> bool:
    return sign == "_" or (sign <= "\uffff" and (sign.isalpha() or sign.isdecimal()))


def branch_key(index: int) -> str:
    """The one key of a union's datum in its branch of that index."""
    return f"b{index}"

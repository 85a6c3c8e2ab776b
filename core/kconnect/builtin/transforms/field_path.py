"""The name of a field, or with `field.syntax.version=V2` the path to a nested one: `a.b`, ``a.`b.c` ``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kconnect.api import ConfigDef, ConfigError, Field, Schema, Struct, Type
from kconnect.builtin.transforms.record_part import default_scalar, require_map, require_struct

if TYPE_CHECKING:
    import pyarrow as pa

SYNTAX_VERSION_CONFIG = "field.syntax.version"
NESTED = "nested field access"


def with_syntax_version(table: ConfigDef) -> ConfigDef:
    """The table with `field.syntax.version` added. Source: FieldSyntaxVersion.appendConfigTo."""
    return table.define(
        SYNTAX_VERSION_CONFIG,
        ConfigDef.Type.STRING,
        "V1",
        ConfigDef.CaseInsensitiveValidString.in_("V1", "V2"),
        ConfigDef.Importance.HIGH,
        "V1 takes a field's name as it is; V2 takes dots as steps into nested fields, backticks round names with dots.",
    )


class FieldPath:
    """Finds a field in schemas, structs, maps and columns.

    Source: o.a.k.connect.transforms.field.SingleFieldPath (Kafka 4.3).
    Differs: an empty path is refused when it is configured; Java fails at the first record, with an index error.
    """

    def __init__(self, text: str, version: str) -> None:
        self.text = text
        self.steps = (text,) if version.upper() == "V1" else _steps(text)
        if not self.steps:
            raise ConfigError.invalid("field", text, "The path to a field must not be empty")

    def field(self, schema: Schema) -> Field | None:
        """The field at the end of the path; None when there is none. Errors: DataError off a struct, as Java's."""
        current = schema
        for step in self.steps[:-1]:
            found = current.field(step)
            if found is None:
                return None
            current = found.schema
        return current.field(self.steps[-1])

    def value_in_struct(self, struct: Struct, *, with_default: bool) -> Any:
        """The value at the end of the path; None when it is not there or a step before it is null."""
        current = struct
        for step in self.steps[:-1]:
            below = None if current.schema.field(step) is None else current.get(step)
            if below is None:
                return None
            current = require_struct(below, NESTED)
        last = current.schema.field(self.steps[-1])
        if last is None:
            return None
        return current.get(last) if with_default else current.get_without_default(last)

    def value_in_map(self, value: dict[Any, Any]) -> Any:
        """The value at the end of the path; None when it is not there."""
        current = value
        for step in self.steps[:-1]:
            below = current.get(step)
            if below is None:
                return None
            current = require_map(below, NESTED)
        return current.get(self.steps[-1])

    def column(self, schema: Schema, column: pa.Array, *, with_default: bool) -> pa.Array | None:
        """The column at the end of the path; None when only records can tell what is right."""
        for index, step in enumerate(self.steps):
            field = schema.field(step) if schema.type is Type.STRUCT else None
            if field is None:
                return None
            outer_nulls, column, schema = column.null_count, column.flatten()[field.index], field.schema
            is_last = index == len(self.steps) - 1
            if column.null_count and schema.default is not None and (with_default or not is_last):
                default = None if outer_nulls or not is_last else default_scalar(schema, column.type)
                if default is None:
                    return None
                column = column.fill_null(default)
        return column


def _steps(path: str) -> tuple[str, ...]:
    """The names between the dots; a backtick opens a name that ends with a backtick before a dot or the end."""
    steps: list[str] = []
    at = 0
    while at < len(path):
        if path[at] == "`":
            name, at = _quoted(path, at)
        else:
            dot = path.find(".", at)
            end = len(path) if dot < 0 else dot
            name, at = path[at:end], end + 1
        steps.append(name)
    if path.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted(path: str, opened_at: int) -> tuple[str, int]:
    """The name within backticks that begins here, and where the next one begins."""
    name, start, at = "", opened_at + 1, opened_at + 1
    while True:
        at = path.find("`", at)
        is_escaped = at > 0 and path[at - 1] == "\\"
        if at < 0 or (at == len(path) - 1 and is_escaped):
            raise ConfigError(
                f"Incomplete backtick pair in path: [{path}], "
                f"consider adding a backslash before backtick at position {opened_at} to escape it"
            )
        if at == len(path) - 1:
            return name + path[start:at], at + 1
        if path[at + 1] == ".":
            if not is_escaped:
                return name + path[start:at], at + 2
            name, start = name + path[start : at - 1] + "`", at + 1
        at += 1

"""Avro schemas as objects: parsed from JSON with references, and written as Avro's Java library writes them.

The text is what a registry compares, so that a converter of ours and one of Java's register the same schema once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.errors import DataError
from kconnect.java.compat.jackson import jackson_text

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED: Final = frozenset({"record", "enum", "fixed"})
NO_DEFAULT: Final = object()
"""The default of a field that has none; None is the default null."""

_RESERVED: Final = frozenset(
    {"type", "name", "namespace", "doc", "fields", "items", "values", "symbols", "size", "default", "aliases"}
)
_FIELD_RESERVED: Final = frozenset({"name", "type", "doc", "default", "order", "aliases"})


@dataclass(eq=False, slots=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    doc: str | None = None
    default: Any = NO_DEFAULT  # as JSON
    props: dict[str, Any] = field(default_factory=dict)
    order: str | None = None
    aliases: tuple[str, ...] = ()


@dataclass(eq=False, slots=True)
class AvroType:
    """One Avro schema. `kind` is a primitive, record, enum, fixed, array, map or union; `name` is the full name."""

    kind: str
    name: str | None = None
    doc: str | None = None
    fields: list[AvroField] = field(default_factory=list)
    item: AvroType | None = None  # of an array's elements, a map's values
    branches: list[AvroType] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    size: int = 0
    enum_default: str | None = None
    props: dict[str, Any] = field(default_factory=dict)
    aliases: tuple[str, ...] = ()

    @property
    def simple_name(self) -> str:
        return (self.name or self.kind).rpartition(".")[2]

    def field_named(self, name: str) -> AvroField | None:
        return next((found for found in self.fields if found.name == name), None)

    @property
    def inner(self) -> AvroType:
        """What an array or map holds."""
        assert self.item is not None
        return self.item


def parse_avro(text: str, references: Iterable[str] = ()) -> AvroType:
    """The schema of a JSON text; `references` are those it names, in order of need. Errors: DataError."""
    known: dict[str, AvroType] = {}
    try:
        for reference in references:
            _parse(_json(reference), "", known)
        return _parse(_json(text), "", known)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise DataError(f"This is not an Avro schema: {text[:200]} ({error!r})") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()  # older registries give a primitive's bare name


def _parse(node: Any, space: str, known: dict[str, AvroType]) -> AvroType:
    if isinstance(node, list):
        return AvroType("union", branches=[_parse(branch, space, known) for branch in node])
    if isinstance(node, str):
        if node in PRIMITIVES:
            return AvroType(node)
        found = known.get(node if "." in node or not space else f"{space}.{node}") or known.get(node)
        if found is None:
            raise DataError(f"The Avro schema names the type {node}, which it does not define.")
        return found
    kind = node["type"]
    if not isinstance(kind, str):
        return _parse(kind, space, known)  # {"type": {"type": ..}}
    if kind == "error":
        kind = "record"
    props = {key: value for key, value in node.items() if key not in _RESERVED}
    if kind in PRIMITIVES:
        return AvroType(kind, props=props)
    if kind == "array":
        return AvroType(kind, item=_parse(node["items"], space, known), props=props)
    if kind == "map":
        return AvroType(kind, item=_parse(node["values"], space, known), props=props)
    if kind not in NAMED:
        return _parse(kind, space, known)
    return _parse_named(node, kind, props, space, known)


def _parse_named(node: Any, kind: str, props: dict[str, Any], space: str, known: dict[str, AvroType]) -> AvroType:
    name = node["name"]
    if "." not in name:
        own = node.get("namespace", space)
        name = f"{own}.{name}" if own else name
    space = name.rpartition(".")[0]
    made = AvroType(kind, name, node.get("doc"), props=props, aliases=tuple(node.get("aliases", ())))
    if name in known:
        raise DataError(f"The Avro schema defines the type {name} twice.")
    known[name] = made
    if kind == "enum":
        made.symbols, made.enum_default = list(node["symbols"]), node.get("default")
    elif kind == "fixed":
        made.size = int(node["size"])
    else:
        made.fields = [_parse_field(entry, space, known) for entry in node["fields"]]
    return made


def _parse_field(node: Any, space: str, known: dict[str, AvroType]) -> AvroField:
    return AvroField(
        node["name"],
        _parse(node["type"], space, known),
        node.get("doc"),
        node.get("default", NO_DEFAULT),
        {key: value for key, value in node.items() if key not in _FIELD_RESERVED},
        node.get("order"),
        tuple(node.get("aliases", ())),
    )


def avro_text(avro: AvroType) -> str:
    """The JSON text, keys in the order of Java's Schema.toString. Errors: DataError for a name with two meanings."""
    return jackson_text(_render(avro, "", {}))


def _render(avro: AvroType, space: str, written: dict[str, AvroType]) -> Any:
    if avro.kind == "union":
        return [_render(branch, space, written) for branch in avro.branches]
    if avro.kind in PRIMITIVES:
        return {"type": avro.kind, **avro.props} if avro.props else avro.kind
    if avro.kind == "array":
        return {"type": "array", "items": _render(avro.inner, space, written), **avro.props}
    if avro.kind == "map":
        return {"type": "map", "values": _render(avro.inner, space, written), **avro.props}
    name = avro.name or ""
    own_space, _, simple = name.rpartition(".")
    if name in written:
        if written[name] is not avro and not _is_same(written[name], avro):
            raise DataError(f"Two different Connect schemas would both be the Avro type {name}.")
        return simple if own_space == space else name
    written[name] = avro
    node: dict[str, Any] = {"type": avro.kind, "name": simple}
    if own_space != space:
        node["namespace"] = own_space
    if avro.doc is not None:
        node["doc"] = avro.doc
    if avro.kind == "enum":
        node["symbols"] = avro.symbols
        if avro.enum_default is not None:
            node["default"] = avro.enum_default
    elif avro.kind == "fixed":
        node["size"] = avro.size
    else:
        node["fields"] = [_render_field(entry, own_space, written) for entry in avro.fields]
    return {**node, **avro.props, **({"aliases": list(avro.aliases)} if avro.aliases else {})}


def _render_field(entry: AvroField, space: str, written: dict[str, AvroType]) -> dict[str, Any]:
    node: dict[str, Any] = {"name": entry.name, "type": _render(entry.type, space, written)}
    if entry.doc is not None:
        node["doc"] = entry.doc
    if entry.default is not NO_DEFAULT:
        node["default"] = entry.default
    if entry.order is not None and entry.order != "ascending":
        node["order"] = entry.order
    if entry.aliases:
        node["aliases"] = list(entry.aliases)
    return {**node, **entry.props}


def _is_same(one: AvroType, other: AvroType) -> bool:
    try:
        return avro_text(one) == avro_text(other)
    except RecursionError:
        return False  # one has the other within it


def takes_default(avro: AvroType, default: Any) -> bool:
    """Whether a JSON value is a default of this schema; of a union, the first branch decides."""
    kind = avro.kind
    if kind == "union":
        return bool(avro.branches) and takes_default(avro.branches[0], default)
    if kind == "null":
        return default is None
    if kind == "boolean":
        return isinstance(default, bool)
    if kind in ("int", "long"):
        bits = 31 if kind == "int" else 63
        return isinstance(default, int) and not isinstance(default, bool) and -(1 << bits) <= default < 1 << bits
    if kind in ("float", "double"):
        return isinstance(default, int | float) and not isinstance(default, bool)
    if kind in ("string", "bytes", "fixed", "enum"):
        return isinstance(default, str)
    if kind == "array":
        return isinstance(default, list) and all(takes_default(avro.inner, element) for element in default)
    if not isinstance(default, dict):
        return False
    if kind == "map":
        return all(takes_default(avro.inner, element) for element in default.values())
    return all(takes_default(entry.type, default.get(entry.name, entry.default)) for entry in avro.fields)

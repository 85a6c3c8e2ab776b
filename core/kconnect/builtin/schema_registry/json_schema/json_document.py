"""A JSON Schema of the registry with those it refers to, each part seen as everit's loader sees it for Java.

A part has a kind: boolean, integer, number, string, null, array, object, enum, empty, not, or oneOf, anyOf, allOf of
other parts. Several types are an anyOf; several keywords that each make a kind (such as type and enum) are an allOf.
What names or describes such a schema, and its default, are those of the whole, not of its parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from jsonschema.exceptions import SchemaError, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry, Resource
from referencing.exceptions import NoSuchResource, Unresolvable
from referencing.jsonschema import DRAFT7

from kconnect.errors import DataError

COMBINED: Final = ("allOf", "anyOf", "oneOf")
_OF_THE_WHOLE: Final = frozenset({"title", "description", "default"})
_TYPES: Final = frozenset({"boolean", "integer", "number", "string", "null", "array", "object"})
_IMPLIED: Final = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "additionalItems", "minItems", "maxItems", "uniqueItems", "contains"),
    "object": (
        "properties", "required", "additionalProperties", "minProperties", "maxProperties", "patternProperties",
        "propertyNames", "dependencies",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Part:
    """One schema in a document. `scope` is a resolver of the references in it."""

    kind: str
    node: Mapping[str, Any]
    scope: Any  # of a private class of `referencing`
    parts: tuple[Part, ...] = ()
    is_shared: bool = False
    """Whether the node has other parts beside this one."""

    def prop(self, name: str) -> Any:
        """The value of a keyword; None if there is none."""
        if self.is_shared and (name in _OF_THE_WHOLE or name.startswith("connect.")):
            return None
        return self.node.get(name)

    def properties(self) -> Iterator[tuple[str, Part]]:
        for name, node in (self.node.get("properties") or {}).items():
            yield name, part_of(node, self.scope)

    def inner(self, keyword: str) -> Part | None:
        """The schema in a keyword, such as items; None if there is none."""
        node = self.node.get(keyword)
        return part_of(node, self.scope) if isinstance(node, dict | bool) else None


class JsonDocument:
    """The text of a schema, `references` by their names. Errors: DataError for what is no JSON Schema."""

    def __init__(self, text: str, references: Mapping[str, str] | None = None) -> None:
        texts = references or {}
        self._references = {name: _resource(_json(each)) for name, each in texts.items()}
        self._schema = _json(text)
        registry: Registry[Any] = Registry(retrieve=self._retrieve)  # type: ignore[call-arg]  # attrs' alias
        root = _resource(self._schema)
        base = root.id() or ""
        self._registry = registry.with_resource(base, root)
        self._scope = self._registry.resolver(base)

    def root(self) -> Part:
        return part_of(self._schema, self._scope)

    def validator(self) -> Validator:
        """Checks values. Errors: DataError for a schema that breaks the rules of JSON Schema."""
        kind = validator_for(self._schema, default=Draft7Validator)
        try:
            kind.check_schema(self._schema)
        except SchemaError as error:
            raise DataError(f"This is not a valid JSON Schema: {error.message}") from error
        return kind(self._schema, registry=self._registry)

    def _retrieve(self, uri: str) -> Resource[Any]:
        """By the whole name, or by the name that the reference had before it was made absolute."""
        for name, resource in self._references.items():
            if uri == name or uri.endswith(f"/{name}"):
                return resource
        raise NoSuchResource(ref=uri)  # type: ignore[call-arg]  # made by attrs


def require_valid(validator: Validator, value: Any) -> None:
    """Errors: DataError that says where a value breaks its schema."""
    try:
        validator.validate(value)
    except ValidationError as error:
        raise DataError(f"Validation error in JSON at {error.json_path}: {error.message}") from error
    except Unresolvable as error:
        raise DataError(f"The JSON Schema refers to {error}, which it does not have.") from error


def part_of(node: Any, scope: Any, above: tuple[int, ...] = ()) -> Part:
    """`above` are the nodes that this one is a combined part of.

    Errors: DataError for a reference to nothing or to itself, and for what is no schema.
    """
    while isinstance(node, dict) and isinstance(node.get("$ref"), str):
        above = _below(node, above)
        try:
            found = scope.lookup(node["$ref"])
        except Unresolvable as error:
            raise DataError(
                f"The JSON Schema refers to {node['$ref']}, which it does not have.",
                hint="Register the other schema, and this one with a reference to it by that name.",
            ) from error
        node, scope = found.contents, found.resolver
    if isinstance(node, bool):
        return Part("empty" if node else "not", {}, scope)
    if not isinstance(node, dict):
        raise DataError(f"This is not a JSON Schema: {str(node)[:200]}")
    return _part(node, scope, _below(node, above))


def _below(node: dict[str, Any], above: tuple[int, ...]) -> tuple[int, ...]:
    if id(node) in above:
        raise DataError("The JSON Schema has a part that refers to itself, with nothing between.")
    return *above, id(node)


def _part(node: dict[str, Any], scope: Any, above: tuple[int, ...]) -> Part:
    parts = [
        Part(keyword, node, scope, tuple(part_of(each, scope, above) for each in node[keyword]))
        for keyword in COMBINED
        if isinstance(node.get(keyword), list)
    ]
    if "not" in node:
        parts.append(Part("not", node, scope))
    if "const" in node:
        parts.append(Part("enum", {"enum": [node["const"]], **node}, scope))
    elif isinstance(node.get("enum"), list):
        parts.append(Part("enum", node, scope))
    parts += _typed(node, scope)
    if not parts:
        return Part("empty", node, scope)
    if len(parts) == 1:
        return parts[0]
    return Part("allOf", node, scope, tuple(replace(each, is_shared=True) for each in parts))


def _typed(node: dict[str, Any], scope: Any) -> list[Part]:
    """What the type says, or what the keywords of one type imply."""
    type_ = node.get("type")
    if isinstance(type_, Sequence) and not isinstance(type_, str):
        if len(type_) != 1:
            members = tuple(Part(_known(each), node, scope, is_shared=True) for each in type_)
            return [Part("anyOf", node, scope, members)]
        type_ = type_[0]
    implied = [kind for kind, keywords in _IMPLIED.items() if any(keyword in node for keyword in keywords)]
    if type_ is None:
        return [Part(kind, node, scope) for kind in implied]
    kind = _known(type_)
    return [Part(kind, node, scope)]


def _known(kind: Any) -> str:
    if kind not in _TYPES:
        raise DataError(f"The JSON Schema has the unknown type {kind!r}.")
    return str(kind)


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_fraction)
    except (ValueError, RecursionError) as error:
        raise DataError(f"This is not a JSON Schema: {text[:200]} ({error})") from error


def _fraction(text: str) -> float | Decimal:
    """A Decimal where a float would lose digits, as of a default."""
    number = float(text)
    exact = Decimal(text)
    return number if Decimal(repr(number)) == exact else exact


def _resource(contents: Any) -> Resource[Any]:
    if not isinstance(contents, dict | bool):
        raise DataError(f"This is not a JSON Schema: {str(contents)[:200]}")
    return Resource.from_contents(contents, default_specification=DRAFT7)

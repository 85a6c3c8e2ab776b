"""What was seen in values, as a document of JSON and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kconnect.builtin.types.seen import Kind, Numbers, Seen


def document_of(seen: Seen) -> dict[str, Any]:
    """A document that `seen_of` reads again; it has only objects, texts, numbers and booleans."""
    found: dict[str, Any] = {"kind": seen.kind.value}
    if (numbers := seen.numbers) is not None:
        found["numbers"] = [numbers.whole, numbers.scale, numbers.has_floats, numbers.is_long, numbers.is_double]
    if seen.item is not None:
        found["item"] = document_of(seen.item)
    if seen.members:
        found["members"] = {name: document_of(member) for name, member in seen.members.items()}
    return found


def seen_of(document: Mapping[str, Any]) -> Seen:
    """Errors: ValueError, TypeError, KeyError, AttributeError for what `document_of` did not make."""
    numbers, item = document.get("numbers"), document.get("item")
    return Seen(
        Kind(document["kind"]),
        None if numbers is None else Numbers(*numbers),
        None if item is None else seen_of(item),
        {name: seen_of(member) for name, member in document.get("members", {}).items()},
    )

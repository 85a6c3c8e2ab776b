"""Source offsets as a JSON document, to move them between a standalone file, an offsets topic and other clusters.

Shape: `{"orders": {"offsets": [{"partition": {..}, "offset": {..}}, ..]}, ..}`: for each connector what
`GET /connectors/X/offsets` shows and its PATCH takes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kconnect.errors import BadRequestError, DataError
from kconnect.java.compat.jackson import jackson_text
from kconnect.model import ConnectorOffset, offsets_from_json, offsets_to_json
from kconnect.runtime.storage.offset_topic import canonical_key, decode_key, decode_value, encode_key, encode_value

Entries = Mapping[bytes, bytes | None]


def offsets_document(
    entries: Entries, *, connectors: Collection[str] | None = None, skip: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """The document of a store's entries; only those of `connectors` if given.

    Sorted by connector, then by partition: the order in which the partitions of a topic were read must not change what
    is printed or exported. Tombstones are left out. Entries that cannot be represented (an unknown key, an invalid
    offset) are reported to `skip` as a sentence. Errors: without `skip`, DataError that names the connector and the
    partition.
    """
    found: dict[str, list[ConnectorOffset]] = {}
    for key, value in entries.items():
        if value is None:
            continue
        decoded = decode_key(key)
        try:
            if decoded is None:
                raise DataError(f'The key {key[:200]!r} is not ["connector", {{partition}}]: its offset is of nobody')
            connector, partition = decoded
            if connectors is not None and connector not in connectors:
                continue
            offset = _offset_of(connector, partition, value)
        except DataError as err:
            if skip is None:
                raise
            skip(str(err))
            continue
        if offset is not None:
            found.setdefault(connector, []).append(ConnectorOffset(partition, offset))
    return {
        connector: offsets_to_json(sorted(offsets, key=lambda one: json.dumps(one.partition, sort_keys=True)))
        for connector, offsets in sorted(found.items())
    }


def offset_entries(document: object) -> dict[bytes, bytes | None]:
    """The entries of a document; a null offset is a tombstone.

    Errors: BadRequestError that names the connector and the partition: wrong shape, nested values, two offsets for
    one partition.
    """
    if not isinstance(document, Mapping):
        raise BadRequestError('Expected a JSON object {"connector": {"offsets": [..]}, ..}')
    found: dict[bytes, bytes | None] = {}
    seen: dict[str | bytes, str] = {}
    for connector, body in document.items():
        if not isinstance(connector, str) or not connector:
            raise BadRequestError(f"{connector!r} is not a name of a connector")
        try:
            offsets = offsets_from_json(body)
        except BadRequestError as err:
            raise BadRequestError(f"Connector {connector}: {err}", hint=err.hint) from err
        for item in offsets:
            place = f"Connector {connector}, partition {_shown(item.partition)}"
            try:
                key, value = encode_key(connector, item.partition), encode_value(item.offset)
            except DataError as err:
                raise BadRequestError(f"{place}: {err}") from err
            form = canonical_key(key)
            if form in seen:
                raise BadRequestError(f"{place} has more than one offset", hint="Keep one of them.")
            seen[form] = place
            found[key] = value
    return found


def offset_changes(current: Entries, wanted: Entries, *, replaced: Collection[str] = ()) -> dict[bytes, bytes | None]:
    """What to write so that a store with `current` holds `wanted`; equal offsets are not rewritten.

    All other partitions of the connectors in `replaced` are removed. An existing partition is written under the key
    that the store has for it.
    """
    stored = {canonical_key(key): (key, value) for key, value in current.items()}
    changes: dict[bytes, bytes | None] = {}
    forms = set()
    for key, value in wanted.items():
        form = canonical_key(key)
        forms.add(form)
        known_key, known_value = stored.get(form, (key, None))
        if known_value != value:
            changes[known_key] = value
    for form, (key, value) in stored.items():
        if value is not None and form not in forms and _owner_of(key) in replaced:
            changes[key] = None
    return changes


def _offset_of(connector: str, partition: Mapping[str, Any], value: bytes) -> dict[str, Any] | None:
    try:
        return decode_value(value)
    except DataError as err:
        raise DataError(f"Connector {connector}, partition {_shown(partition)}: {err}") from err


def _owner_of(key: bytes) -> str | None:
    decoded = decode_key(key)
    return None if decoded is None else decoded[0]


def _shown(partition: Mapping[str, Any]) -> str:
    return jackson_text(partition) if all(isinstance(name, str) for name in partition) else repr(partition)

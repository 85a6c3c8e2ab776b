"""Offsets as `connect offsets show -o json` prints them and `alter` takes them, of one connector or of several.

One connector is the body of REST's `/connectors/NAME/offsets`; several are an array of them, each with its name:

    {"offsets": [{"partition": {..}, "offset": {..}}]}
    [{"name": "orders", "offsets": [..]}, {"name": "lines", "offsets": [..]}]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kconnect.errors import BadRequestError, ConnectError
from kconnect.model import ConnectorOffset, SinkLag, offsets_from_json, offsets_to_json
from kconnect_cli.exits import UsageProblem
from kconnect_cli.files.json_files import read_json, source_of


class OffsetFile:
    """What a file says, by connector; None stands for the one that the command names."""

    def __init__(self, where: str, found: Mapping[str | None, Sequence[ConnectorOffset]]) -> None:
        self.where = where
        self._found = found

    def chosen(self, names: Sequence[str]) -> dict[str, Sequence[ConnectorOffset]]:
        """Offsets for each connector that is meant; without names all that the file names.

        Errors: UsageProblem when file and names do not fit each other, so that nobody gets another's offsets.
        """
        if None in self._found:
            if len(names) != 1:
                raise UsageProblem(
                    f"{self.where} holds offsets of one connector but does not name it",
                    hint="Name one connector, or give what `connect offsets show NAME NAME -o json` prints.",
                )
            return {names[0]: self._found[None]}
        if not self._found:
            raise UsageProblem(f"{self.where} holds no offsets")
        held = {name: offsets for name, offsets in self._found.items() if name is not None}
        for name in names:
            if name not in held:
                raise UsageProblem(f"{self.where} has no offsets of {name}", hint=f"It has those of {', '.join(held)}.")
        return {name: held[name] for name in dict.fromkeys(names)} if names else held


def offsets_document(
    found: Mapping[str, Sequence[ConnectorOffset]], *, one: bool, lags: Mapping[str, SinkLag] | None = None
) -> object:
    """What `read_offsets` reads: with `one` the body of REST's request, else the array. `lags`: of sinks, where known;
    nobody reads them.
    """
    lags = lags or {}
    bodies = {
        name: {**offsets_to_json(offsets), **({"lag": lags[name].to_json()} if name in lags else {})}
        for name, offsets in found.items()
    }
    if one:
        return next(iter(bodies.values()))
    return [{"name": name, **body} for name, body in bodies.items()]


def read_offsets(name: str) -> OffsetFile:
    """Read a file, or stdin. Errors: ConnectError that names the file and the place."""
    where, document = source_of(name), read_json(name)
    try:
        return OffsetFile(where, _by_connector(document))
    except BadRequestError as err:
        raise ConnectError(f"{where}: {err}", hint="`connect offsets show NAME -o json` prints the format.") from err


def _by_connector(document: Any) -> dict[str | None, Sequence[ConnectorOffset]]:  # JSON
    if not isinstance(document, list):
        name = document.get("name") if isinstance(document, dict) else None
        if name is not None and not isinstance(name, str):
            raise BadRequestError("name must be a string")
        return {name: offsets_from_json(document)}
    found: dict[str | None, Sequence[ConnectorOffset]] = {}
    for index, item in enumerate(document):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise BadRequestError(f'[{index}] must be an object {{"name": "..", "offsets": [..]}}')
        if item["name"] in found:
            raise BadRequestError(f"[{index}]: {item['name']} appears twice")
        try:
            found[item["name"]] = offsets_from_json(item)
        except BadRequestError as err:
            raise BadRequestError(f"[{index}] ({item['name']}): {err}") from err
    return found

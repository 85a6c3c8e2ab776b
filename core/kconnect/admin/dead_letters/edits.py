"""How replayed records are changed: by a JSON patch, by a function, or by lines of an exported file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from kconnect.admin.dead_letters.document import PARTS, Documents
from kconnect.admin.dead_letters.letter import DeadLetter
from kconnect.api import ConsumerRecord
from kconnect.errors import ConfigError, DataError

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry


PATCH_EXAMPLE: Final = '[{"op": "replace", "path": "/value/id", "value": 7}]'
_NEEDS: Final = {"add": "value", "replace": "value", "test": "value", "remove": None, "move": "from", "copy": "from"}


class Edit(Protocol):
    """Changes one record."""

    def apply(self, letter: DeadLetter, record: ConsumerRecord) -> ConsumerRecord | None:
        """The changed record of a dead letter; None to leave it out. Errors: DataError that says what does not fit."""
        ...


class JsonPatchEdit:
    """A JSON patch (RFC 6902) on the document of each record; see kconnect.admin.dead_letters.document."""

    def __init__(self, patch: Any, documents: Documents, where: str) -> None:
        """`patch`: its JSON. Errors: ConfigError when it is no patch."""
        import jsonpatch  # here: nobody else needs it

        self._problems = (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException)
        try:
            if (problem := _patch_problem(patch)) is not None:
                raise ValueError(problem)
            self._patch = jsonpatch.JsonPatch(patch)
        except (*self._problems, ValueError) as error:
            raise ConfigError(
                f"{where} is not a JSON patch (RFC 6902): {error}", hint=f"For example: {PATCH_EXAMPLE}"
            ) from error
        self._documents = documents

    def apply(self, letter: DeadLetter, record: ConsumerRecord) -> ConsumerRecord | None:
        before = self._documents.document(record)
        return self._documents.edited(record, before, self.body(before.body))

    def body(self, before: Mapping[str, Any]) -> Any:
        """The document of a record with the patch applied. Errors: DataError."""
        try:
            return self._patch.apply(json.loads(json.dumps(dict(before))))
        except self._problems as error:
            why = re.sub(r" \(<class '[^']*'>\)", "", str(error))
            raise DataError(f"The patch does not fit the record: {why}") from error


class FunctionEdit:
    """`module:function` that gives the changed record, as PythonTransform calls it."""

    def __init__(self, function: str, documents: Documents, plugins: PluginRegistry) -> None:
        """Errors: ConfigError when the function is not there."""
        self._transform = plugins.transformation("kconnect.builtin.python_function:PythonTransform")()
        try:
            self._transform.configure({"function": function})
        except ConfigError as error:
            why = error.problems[0].message if error.problems else str(error)
            hint = "It is looked for in the current folder and where Python is installed."
            raise ConfigError(f"{function} cannot be used: {why}", hint=hint) from error
        self._documents = documents
        self._name = function

    def apply(self, letter: DeadLetter, record: ConsumerRecord) -> ConsumerRecord | None:
        try:
            after = self._transform.apply(self._documents.decoded(record).to_sink_record())
        except Exception as error:  # the user's own code
            raise DataError(f"{self._name} failed: {type(error).__name__}: {error}") from error
        return None if after is None else self._documents.of_connect(record, after)


class FileEdit:
    """The bodies of an exported file, some of them edited by hand, by the places of their dead letters."""

    def __init__(self, bodies: Mapping[str, Any], documents: Documents) -> None:
        """`bodies`: place -> the document as the file has it."""
        self._bodies = bodies
        self._documents = documents

    def apply(self, letter: DeadLetter, record: ConsumerRecord) -> ConsumerRecord | None:
        return self._documents.edited(record, self._documents.document(record), self._bodies[letter.place])


class Edits:
    """Several, one after the other."""

    def __init__(self, *edits: Edit) -> None:
        self._edits = edits

    def apply(self, letter: DeadLetter, record: ConsumerRecord) -> ConsumerRecord | None:
        for edit in self._edits:
            after = edit.apply(letter, record)
            if after is None:
                return None
            record = after
        return record


def patch_between(before: Mapping[str, Any], after: Any) -> str:
    """The JSON patch that makes one document of the other, to be read by people."""
    import jsonpatch  # as above

    return json.dumps(jsonpatch.make_patch(dict(before), after).patch, ensure_ascii=False, indent=1)


def _patch_problem(patch: Any) -> str | None:  # any JSON value
    """What is wrong with it, whatever records it is for; the library finds some of it record by record only."""
    if not isinstance(patch, list):
        return "it must be a list of operations"
    for number, operation in enumerate(patch, 1):
        if (why := _operation_problem(operation)) is not None:
            return f"operation {number} {why}"
    return None


def _operation_problem(operation: Any) -> str | None:
    if not isinstance(operation, dict):
        return f"must be a JSON object, not {json.dumps(operation, ensure_ascii=False)}"
    op = operation.get("op")
    if op not in _NEEDS:
        names = ", ".join(_NEEDS)
        return f"has no op: one of {names}" if op is None else f"has the op {op}, which is none of {names}"
    needed = _NEEDS[op]
    if needed is not None and needed not in operation:
        return f"({op}) has no {needed}"
    for name in ("path", "from") if needed == "from" else ("path",):
        place = operation.get(name)
        if not isinstance(place, str) or (place and not place.startswith("/")):
            message = "no path" if place is None else f"{name} {place}"
            return f"({op}) has {message}: it must begin with a slash, such as /value/id"
        part = place.split("/")[1] if place else None
        if part is not None and part not in PARTS:
            return f"({op}) is about /{part}, and a record has /{', /'.join(PARTS)} only"
    return None

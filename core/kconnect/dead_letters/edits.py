"""How replayed records are changed: by a JSON patch, by a function, or by lines of an exported file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from kconnect.api import ConsumerRecord
from kconnect.dead_letters.document import Documents
from kconnect.dead_letters.letter import DeadLetter
from kconnect.errors import ConfigError, DataError

if TYPE_CHECKING:
    from kconnect.plugins import PluginRegistry


class Edit(Protocol):
    """Changes one record."""

    def apply(self, letter: DeadLetter, record: ConsumerRecord) -> ConsumerRecord | None:
        """The changed record of a letter; None to leave it out. Errors: DataError that says what does not fit."""
        ...


class JsonPatchEdit:
    """A JSON patch (RFC 6902) on the document of each record; see kconnect.dead_letters.document."""

    def __init__(self, patch: Any, documents: Documents, where: str) -> None:
        """`patch`: its JSON. Errors: ConfigError when it is no patch."""
        import jsonpatch  # here: nobody else needs it

        try:
            self._patch = jsonpatch.JsonPatch(patch)
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, KeyError) as error:
            example = '[{"op": "replace", "path": "/value/id", "value": 7}]'
            problem = f"{where} is not a JSON patch (RFC 6902): {error}"
            raise ConfigError(problem, hint=f"For example: {example}") from error
        self._documents = documents
        self._problems = (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException)

    def apply(self, letter: DeadLetter, record: ConsumerRecord) -> ConsumerRecord | None:
        before = self._documents.document(record)
        try:
            after = self._patch.apply(json.loads(json.dumps(before.body)))
        except self._problems as error:
            raise DataError(f"The patch does not fit the record: {error}") from error
        return self._documents.edited(record, before, after)


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
        given = self._documents.decoded(record)
        before, handed = given.to_sink_record(), given.to_sink_record()
        try:
            after = self._transform.apply(handed)
        except Exception as error:  # the user's own code
            raise DataError(f"{self._name} failed: {type(error).__name__}: {error}") from error
        return None if after is None else self._documents.of_connect(record, before, after)


class FileEdit:
    """The bodies of an exported file, some of them edited by hand, by the places of their letters."""

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

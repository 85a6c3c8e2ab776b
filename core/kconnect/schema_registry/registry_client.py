"""What converters ask a schema registry, remembered by id and subject. Source: CachedSchemaRegistryClient."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from kconnect.api import DataError
from kconnect.schema_registry.registry_http import RegistryRefusal, RegistryTransport

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it; `references` are texts of those it names, in order of need."""

    id: int
    text: str
    references: tuple[str, ...] = ()


class BoundedCache(OrderedDict[_Key, _Value]):
    """Remembers the newest so many."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = max(1, most)

    def found(self, key: _Key, make: Callable[[], _Value]) -> _Value:
        """What is remembered, else what `make` gives; an error is not remembered."""
        if key in self:
            self.move_to_end(key)
            return self[key]
        value = self[key] = make()
        if len(self) > self._most:
            self.popitem(last=False)
        return value


class RegistryClient:
    """The registry of one converter. Each question goes out once; threads: one at a time.

    Errors of all methods: RetriableError when the registry does not answer, DataError when it refuses.
    """

    def __init__(self, transport: RegistryTransport, *, cache_size: int = 1000, schema_type: str = "AVRO") -> None:
        self._transport = transport
        self._type = schema_type
        self._by_id: BoundedCache[int, RegisteredSchema] = BoundedCache(cache_size)
        self._ids: BoundedCache[tuple[str, str, bool, bool], int] = BoundedCache(cache_size)
        self._latest: BoundedCache[str, RegisteredSchema] = BoundedCache(cache_size)
        self._versions: BoundedCache[tuple[str, int], int | None] = BoundedCache(cache_size)

    def schema(self, schema_id: int) -> RegisteredSchema:
        """The schema with that id. Errors: DataError when there is none, or it is of another type."""
        return self._by_id.found(schema_id, lambda: self._schema(schema_id))

    def id_of(self, subject: str, text: str, *, register: bool, normalize: bool) -> int:
        """The id of a schema under a subject, registered there if it is new and `register`. Errors: DataError."""
        ask = self._registered if register else self._looked_up
        return self._ids.found((subject, text, register, normalize), lambda: ask(subject, text, normalize=normalize))

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest schema of a subject, as it was when it was first asked for."""
        return self._latest.found(subject, lambda: self._newest(subject))

    def version_of(self, subject: str, schema: RegisteredSchema) -> int | None:
        """The version that a schema is of a subject; None if it is none of it."""
        return self._versions.found((subject, schema.id), lambda: self._version(subject, schema))

    def _schema(self, schema_id: int) -> RegisteredSchema:
        purpose = f"the schema with id {schema_id}"
        try:
            answer = self._transport.ask("GET", f"/schemas/ids/{schema_id}", None, purpose)
        except RegistryRefusal as error:
            if error.status != 404:
                raise
            raise DataError(
                f"{error}",
                hint="Was this record written with another registry? Then schema.registry.url must be that one's.",
            ) from error
        return self._read(schema_id, answer, purpose)

    def _registered(self, subject: str, text: str, *, normalize: bool) -> int:
        purpose = f"a place for a schema under subject {subject}"
        path = f"/subjects/{_quoted(subject)}/versions{'?normalize=true' if normalize else ''}"
        try:
            answer = self._transport.ask("POST", path, self._body(text), purpose)
        except RegistryRefusal as error:
            if error.status != 409:
                raise
            raise self._incompatible(subject, error) from error
        return _whole_number(answer, "id", purpose)

    def _looked_up(self, subject: str, text: str, *, normalize: bool) -> int:
        purpose = f"the id of a schema under subject {subject}"
        path = f"/subjects/{_quoted(subject)}{'?normalize=true' if normalize else ''}"
        try:
            answer = self._transport.ask("POST", path, self._body(text), purpose)
        except RegistryRefusal as error:
            if error.status != 404:
                raise
            raise DataError(
                f"{error}. The schema: {text[:1000]}",
                hint="Register it first, or let the converter do it with auto.register.schemas=true, or take the newest"
                " with use.latest.version=true.",
            ) from error
        return _whole_number(answer, "id", purpose)

    def _newest(self, subject: str) -> RegisteredSchema:
        purpose = f"the newest schema of subject {subject}"
        answer = self._transport.ask("GET", f"/subjects/{_quoted(subject)}/versions/latest", None, purpose)
        return self._read(_whole_number(answer, "id", purpose), answer, purpose)

    def _version(self, subject: str, schema: RegisteredSchema) -> int | None:
        purpose = f"the version of the schema with id {schema.id} under subject {subject}"
        path = f"/schemas/ids/{schema.id}/versions"
        try:
            answer = self._transport.ask("GET", path, None, purpose)
        except RegistryRefusal as error:
            if error.status in (403, 404, 405):
                return None  # a name for the schema is all that is lost
            raise
        if not isinstance(answer, list):
            raise DataError(f"The schema registry was asked for {purpose} and did not answer with a list.")
        versions = [
            entry.get("version") for entry in answer if isinstance(entry, dict) and entry.get("subject") == subject
        ]
        return max((version for version in versions if isinstance(version, int)), default=None)

    def _read(self, schema_id: int, answer: Any, purpose: str) -> RegisteredSchema:
        text = answer.get("schema") if isinstance(answer, dict) else None
        if not isinstance(text, str):
            raise DataError(f"The schema registry was asked for {purpose}, and its answer has no schema.")
        kind = answer.get("schemaType") or "AVRO"
        if kind != self._type:
            raise DataError(
                f"The schema with id {schema_id} is of type {kind}, not {self._type}.",
                hint=f"This record was written by another converter: a {kind} one has to read it.",
            )
        texts: dict[tuple[str, int], str] = {}
        self._collect(answer.get("references") or [], texts, ())
        return RegisteredSchema(schema_id, text, tuple(texts.values()))

    def _collect(self, references: Any, texts: dict[tuple[str, int], str], above: tuple[tuple[str, int], ...]) -> None:
        """The texts that a schema refers to, those that they need before them."""
        for reference in references:
            subject, version = str(reference["subject"]), int(reference["version"])
            key = (subject, version)
            if key in texts:
                continue
            if key in above:
                raise DataError(f"The schema of subject {subject}, version {version}, refers to itself.")
            purpose = f"version {version} of subject {subject}, to which a schema refers"
            answer = self._transport.ask("GET", f"/subjects/{_quoted(subject)}/versions/{version}", None, purpose)
            self._collect(answer.get("references") or [], texts, (*above, key))
            texts[key] = str(answer["schema"])

    def _incompatible(self, subject: str, error: RegistryRefusal) -> DataError:
        rule = self._rule(subject)
        return DataError(
            f"The schema is not compatible with those of subject {subject}, whose compatibility rule is {rule}: "
            f"{error.said or error}",
            hint="Change the data so that it fits, or the rule: PUT /config/SUBJECT of the registry, such as"
            ' {"compatibility": "NONE"}.',
        )

    def _rule(self, subject: str) -> str:
        for path in (f"/config/{_quoted(subject)}", "/config"):
            try:
                answer = self._transport.ask("GET", path, None, f"the compatibility rule of subject {subject}")
            except DataError:
                continue  # no rule of its own: the registry's
            found = answer.get("compatibilityLevel") if isinstance(answer, dict) else None
            if found:
                return str(found)
        return "unknown"

    def _body(self, text: str) -> dict[str, str]:
        return {"schema": text} if self._type == "AVRO" else {"schema": text, "schemaType": self._type}


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _whole_number(answer: Any, key: str, purpose: str) -> int:
    found = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(found, int):
        raise DataError(f"The schema registry was asked for {purpose}, and its answer has no {key}.")
    return found

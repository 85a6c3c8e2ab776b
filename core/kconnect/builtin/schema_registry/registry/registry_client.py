"""What converters ask a schema registry, remembered by id and subject. Source: CachedSchemaRegistryClient."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import quote

from kconnect.api import DataError
from kconnect.builtin.schema_registry.registry.registry_http import (
    RegistryRefusal,
    RegistryTransport,
    UnexpectedAnswerError,
)

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it; `references` are texts by the names it has for them, in order of need."""

    id: int
    text: str
    references: Mapping[str, str] = field(default_factory=dict)


_Version = tuple[str, int]
"""A subject, and the number of a version of it."""
_Reference = tuple[str, str, int]
"""The name that a schema has for another; the subject and version of that."""


@dataclass(frozen=True, slots=True)
class _Answered:
    """A schema as the registry reports it."""

    text: str
    kind: str
    references: tuple[_Reference, ...]


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
            found = self._transport.ask("GET", f"/schemas/ids/{schema_id}", None, purpose, _schema_in)
        except RegistryRefusal as error:
            if error.status != 404:
                raise
            raise DataError(
                f"{error}",
                hint="Was this record written with another registry? Then schema.registry.url must be that one's.",
            ) from error
        return self._registered_schema(schema_id, found)

    def _registered(self, subject: str, text: str, *, normalize: bool) -> int:
        purpose = f"a place for a schema under subject {subject}"
        path = f"/subjects/{_quoted(subject)}/versions{'?normalize=true' if normalize else ''}"
        try:
            return self._transport.ask("POST", path, self._body(text), purpose, _id_in)
        except RegistryRefusal as error:
            if error.status != 409:
                raise
            raise self._incompatible(subject, error) from error

    def _looked_up(self, subject: str, text: str, *, normalize: bool) -> int:
        purpose = f"the id of a schema under subject {subject}"
        path = f"/subjects/{_quoted(subject)}{'?normalize=true' if normalize else ''}"
        try:
            return self._transport.ask("POST", path, self._body(text), purpose, _id_in)
        except RegistryRefusal as error:
            if error.status != 404:
                raise
            raise DataError(
                f"{error}. The schema: {text[:1000]}",
                hint="Register it first, or let the converter do it with auto.register.schemas=true, or take the newest"
                " with use.latest.version=true.",
            ) from error

    def _newest(self, subject: str) -> RegisteredSchema:
        purpose = f"the newest schema of subject {subject}"
        path = f"/subjects/{_quoted(subject)}/versions/latest"
        schema_id, found = self._transport.ask(
            "GET", path, None, purpose, lambda said: (_id_in(said), _schema_in(said))
        )
        return self._registered_schema(schema_id, found)

    def _version(self, subject: str, schema: RegisteredSchema) -> int | None:
        purpose = f"the version of the schema with id {schema.id} under subject {subject}"
        path = f"/schemas/ids/{schema.id}/versions"
        try:
            versions = self._transport.ask("GET", path, None, purpose, _versions_in)
        except RegistryRefusal as error:
            if error.status in (403, 404, 405):
                return None  # a name for the schema is all that is lost
            raise
        return max((version for of, version in versions if of == subject), default=None)

    def _registered_schema(self, schema_id: int, found: _Answered) -> RegisteredSchema:
        if found.kind != self._type:
            raise DataError(
                f"The schema with id {schema_id} is of type {found.kind}, not {self._type}.",
                hint=f"This record was written by another converter: a {found.kind} one has to read it.",
            )
        texts: dict[str, str] = {}
        self._collect(found.references, texts, ())
        return RegisteredSchema(schema_id, found.text, texts)

    def _collect(self, references: Sequence[_Reference], texts: dict[str, str], above: tuple[_Version, ...]) -> None:
        """The texts that a schema refers to, those that they need before them."""
        for name, subject, version in references:
            key = (subject, version)
            if name in texts:
                continue
            if key in above:
                raise DataError(f"The schema of subject {subject}, version {version}, refers to itself.")
            purpose = f"version {version} of subject {subject}, to which a schema refers"
            path = f"/subjects/{_quoted(subject)}/versions/{version}"
            found = self._transport.ask("GET", path, None, purpose, _schema_in)
            self._collect(found.references, texts, (*above, key))
            texts[name] = found.text

    def _incompatible(self, subject: str, error: RegistryRefusal) -> DataError:
        rule = self._rule(subject)
        return DataError(
            f"The schema is not compatible with those of subject {subject}, whose compatibility rule is {rule}."
            f" {error}",
            hint="Change the data so that it fits, or the rule: PUT /config/SUBJECT of the registry, such as"
            ' {"compatibility": "NONE"}.',
        )

    def _rule(self, subject: str) -> str:
        for path in (f"/config/{_quoted(subject)}", "/config"):
            try:
                rule = self._transport.ask("GET", path, None, f"the compatibility rule of subject {subject}", _rule_in)
            except RegistryRefusal:
                continue  # no rule of its own: the registry's
            if rule is not None:
                return rule
        return "unknown"

    def _body(self, text: str) -> dict[str, str]:
        return {"schema": text} if self._type == "AVRO" else {"schema": text, "schemaType": self._type}


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


# What is in an answer. Errors of all: UnexpectedAnswerError.


def _schema_in(answer: Any) -> _Answered:
    return _Answered(
        _field(answer, "schema", str),
        _field(answer, "schemaType", str | None) or "AVRO",
        tuple(map(_reference_in, _field(answer, "references", list | None) or ())),
    )


def _id_in(answer: Any) -> int:
    found: int = _field(answer, "id", int)
    return found


def _versions_in(answer: Any) -> list[_Version]:
    if not isinstance(answer, list):
        raise UnexpectedAnswerError("no list of versions")
    return list(map(_version_in, answer))


def _version_in(answer: Any) -> _Version:
    return _field(answer, "subject", str), _field(answer, "version", int)


def _reference_in(answer: Any) -> _Reference:
    return _field(answer, "name", str), *_version_in(answer)


def _rule_in(answer: Any) -> str | None:
    """Returns None if a subject has other settings, and no rule."""
    rule: str | None = _field(answer, "compatibilityLevel", str | None)
    return rule


def _field(answer: Any, key: str, type_: Any) -> Any:  # a type or a union of them
    found = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(found, type_):
        raise UnexpectedAnswerError(f"an answer without {key}")
    return found

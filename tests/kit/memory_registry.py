"""A schema registry in memory: implements RegistryTransport, with Confluent's paths and error codes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import unquote

from kconnect.builtin.schema_registry.registry.registry_http import RegistryRefusal

T = TypeVar("T")


class MemoryRegistry:
    """`asked` lists all requests; a subject in `closed` refuses every further schema."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.closed: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.problem: Exception | None = None

    def add(self, subject: str, text: str, **more: Any) -> int:
        """Register past the transport; `more` are schemaType and references."""
        entry = {"schema": text, **more}
        found = next((number for number, known in self.schemas.items() if known == entry), len(self.schemas) + 1)
        self.schemas[found] = entry
        versions = self.subjects.setdefault(subject, [])
        if found not in versions:
            versions.append(found)
        return found

    def ask(self, method: str, path: str, body: Any, purpose: str, read: Callable[[Any], T]) -> T:
        return read(self.answer(method, path, body, purpose))

    def answer(self, method: str, path: str, body: Any, purpose: str = "something") -> Any:
        """The JSON for a request, as an object."""
        self.asked.append((method, path))
        if self.problem is not None:
            raise self.problem
        path = path.partition("?")[0]
        if match := re.fullmatch(r"/schemas/ids/(\d+)(/versions)?", path):
            number = int(match[1])
            if number not in self.schemas:
                raise _refusal(404, 40403, f"Schema {number} not found", purpose)
            if match[2] is None:
                return self.schemas[number]
            return [
                {"subject": subject, "version": versions.index(number) + 1}
                for subject, versions in self.subjects.items()
                if number in versions
            ]
        if match := re.fullmatch(r"/subjects/([^/]+)(?:/versions(?:/(\w+))?)?", path):
            return self._subject(method, path, unquote(match[1]), match[2], body, purpose)
        if path == "/config":
            return {"compatibilityLevel": "BACKWARD"}
        raise _refusal(404, 404, "not found", purpose)

    def _subject(self, method: str, path: str, subject: str, version: str | None, body: Any, purpose: str) -> Any:
        if method == "POST" and path.endswith("/versions"):
            if subject in self.closed:
                raise _refusal(409, 409, "field x has no default", purpose)
            return {"id": self.add(subject, **{"text" if key == "schema" else key: body[key] for key in body})}
        versions = self.subjects.get(subject, [])
        if method == "POST":
            for number in versions:
                if self.schemas[number]["schema"] == body["schema"]:
                    return {"id": number, "version": versions.index(number) + 1}
            raise _refusal(404, 40403, "Schema not found", purpose)
        if not versions:
            raise _refusal(404, 40401, f"Subject {subject} not found", purpose)
        number = versions[-1] if version in (None, "latest") else versions[int(version or 0) - 1]
        return {"id": number, "version": versions.index(number) + 1, **self.schemas[number]}


def _refusal(status: int, code: int, said: str, purpose: str) -> RegistryRefusal:
    return RegistryRefusal(f"asked for {purpose}: {status} {said}", status, code, said)

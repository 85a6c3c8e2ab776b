"""Validators of ConfigDef. `str(validator)` is Java's text, shown in documentation and REST."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any, Protocol

from kconnect.errors import ConfigError


class Validator(Protocol):
    """Checks one parsed value. Its `str()` briefly says what is allowed.

    Called by `ConfigDef.define` for the default, by `parse` and `validate` for each value, on the caller's thread. Must
    not block, and must be stateless: one object serves all.
    """

    def ensure_valid(self, name: str, value: Any) -> None:
        """Raise ConfigError if the value is not allowed. The value is None if it could not be parsed."""
        ...


class Range:
    """A number between bounds, inclusive."""

    def __init__(self, minimum: float | None, maximum: float | None) -> None:
        self._minimum, self._maximum = minimum, maximum

    @classmethod
    def at_least(cls, minimum: float) -> Range:
        """At least this."""
        return cls(minimum, None)

    @classmethod
    def between(cls, minimum: float, maximum: float) -> Range:
        """From `minimum` to `maximum`, both included."""
        return cls(minimum, maximum)

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.invalid(name, None, "Value must be non-null")
        if self._minimum is not None and value < self._minimum:
            raise ConfigError.invalid(name, value, f"Value must be at least {self._minimum}")
        if self._maximum is not None and value > self._maximum:
            raise ConfigError.invalid(name, value, f"Value must be no more than {self._maximum}")

    def __str__(self) -> str:
        bounds = [None if bound is None else str(bound) for bound in (self._minimum, self._maximum)]
        middle = [bound for bound in (bounds[0], "...", bounds[1]) if bound is not None]
        return f"[{','.join(middle)}]"


class ValidString:
    """One of some strings."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = allowed

    @classmethod
    def in_(cls, *allowed: str) -> ValidString:
        """One of these, case-sensitive."""
        return cls(*allowed)

    def ensure_valid(self, name: str, value: Any) -> None:
        if value not in self._allowed:
            raise ConfigError.invalid(name, value, f"String must be one of: {', '.join(self._allowed)}")

    def __str__(self) -> str:
        return f"[{', '.join(self._allowed)}]"


class CaseInsensitiveValidString:
    """One of some strings, case-insensitive. Differs: lists them in the given order, Java in hash order."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = tuple(text.upper() for text in allowed)

    @classmethod
    def in_(cls, *allowed: str) -> CaseInsensitiveValidString:
        """One of these, case-insensitive."""
        return cls(*allowed)

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None or value.upper() not in self._allowed:
            allowed = ", ".join(self._allowed)
            raise ConfigError.invalid(name, value, f"String must be one of (case insensitive): {allowed}")

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(self._allowed)}]"


class ValidList:
    """A list without duplicates or empty items. `ConfigDef.parse` removes duplicates before it is called."""

    def __init__(self, allowed: tuple[str, ...], *, allow_empty: bool, allow_null: bool) -> None:
        self._allowed, self._allow_empty, self._allow_null = allowed, allow_empty, allow_null

    @classmethod
    def in_(cls, *allowed: str, allow_empty: bool = True) -> ValidList:
        """Any selection of these strings."""
        if not allowed and not allow_empty:
            raise ValueError("At least one valid string must be provided when empty values are not allowed")
        return cls(allowed, allow_empty=allow_empty, allow_null=False)

    @classmethod
    def any_non_duplicate_values(cls, allow_empty: bool, allow_null: bool) -> ValidList:
        """Any list of distinct entries."""
        return cls((), allow_empty=allow_empty, allow_null=allow_null)

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            if not self._allow_null:
                raise ConfigError(f"Configuration '{name}' values must not be null.")
            return
        if not value and not self._allow_empty:
            allowed = ValidString(*self._allowed) if self._allowed else "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {allowed}")
        if len(set(value)) != len(value):
            raise ConfigError(f"Configuration '{name}' values must not be duplicated.")
        for item in value:
            if item == "":
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self._allowed:
                ValidString(*self._allowed).ensure_valid(name, item)

    def __str__(self) -> str:
        return str(ValidString(*self._allowed)) if self._allowed else ""


class NonNull:
    """Required. Source: NonNullValidator."""

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.invalid(name, None, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class NonEmptyString:
    """A non-empty string; may be absent."""

    def ensure_valid(self, name: str, value: Any) -> None:
        if value == "":
            raise ConfigError.invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class NonEmptyStringWithoutControlChars:
    """A non-empty string without control characters; may be absent. Used for connector names."""

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            return
        if value == "":
            raise ConfigError.invalid(name, value, "String may not be empty")
        found = [str(ord(char)) for char in value if unicodedata.category(char) == "Cc"]
        if found:
            message = f"String may not contain control sequences but had the following ASCII chars: {', '.join(found)}"
            raise ConfigError.invalid(name, value, message)

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


class LambdaValidator:
    """A validator from a function and its description."""

    def __init__(self, check: Callable[[str, Any], None], text: str | Callable[[], str]) -> None:
        self._check, self._text = check, text

    @classmethod
    def with_(cls, check: Callable[[str, Any], None], text: str | Callable[[], str]) -> LambdaValidator:
        """Allows values for which `check(name, value)` does not raise ConfigError; `text` describes them."""
        return cls(check, text)

    def ensure_valid(self, name: str, value: Any) -> None:
        self._check(name, value)

    def __str__(self) -> str:
        return self._text if isinstance(self._text, str) else self._text()


class CompositeValidator:
    """Several validators; the first that refuses wins."""

    def __init__(self, *validators: Validator) -> None:
        self._validators = validators

    @classmethod
    def of(cls, *validators: Validator) -> CompositeValidator:
        """Allows what all of these allow."""
        return cls(*validators)

    def ensure_valid(self, name: str, value: Any) -> None:
        for validator in self._validators:
            validator.ensure_valid(name, value)

    def __str__(self) -> str:
        return ", ".join(str(validator) for validator in self._validators)


class ListSize:
    """A list with a maximum size."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items

    @classmethod
    def at_most_of_size(cls, max_items: int) -> ListSize:
        """A list with at most this many entries."""
        return cls(max_items)

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is not None and len(value) > self._max_items:
            raise ConfigError.invalid(name, value, f"exceeds maximum list size of [{self._max_items}].")

    def __str__(self) -> str:
        return f"List containing maximum of {self._max_items} elements"

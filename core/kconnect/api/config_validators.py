"""Validators of ConfigDef. `str(validator)` is the text of Java's, which documentation and REST show."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any, Protocol

from kconnect.errors import ConfigError

__all__ = [
    "CaseInsensitiveValidString",
    "CompositeValidator",
    "LambdaValidator",
    "ListSize",
    "NonEmptyString",
    "NonEmptyStringWithoutControlChars",
    "NonNull",
    "Range",
    "ValidList",
    "ValidString",
    "Validator",
]


class Validator(Protocol):
    """Checks one parsed value. `str()` of it is a short text of what is allowed.

    Called by `ConfigDef.define` for the default, by `parse` and `validate` for each value, on the caller's thread. Must
    not block, and keeps no state: one object serves all.
    """

    def ensure_valid(self, name: str, value: Any) -> None:
        """Raise ConfigError when the value is not allowed. The value is None when it could not be parsed."""
        ...


class Range:
    """A number between bounds, both included."""

    def __init__(self, minimum: float | None, maximum: float | None) -> None:
        self._minimum, self._maximum = minimum, maximum

    @classmethod
    def at_least(cls, minimum: float) -> Range:
        """No less than this."""
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
    """One of a few texts."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = allowed

    @classmethod
    def in_(cls, *allowed: str) -> ValidString:
        """One of these, written just so."""
        return cls(*allowed)

    def ensure_valid(self, name: str, value: Any) -> None:
        if value not in self._allowed:
            raise ConfigError.invalid(name, value, f"String must be one of: {', '.join(self._allowed)}")

    def __str__(self) -> str:
        return f"[{', '.join(self._allowed)}]"


class CaseInsensitiveValidString:
    """One of a few texts, in any case. Differs: lists them in the order given, Java in the order of its hash set."""

    def __init__(self, *allowed: str) -> None:
        self._allowed = tuple(text.upper() for text in allowed)

    @classmethod
    def in_(cls, *allowed: str) -> CaseInsensitiveValidString:
        """One of these, in upper or lower case."""
        return cls(*allowed)

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None or value.upper() not in self._allowed:
            allowed = ", ".join(self._allowed)
            raise ConfigError.invalid(name, value, f"String must be one of (case insensitive): {allowed}")

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(self._allowed)}]"


class ValidList:
    """A list without duplicates and without empty items. `ConfigDef.parse` takes duplicates out before it is asked."""

    def __init__(self, allowed: tuple[str, ...], *, allow_empty: bool, allow_null: bool) -> None:
        self._allowed, self._allow_empty, self._allow_null = allowed, allow_empty, allow_null

    @classmethod
    def in_(cls, *allowed: str, allow_empty: bool = True) -> ValidList:
        """Any selection of these texts."""
        if not allowed and not allow_empty:
            raise ValueError("At least one valid string must be provided when empty values are not allowed")
        return cls(allowed, allow_empty=allow_empty, allow_null=False)

    @classmethod
    def any_non_duplicate_values(cls, allow_empty: bool, allow_null: bool) -> ValidList:
        """Any list whose entries differ."""
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
    """Must be given. Source: NonNullValidator."""

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is None:
            raise ConfigError.invalid(name, None, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class NonEmptyString:
    """A text that is not empty; absence is fine."""

    def ensure_valid(self, name: str, value: Any) -> None:
        if value == "":
            raise ConfigError.invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class NonEmptyStringWithoutControlChars:
    """A text that is not empty and has no control characters; absence is fine. Names of connectors are checked so."""

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
    """A validator made of a function and the text that describes it."""

    def __init__(self, check: Callable[[str, Any], None], text: str | Callable[[], str]) -> None:
        self._check, self._text = check, text

    @classmethod
    def with_(cls, check: Callable[[str, Any], None], text: str | Callable[[], str]) -> LambdaValidator:
        """What `check(name, value)` does not raise ConfigError for; `text` says what that is."""
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
        """What all of these allow."""
        return cls(*validators)

    def ensure_valid(self, name: str, value: Any) -> None:
        for validator in self._validators:
            validator.ensure_valid(name, value)

    def __str__(self) -> str:
        return ", ".join(str(validator) for validator in self._validators)


class ListSize:
    """A list of so many items at most."""

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items

    @classmethod
    def at_most_of_size(cls, max_items: int) -> ListSize:
        """A list of no more entries than that."""
        return cls(max_items)

    def ensure_valid(self, name: str, value: Any) -> None:
        if value is not None and len(value) > self._max_items:
            raise ConfigError.invalid(name, value, f"exceeds maximum list size of [{self._max_items}].")

    def __str__(self) -> str:
        return f"List containing maximum of {self._max_items} elements"

"""Settings in a request's body: texts by name, as Jackson converts JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kconnect.errors import BadRequestError
from kconnect.logs.traces import sendable

CONFIG: Final = 'a JSON object {"key": "value", ..}'
CHANGES: Final = 'a JSON object {"key": "value", "removed key": null, ..}'


def as_texts(config: object) -> dict[str, str | None]:
    """Settings of a body read with `texts=True`: numbers are already texts, booleans become texts here.

    Errors: BadRequestError for any other value except null, and for a name as of `require_readable`.
    """
    if not isinstance(config, Mapping):
        raise BadRequestError(
            f"The connector config must be {CONFIG}, not {'null' if config is None else 'a list or text'}"
        )
    texts: dict[str, str | None] = {}
    for key, value in config.items():
        require_readable("setting", key)
        if isinstance(value, bool):
            value = "true" if value else "false"
        if value is not None and not isinstance(value, str):
            raise BadRequestError(f'The value of "{key}" must be a text, a number or a boolean')
        texts[key] = value
    return texts


def require_readable(what: str, name: str) -> None:
    """Errors: BadRequestError for a name with half a surrogate pair: JSON can carry it, and no worker reads it back."""
    if sendable(name) != name:
        raise BadRequestError(f"The name of the {what} {name!a} has half a surrogate pair")


def without_nulls(texts: Mapping[str, str | None]) -> dict[str, str]:
    """The same, refused if a setting is null.

    Errors: BadRequestError with Java's words of a failed validation.
    Differs: Java takes a null as absent where the connector's own table has the setting, and `name`.
    """
    if any(value is None for value in texts.values()):
        raise BadRequestError(
            "Connector configuration is invalid and contains the following 1 error(s):\n"
            "Null value can not be supplied as the configuration value.\n"
            "You can also find the above list of errors at the endpoint "
            "`/connector-plugins/{connectorType}/config/validate`"
        )
    return {key: value for key, value in texts.items() if value is not None}

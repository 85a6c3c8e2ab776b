"""A connector's config as a form: fields from a plugin's ConfigDef as a worker's validation tells it. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kconnect.client.masks import masked_value
from kconnect.java.compat.properties import strict_properties
from kconnect.logs.log_context import is_secret

PREFIX: Final = "s:"
"""Before the key of a setting in a field's name."""
OTHERS: Final = "others"
"""The field of settings that no plugin declares, as properties."""
_MOST_RECOMMENDED: Final = 500
_GENERAL: Final = "General"
_LINES: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
_IN_KEYS: Final = str.maketrans({**_LINES, " ": "\\ ", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"})
_IN_VALUES: Final = str.maketrans(_LINES)


@dataclass(frozen=True, slots=True)
class Field:
    """One setting. `value` is masked; empty means that it is not set, and `default` applies."""

    key: str
    label: str
    type: str
    value: str
    default: str
    documentation: str
    is_required: bool
    is_main: bool
    """It is set, required, important, or wrong: shown at once."""
    is_secret: bool
    choices: tuple[str, ...]
    errors: tuple[str, ...]

    @property
    def id(self) -> str:
        return field_id(self.key)


@dataclass(frozen=True, slots=True)
class Group:
    """Fields under one heading."""

    title: str
    main: tuple[Field, ...]
    more: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class ConfigForm:
    """The whole form. `shape` is the same while the same settings are declared."""

    groups: tuple[Group, ...]
    others: str
    errors: int
    shape: str

    @property
    def fields(self) -> list[Field]:
        return [field for group in self.groups for field in (*group.main, *group.more)]


def field_id(key: str) -> str:
    """An id for the elements of a setting: keys may have any character."""
    return "f" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:10]


def config_form(validation: Mapping[str, Any], config: Mapping[str, str], live: Mapping[str, str]) -> ConfigForm:
    """The form for a config. `live`: as it is now; its secrets are shown as masks, new ones not at all."""
    rows = [row for row in validation["configs"] if row["value"].get("visible", True) or row["value"]["errors"]]
    fields: dict[str, list[tuple[tuple[int, str], Field]]] = {}
    for row in rows:
        definition = row["definition"]
        group = str(definition.get("group") or _GENERAL)
        field = _field(definition, row["value"], config, live)
        fields.setdefault(group, []).append(((_order(definition), field.key), field))
    declared = {row["definition"]["name"] for row in validation["configs"]}
    groups = [
        _group(title, [field for _, field in sorted(found, key=lambda item: item[0])])
        for title, found in fields.items()
    ]
    return ConfigForm(
        tuple(groups),
        properties_text({key: value for key, value in config.items() if key not in declared}, live),
        int(validation["error_count"]),
        shape_of(rows),
    )


def bare_form(config: Mapping[str, str], live: Mapping[str, str]) -> ConfigForm:
    """All settings as properties: nobody here knows the plugin."""
    return ConfigForm((), properties_text(config, live), 0, "")


def shape_of(rows: Iterable[Mapping[str, Any]]) -> str:
    """The same for the same settings: while it is, only errors need to be shown again."""
    names = json.dumps(sorted(row["definition"]["name"] for row in rows))
    return hashlib.sha256(names.encode()).hexdigest()[:12]


def config_of(form: Sequence[tuple[str, str]], live: Mapping[str, str]) -> dict[str, str]:
    """The settings in a form that was sent; empty ones are not set, unless they are empty now.

    Errors: ConfigError for bad properties, and a key that stands twice.
    """
    others = next((value for key, value in form if key == OTHERS), "")
    found = strict_properties(others, "Other settings")
    sent = {key[len(PREFIX) :]: value for key, value in form if key.startswith(PREFIX)}
    found |= {key: _typed(value, live.get(key, "")) for key, value in sent.items() if value or live.get(key) == ""}
    return found


def _typed(text: str, live: str) -> str:
    """What was typed. Browsers send each end of a line as CR LF: a value is as it was while only those differ."""
    lines = text.replace("\r\n", "\n")
    return live if live.replace("\r\n", "\n").replace("\r", "\n") == lines else lines


def properties_text(config: Mapping[str, str], live: Mapping[str, str]) -> str:
    """Settings as lines of a properties file, without secrets; letters of all languages stay as they are."""
    shown = {key: _shown(key, value, live, is_password=False) for key, value in sorted(config.items())}
    kept = {key: value for key, value in shown.items() if value or not config[key]}
    return "".join(f"{_escaped(key, _IN_KEYS)}={_escaped(value, _IN_VALUES)}\n" for key, value in kept.items())


def setting_changes(
    old: Mapping[str, str], new: Mapping[str, str], passwords: Iterable[str]
) -> list[tuple[str, str | None, str | None]]:
    """Key, value before and after, of each setting that differs, without secrets."""
    hidden = set(passwords)

    def shown(config: Mapping[str, str], key: str) -> str | None:
        return masked_value(key, config[key], key in hidden) if key in config else None

    keys = sorted(key for key in {*old, *new} if old.get(key) != new.get(key) or (key in old) != (key in new))
    return [(key, shown(old, key), shown(new, key)) for key in keys]


def _group(title: str, fields: Sequence[Field]) -> Group:
    return Group(
        title, tuple(field for field in fields if field.is_main), tuple(field for field in fields if not field.is_main)
    )


def _field(
    definition: Mapping[str, Any], seen: Mapping[str, Any], config: Mapping[str, str], live: Mapping[str, str]
) -> Field:
    key, kind = str(definition["name"]), str(definition["type"])
    is_password = kind == "PASSWORD" or is_secret(key)
    errors = tuple(str(error) for error in seen["errors"])
    required, important = bool(definition.get("required")), definition.get("importance") == "HIGH"
    choices = tuple(str(value) for value in seen.get("recommended_values") or ())[:_MOST_RECOMMENDED]
    return Field(
        key=key,
        label=str(definition.get("display_name") or key),
        type=kind,
        value=_shown(key, config.get(key, ""), live, is_password=is_password),
        default=str(definition.get("default_value") or ""),
        documentation=str(definition.get("documentation") or ""),
        is_required=required,
        is_main=required or important or bool(errors) or key in config,
        is_secret=is_password,
        choices=("true", "false") if kind == "BOOLEAN" else choices,
        errors=errors,
    )


def _shown(key: str, value: str, live: Mapping[str, str], *, is_password: bool) -> str:
    """A secret that is in force as a mask; one that was only just typed is in the browser, and is not sent back."""
    masked = masked_value(key, value, is_password)
    return "" if masked != value and live.get(key) != value else masked


def _escaped(text: str, table: Mapping[int, str]) -> str:
    """Also a space at the beginning, which a properties file does not count as part of a value."""
    escaped = text.translate(table)
    return f"\\{escaped}" if escaped.startswith(" ") else escaped


def _order(definition: Mapping[str, Any]) -> int:
    order = definition.get("order_in_group", -1)
    return order if isinstance(order, int) and order >= 0 else 10_000

"""The result of a validation, and its JSON. Source: ConfigInfos, ConfigInfo, ConfigKeyInfo, ConfigValueInfo."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kconnect.api.config_key import ConfigKey, ConfigValue
from kconnect.api.config_parse import ConfigType, convert_to_string
from kconnect.logs.log_context import hide_in_urls


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """One setting: its table row, None if no table has it, and its value, None if none was found."""

    key: ConfigKey | None
    value: ConfigValue | None

    def to_json(self) -> dict[str, Any]:
        return {
            "definition": None if self.key is None else key_info(self.key),
            "value": None if self.value is None else _value_info(self.value, self.key.type if self.key else None),
        }


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """Every setting of one connector with its errors; `name` is `connector.class` as given."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[ConfigInfo, ...]

    def to_json(self) -> dict[str, Any]:
        """The body of `PUT /connector-plugins/X/config/validate`."""
        return {
            "name": self.name,
            "error_count": self.error_count,
            "groups": list(self.groups),
            "configs": [config.to_json() for config in self.configs],
        }

    @property
    def errors(self) -> list[str]:
        """Every message, in the order of the settings."""
        return [message for config in self.configs if config.value for message in config.value.error_messages]


def key_info(key: ConfigKey) -> dict[str, Any]:
    """A row of a table as REST shows it, also in `GET /connector-plugins/X/config`."""
    return {
        "name": key.name,
        "type": key.type.name,
        "required": not key.has_default,
        "default_value": key.default_string,
        "importance": key.importance.name,
        "documentation": key.doc,
        "group": key.group,
        "order_in_group": key.order,
        "width": key.width.name,
        "display_name": key.display_name,
        "dependents": list(key.dependents),
    }


def merged(name: str, parts: Sequence[ConfigInfos]) -> ConfigInfos:
    """Several answers as one, in order, without the passwords of URLs.

    Differs: Java shows URLs as they are.
    """
    return ConfigInfos(
        name=name,
        error_count=sum(part.error_count for part in parts),
        groups=tuple(dict.fromkeys(group for part in parts for group in part.groups)),
        configs=tuple(_without_passwords(config) for part in parts for config in part.configs),
    )


def _without_passwords(info: ConfigInfo) -> ConfigInfo:
    value = info.value
    if value is None:
        return info
    kept = value.value
    if isinstance(kept, str):
        kept = hide_in_urls(kept)
    elif isinstance(kept, list):
        kept = [hide_in_urls(one) if isinstance(one, str) else one for one in kept]
    return replace(
        info, value=replace(value, value=kept, error_messages=[hide_in_urls(text) for text in value.error_messages])
    )


def of_connector(
    name: str, keys: Mapping[str, ConfigKey], values: Sequence[ConfigValue], groups: Sequence[str]
) -> ConfigInfos:
    """Rows with their values; of a setting that two tables have the later value counts. Source: generateResult."""
    configs = [ConfigInfo(None, value) for value in values if value.name not in keys]
    by_name = {value.name: value for value in values}
    configs += [ConfigInfo(key, by_name.get(key.name)) for key in keys.values()]
    count = sum(len(config.value.error_messages) for config in configs if config.value)
    return ConfigInfos(name, count, tuple(groups), tuple(configs))


def with_references(infos: ConfigInfos, raw: Mapping[str, str | None], shown: Callable[[str], str]) -> ConfigInfos:
    """The same result with each value as written, and messages without the values of `${..}`."""

    def as_written(info: ConfigInfo) -> ConfigInfo:
        value = info.value
        if value is None:
            return info
        written = raw.get(value.name)
        kept = value.value
        if written is not None and "${" in written:
            kept = [written] if isinstance(kept, list) else written
        return replace(
            info, value=replace(value, value=kept, error_messages=[shown(text) for text in value.error_messages])
        )

    return replace(infos, configs=tuple(as_written(info) for info in infos.configs))


def _value_info(value: ConfigValue, type: ConfigType | None) -> dict[str, Any]:
    shown = type if type is not None else ConfigType.LIST if isinstance(value.value, list) else ConfigType.STRING
    return {
        "name": value.name,
        "value": convert_to_string(value.value, shown),
        "recommended_values": [convert_to_string(item, ConfigType.STRING) for item in value.recommended_values],
        "errors": list(value.error_messages),
        "visible": value.visible,
    }


def prefixed(prefix: str, keys: Mapping[str, ConfigKey], values: list[ConfigValue]) -> ConfigInfos:
    """Rows of one plugin or client, under the prefix that its settings have in a connector's config.

    All are visible, whatever a recommender says. Source: AbstractHerder.prefixedConfigInfos.
    """
    infos = tuple(
        ConfigInfo(
            replace(keys[value.name], name=prefix + value.name) if value.name in keys else None,
            replace(value, name=prefix + value.name, visible=True),
        )
        for value in values
    )
    groups = dict.fromkeys(info.key.group for info in infos if info.key is not None and info.key.group is not None)
    count = sum(1 for value in values if value.error_messages)
    return ConfigInfos("", count, tuple(groups), infos)

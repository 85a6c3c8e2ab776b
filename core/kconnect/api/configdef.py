"""ConfigDef: a table of settings that parses text, checks it, gives defaults, and describes itself to REST.

One table defines the settings of a connector, transformation, converter or worker: parsing, defaults, the response
of `PUT /connector-plugins/X/config/validate` and the documentation are all derived from it.

    CONFIG = (
        ConfigDef()
        .define("file", ConfigDef.Type.STRING, None, None, ConfigDef.Importance.HIGH, "File to read.")
        .define("batch.size", ConfigDef.Type.INT, 2000, ConfigDef.Range.at_least(1), ConfigDef.Importance.LOW, "...")
    )
    CONFIG.parse({"file": "in.txt"})  # {"file": "in.txt", "batch.size": 2000}
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from kconnect.api.config_key import (
    NO_DEFAULT,
    ConfigKey,
    ConfigValue,
    Importance,
    Recommender,
    Width,
)
from kconnect.api.config_parse import ConfigType, parse_type
from kconnect.api.config_validators import (
    CaseInsensitiveValidString,
    CompositeValidator,
    LambdaValidator,
    ListSize,
    NonEmptyString,
    NonEmptyStringWithoutControlChars,
    NonNull,
    Range,
    Validator,
    ValidList,
    ValidString,
)
from kconnect.errors import ConfigError, ConfigProblem

log = logging.getLogger(__name__)


Check: TypeAlias = Callable[[str, Mapping[str, str | None]], Iterable[ConfigValue]]
"""Checks the settings of a table that is embedded under a prefix: both, and gives the values, with the prefix."""

# Inside the class these names are attributes (ConfigDef.Width), so annotations there need others.
_Importance: TypeAlias = Importance
_Width: TypeAlias = Width


class ConfigDef:
    """A table of settings. Source: o.a.k.common.config.ConfigDef (Kafka 4.3).

    Differs: CLASS values stay names (strings), because the plugin registry finds classes; pass `find_class` to
    `validate` or `parse` to look them up. `validate` keeps the order of definition, Java uses hash order.
    """

    Type = ConfigType
    Importance = _Importance
    Width = _Width
    Range = Range
    ValidString = ValidString
    ValidList = ValidList
    CaseInsensitiveValidString = CaseInsensitiveValidString
    NonNull = NonNull
    NonEmptyString = NonEmptyString
    NonEmptyStringWithoutControlChars = NonEmptyStringWithoutControlChars
    LambdaValidator = LambdaValidator
    CompositeValidator = CompositeValidator
    ListSize = ListSize
    NO_DEFAULT: Final = NO_DEFAULT

    def __init__(self, base: ConfigDef | None = None) -> None:
        self._keys: dict[str, ConfigKey] = dict(base._keys) if base else {}
        self._groups: list[str] = list(base._groups) if base else []
        self._prefixes: tuple[str, ...] = base._prefixes if base else ()
        self._checks: tuple[_Check, ...] = base._checks if base else ()

    @property
    def config_keys(self) -> Mapping[str, ConfigKey]:
        """Every row by name, in the order of definition."""
        return self._keys

    @property
    def groups(self) -> Sequence[str]:
        """Names of the groups, in the order they first appear."""
        return self._groups

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Below these a setting may have any name."""
        return self._prefixes

    def names(self) -> frozenset[str]:
        """The names of all rows."""
        return frozenset(self._keys)

    def default_values(self) -> dict[str, Any]:
        """The parsed defaults of rows that have one."""
        return {key.name: key.default for key in self._keys.values() if key.has_default}

    def define(
        self,
        name: str,
        type: ConfigType,
        default: Any = NO_DEFAULT,  # any type that the setting's own type parses
        validator: Validator | None = None,
        importance: _Importance = _Importance.MEDIUM,
        doc: str = "",
        *,
        group: str | None = None,
        order: int = -1,
        width: _Width = _Width.NONE,
        display_name: str | None = None,
        dependents: Sequence[str] = (),
        recommender: Recommender | None = None,
        internal: bool = False,
    ) -> ConfigDef:
        """Add a row and return the table, so that calls chain. A setting without a default is required."""
        parsed = default
        if default is not NO_DEFAULT:
            parsed = parse_type(name, default, type)
            if validator is not None:
                validator.ensure_valid(name, parsed)
        return self.define_key(
            ConfigKey(
                name=name,
                type=type,
                default=parsed,
                validator=validator,
                importance=importance,
                doc=doc,
                group=group,
                order=order,
                width=width,
                display_name=name if display_name is None else display_name,
                dependents=tuple(dependents),
                recommender=recommender,
                internal=internal,
            )
        )

    def define_internal(
        self,
        name: str,
        type: ConfigType,
        default: Any,  # as in define
        validator: Validator | None,
        importance: _Importance,
        doc: str = "",
    ) -> ConfigDef:
        """Add a row that documentation omits."""
        return self.define(name, type, default, validator, importance, doc, group="", internal=True)

    def define_key(self, key: ConfigKey) -> ConfigDef:
        """Add an existing row. Errors: ConfigError if the name is taken."""
        if key.name in self._keys:
            raise ConfigError(f"Configuration {key.name} is defined twice.")
        if key.group is not None and key.group not in self._groups:
            self._groups.append(key.group)
        self._keys[key.name] = key
        return self

    def define_prefix(self, prefix: str) -> ConfigDef:
        """Allow settings of any name below a prefix, such as `spark.options.`: the worker does not warn of them.

        Differs: Java's table has none, for Java's worker warns of no setting.
        """
        self._prefixes = (*self._prefixes, prefix)
        return self

    def check_with(self, check: Check) -> ConfigDef:
        """Have `validate` ask somebody else about all rows that this table has now, as Java about its plugins'."""
        self._checks = (*self._checks, _Check("", frozenset(self._keys), check))
        return self

    def without(self, *names: str) -> ConfigDef:
        """The same table without some rows."""
        made = ConfigDef(self)
        for name in names:
            made._keys.pop(name, None)
        made._checks = tuple(replace(check, names=check.names.difference(names)) for check in self._checks)
        return made

    def embed(self, key_prefix: str, group_prefix: str, starting_order: int, child: ConfigDef) -> None:
        """Add the rows of another table under a prefix, such as a transformation's under `transforms.X.`."""
        order = starting_order
        for key in child.sorted_keys():
            self.define_key(
                replace(
                    key,
                    name=key_prefix + key.name,
                    validator=None if key.validator is None else _EmbeddedValidator(key_prefix, key.validator),
                    group=group_prefix + (f": {key.group}" if key.group is not None else ""),
                    order=order,
                    dependents=tuple(key_prefix + name for name in key.dependents),
                    recommender=None if key.recommender is None else _EmbeddedRecommender(key_prefix, key.recommender),
                )
            )
            order += 1
        for check in child._checks:
            names = frozenset(key_prefix + name for name in check.names)
            self._checks = (*self._checks, _Check(key_prefix + check.prefix, names, check.ask))

    def sorted_keys(self) -> list[ConfigKey]:
        """Rows as documentation lists them: by group, order in it, required first, importance, name."""
        groups = {group: index for index, group in enumerate(self._groups)}
        ranks = list(_Importance)
        return sorted(
            self._keys.values(),
            key=lambda key: (
                -1 if key.group is None else groups[key.group],
                key.order,
                key.has_default,
                ranks.index(key.importance),
                key.name,
            ),
        )

    def parse(self, props: Mapping[str, Any], find_class: Callable[[str], object] | None = None) -> dict[str, Any]:
        """The typed values of all rows. Errors: ConfigError at the first missing or invalid one, as in Java."""
        undefined = self._undefined_dependents()
        if undefined:
            joined = ",".join(undefined)
            raise ConfigError(
                f"Some configurations in are referred in the dependents, but not defined: {joined}",
                hint="Define each of them, or take them out of the dependents.",
            )
        return {key.name: _parse_value(key, props, find_class) for key in self._keys.values()}

    def validate(
        self, props: Mapping[str, str | None], find_class: Callable[[str], object] | None = None
    ) -> list[ConfigValue]:
        """Every row with its value, errors and suggested values; never raises for an invalid setting."""
        return list(self.validate_all(props, find_class).values())

    def validate_all(
        self, props: Mapping[str, str | None], find_class: Callable[[str], object] | None = None
    ) -> dict[str, ConfigValue]:
        """Like `validate`, by name."""
        values = {name: ConfigValue(name) for name in self._keys}
        for name in self._undefined_dependents():
            message = f"{name} is referred in the dependents, but not defined."
            values[name] = ConfigValue(name, error_messages=[message], visible=False)
        elsewhere = self._checked_elsewhere(props)
        values.update(elsewhere)
        parsed: dict[str, Any] = {name: value.value for name, value in elsewhere.items()}
        top = [name for name in self._names_without_parent() if name not in elsewhere]
        for name in top:
            self._parse_for_validate(name, props, parsed, values, find_class)
        for name in top:
            self._recommend(name, parsed, values)
        return values

    def _checked_elsewhere(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        found = {}
        for check in self._checks:
            own = {name: text for name, text in props.items() if name.startswith(check.prefix)}
            for value in check.ask(check.prefix, own) if check.names else ():
                if value.name in check.names or value.name not in self._keys:
                    found[value.name] = value
        return found

    def _parse_for_validate(
        self,
        name: str,
        props: Mapping[str, str | None],
        parsed: dict[str, Any],
        values: dict[str, ConfigValue],
        find_class: Callable[[str], object] | None,
    ) -> None:
        key = self._keys.get(name)
        if key is None:
            return
        config, value = values[name], None
        if name in props:
            try:
                value = parse_type(name, props[name], key.type, find_class)
            except ConfigError as err:
                config.add_error_message(str(err))
        elif key.default is NO_DEFAULT:
            config.add_error_message(_missing(name))
        else:
            value = key.default
        if key.validator is not None:
            try:
                key.validator.ensure_valid(name, value)
            except ConfigError as err:
                config.add_error_message(str(err))
        config.value = value
        parsed[name] = value
        for dependent in key.dependents:
            self._parse_for_validate(dependent, props, parsed, values, find_class)

    def _recommend(self, name: str, parsed: Mapping[str, Any], values: dict[str, ConfigValue]) -> None:
        key = self._keys.get(name)
        if key is None:
            return
        value = values[name]
        if key.recommender is not None:
            try:
                offered = key.recommender.valid_values(name, parsed)
                if value.recommended_values:
                    offered = [item for item in offered if item in value.recommended_values]
                value.recommended_values = offered
                value.visible = key.recommender.visible(name, parsed)
            except ConfigError as err:
                value.add_error_message(str(err))
        for dependent in key.dependents:
            self._recommend(dependent, parsed, values)

    def _undefined_dependents(self) -> list[str]:
        named = (name for key in self._keys.values() for name in key.dependents)
        return [name for name in dict.fromkeys(named) if name not in self._keys]

    def _names_without_parent(self) -> list[str]:
        children = {name for key in self._keys.values() for name in key.dependents}
        return [name for name in self._keys if name not in children]


def _parse_value(key: ConfigKey, props: Mapping[str, Any], find_class: Callable[[str], object] | None) -> Any:
    if key.name in props:
        value = parse_type(key.name, props[key.name], key.type, find_class)
    elif key.default is NO_DEFAULT:
        raise ConfigError(_missing(key.name), [ConfigProblem(key.name, None, _missing(key.name))])
    else:
        value = key.default
    if isinstance(key.validator, ValidList) and isinstance(value, list):
        once = list(dict.fromkeys(value))
        if len(once) != len(value):
            log.warning(
                'Configuration key "%s" contains duplicate values. Duplicates will be removed. '
                "The original value is: %s, the updated value is: %s",
                key.name,
                value,
                once,
            )
            value = once
    if key.validator is not None:
        key.validator.ensure_valid(key.name, value)
    return value


def _missing(name: str) -> str:
    return f'Missing required configuration "{name}" which has no default value.'


@dataclass(frozen=True, slots=True)
class _Check:
    prefix: str
    names: frozenset[str]
    ask: Check


@dataclass(frozen=True, slots=True)
class _EmbeddedValidator:
    prefix: str
    child: Validator

    def ensure_valid(self, name: str, value: Any) -> None:
        self.child.ensure_valid(name.removeprefix(self.prefix), value)

    def __str__(self) -> str:
        return str(self.child)


@dataclass(frozen=True, slots=True)
class _EmbeddedRecommender:
    prefix: str
    child: Recommender

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return self.child.valid_values(*self._inside(name, parsed))

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self.child.visible(*self._inside(name, parsed))

    def _inside(self, name: str, parsed: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        own = {key.removeprefix(self.prefix): value for key, value in parsed.items() if key.startswith(self.prefix)}
        return name.removeprefix(self.prefix), own

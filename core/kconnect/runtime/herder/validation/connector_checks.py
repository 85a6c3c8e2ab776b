"""Checks a connector's config before anything is stored: for REST's validate, and to refuse a bad create.

No thread, no socket: a plugin registry and settings in, a report out. The connector's own `validate` may block.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.api import (
    ConnectorClientConfigOverridePolicy,
    ConnectorTransactionBoundaries,
    ExactlyOnceSupport,
    SourceConnector,
)
from kconnect.api.config_key import Config, ConfigKey, ConfigValue
from kconnect.api.configdef import ConfigDef
from kconnect.api.topic_names import topic_name_problem, topic_renaming
from kconnect.builtin.types.declarations import declarations, without_taken
from kconnect.errors import BadRequestError, ConfigError, ConfigProblem, ConnectError, NotFoundError
from kconnect.files.guarded import guarded_in
from kconnect.java.compat.maven_version_range import VersionRange
from kconnect.java.plugins import Hosted
from kconnect.logs import redaction
from kconnect.logs.log_context import log_context, mask
from kconnect.runtime.config.connector_config import sink_problems, source_dead_letter_problems
from kconnect.runtime.config.connector_keys import CONNECTOR_CONFIG, DEAD_LETTER_KEYS, SINK_CONFIG, SOURCE_CONFIG
from kconnect.runtime.config.exactly_once_settings import is_distributed, is_exactly_once
from kconnect.runtime.config.label_keys import label_problems
from kconnect.runtime.config.misspelt import is_surely_unknown, misspelt_settings, unknown_settings
from kconnect.runtime.config.own_worker_keys import OWN_OF_CONNECTORS, READ_AS_WRITTEN
from kconnect.runtime.config.removed_settings import removed_problems
from kconnect.runtime.config.restart_keys import restart_problems
from kconnect.runtime.config.slot_keys import slot_problems
from kconnect.runtime.config.variables import Variables, secret_values, unresolved_problems
from kconnect.runtime.herder.validation.client_checks import ClientChecks, installed_has_kerberos
from kconnect.runtime.herder.validation.config_infos import (
    ConfigInfos,
    merged,
    of_connector,
    prefixed,
    with_references,
)
from kconnect.runtime.herder.validation.plugin_keys import (
    PluginFinder,
    any_plugin,
    enriched,
    instance_of,
    refusing_other_kinds,
    suggest_nearest,
    with_full_names,
)
from kconnect.runtime.plugins.connector_answers import checked_config, checked_definition

log = logging.getLogger(__name__)

# Settings of other plugins, which have their own tables
_PLUGIN_PREFIXES: Final = ("transforms.", "predicates.", "key.converter", "value.converter", "header.converter")
# These belong to clients, topics and converters, and are checked, or cause warnings, there
_FREE_PREFIXES: Final = (
    *("admin.override.", "consumer.override.", "producer.override.", "topic.creation."),
    *("header.converter.", "key.converter.", "value.converter."),
)
_VERSION: Final = "connector.plugin.version"
_OWN_OFFSETS: Final = "offsets.storage.topic"
_GROUP_OVERRIDE: Final = "consumer.override.group.id"
_DLQ: Final = "errors.deadletterqueue.topic.name"


class InvalidConnectorError(BadRequestError):
    """A connector's config has errors; the message lists them as Java's REST does."""

    def __init__(self, message: str, problems: tuple[ConfigProblem, ...], *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.problems = problems


def raise_for_errors(props: Mapping[str, str | None], infos: ConfigInfos) -> None:
    """Errors: InvalidConnectorError with Java's message, if the validation of `props` found any."""
    if infos.error_count == 0:
        return
    lines = "\n".join(infos.errors)
    problems = tuple(
        ConfigProblem(config.value.name, props.get(config.value.name), message)
        for config in infos.configs
        if config.value
        for message in config.value.error_messages
    )
    raise InvalidConnectorError(
        f"Connector configuration is invalid and contains the following {infos.error_count} error(s):\n{lines}\n"
        "You can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`",
        problems,
    )


@dataclass(frozen=True, slots=True)
class ConnectorValidator:
    """Validates connector configs against the plugins and settings of one worker.

    Source: AbstractHerder.validateConnectorConfig, maybeAddConfigErrors (Kafka 4.3).
    Differs: a client override that is not a number is an error of that setting, where Java answers 500; so is GSSAPI if
    the installed librdkafka lacks it.
    """

    plugins: PluginFinder
    worker: Mapping[str, str]
    variables: Variables = field(default_factory=Variables)
    warned: set[tuple[str, str]] = field(default_factory=set, repr=False)
    """Connectors and their unknown settings that were warned of; no lock: one warned of twice does no harm."""
    policy: ConnectorClientConfigOverridePolicy | None = None
    """Which overrides are allowed; None: as the worker's settings say, by an included policy."""
    has_kerberos: Callable[[], bool] = field(default=installed_has_kerberos, repr=False)
    """Whether clients can log in by GSSAPI; called only if a connector wants it."""

    def validate(self, props: Mapping[str, str | None], *, offers: bool = True) -> ConfigInfos:
        """Every setting with its value, errors and recommended values; references are checked by their values.

        Without `offers` no plugins are recommended: to list Java's may take a JVM.

        Log lines meanwhile begin with `[name|validate]`.

        Errors: as `_validate`; ConfigError for a reference to a missing value.
        Differs: values and messages show `${..}` as written, where Java shows the resolved value.
        """
        with log_context(props.get("name"), stage="validate"):
            return self._validate_by_values(props, offers)

    def _validate_by_values(self, props: Mapping[str, str | None], offers: bool) -> ConfigInfos:
        given: Mapping[str, Any] = props  # None is passed on
        resolved = self.variables.resolve(given, f"connector {props.get('name') or '(without name)'}")
        owner = f"validation of {props.get('name')}"
        passwords = self.plugins.password_keys(resolved.values)
        redaction.remember(owner, {*secret_values(resolved.values, passwords), *resolved.references})
        try:
            named = [*self.variables.secrets_in_names(props), *unresolved_problems(props, READ_AS_WRITTEN)]
            infos = self._validate(resolved.values if resolved.references else props, named, offers)
        except ConnectError as err:
            shown = resolved.shown(str(err))
            raise (BadRequestError(shown, hint=err.hint) if shown != str(err) else err) from err
        finally:
            redaction.forget(owner)
        return with_references(infos, props, resolved.shown) if resolved.references else infos

    def _validate(self, props: Mapping[str, str | None], named: Sequence[tuple[str, str]], offers: bool) -> ConfigInfos:
        """Every setting with its value, errors and recommended values; `named` are errors that are known already.

        Errors: BadRequestError when there is no `connector.class`, or it does not exist; what the connector's own
        `validate` raises goes through.
        """
        name = props.get("connector.class")
        if name is None:
            shown = ", ".join(f"{key}={'null' if value is None else value}" for key, value in mask(props).items())
            message = f"Connector config {{{shown}}} contains no connector type"
            raise InvalidConnectorError(message, (ConfigProblem("connector.class", None, message),))
        connector = self._connector(name, props.get(_VERSION))
        if refused := self._other_version(name, connector, props):
            return refused
        given: dict[str, str] = {key: value for key, value in props.items() if value is not None}
        is_source = isinstance(connector, SourceConnector)
        described = self.plugins.describe() if offers else ()
        table = enriched(SOURCE_CONFIG if is_source else SINK_CONFIG, props, self.plugins, self.worker, described)
        values = table.validate_all(props, lambda plugin: any_plugin(self.plugins, plugin))
        suggest_nearest(values.values(), props, self.plugins)
        with_full_names(values.values(), self.plugins)
        for key, message in source_dead_letter_problems(props) if is_source else sink_problems(props):
            values.setdefault(key, ConfigValue(key, props.get(key))).add_error_message(message)
        own_problems = (
            *restart_problems(props),
            *slot_problems(props),
            *label_problems(props),
            *removed_problems(props),
        )
        for key, message in own_problems:
            values.setdefault(key, ConfigValue(key, props.get(key))).add_error_message(message)
        if is_distributed(self.worker):
            if is_source:
                check_exactly_once(connector, given, values, is_on=is_exactly_once(self.worker))
            else:
                _check_worker_group(given, values, self.worker.get("group.id", ""))
        for key in [key for key, value in props.items() if value is None]:
            message = "Null value can not be supplied as the configuration value."
            values.setdefault(key, ConfigValue(key)).add_error_message(message)
        # They add errors to Connect's own rows, and so come first
        converters = [
            self._converter(given, values, key, label, type(connector))
            for key, label in (
                ("header.converter", "header converter"),
                ("key.converter", "key converter"),
                ("value.converter", "value converter"),
            )
        ]
        named = (*named, *_guarded_problems(given), *_topic_problems(given, connector))
        parts = [self._own(name, connector, props, table, list(values.values()), named)]
        parts += ClientChecks(self.plugins, self.worker, self.policy, self.has_kerberos).infos(given, is_source)
        parts += converters
        return merged(name, parts)

    def raise_if_invalid(self, props: Mapping[str, str | None]) -> None:
        """Refuse a config that has errors, and warn of unknown settings. Errors: as `validate`, `raise_for_errors`."""
        infos = self.validate(props, offers=False)
        raise_for_errors(props, infos)
        self._warn_of_unknown_keys(props, infos)

    def _warn_of_unknown_keys(self, props: Mapping[str, str | None], infos: ConfigInfos) -> None:
        """Warn once about each setting that neither Connect nor the connector lists: most are misspelt.

        A connector without any table may read any setting, and so may one of Java's, whose clients and drivers take
        more than it lists: only those that look misspelt cause a warning.
        Differs: Java does not warn.
        """
        known = {
            *OWN_OF_CONNECTORS,
            *DEAD_LETTER_KEYS,
            *(info.key.name for info in infos.configs if info.key is not None),
        }
        meant, reported = misspelt_settings(props, known), unknown_settings(props, known)
        own = known - {*OWN_OF_CONNECTORS, *SOURCE_CONFIG.config_keys, *SINK_CONFIG.config_keys}
        table = self._own_table(props)
        has_table = table is not None and any(not name.startswith(_PLUGIN_PREFIXES) for name in own)
        free = (*_FREE_PREFIXES, *(table.prefixes if table else ()))
        name = props.get("name") or ""
        for key in props:
            is_suspect = key in meant or (has_table and not key.startswith(free))
            is_suspect = is_suspect or (key in reported and is_surely_unknown(key))
            if key in known or not is_suspect or (name, key) in self.warned:
                continue
            self.warned.add((name, key))
            suggestion = f" Did you mean {meant[key]}?" if key in meant else ""
            if "has no effect" in reported.get(key, ""):
                log.warning("Connector %s: %s.", name, reported[key])
            else:
                log.warning("Unknown setting of connector %s: %s.%s", name, key, suggestion)

    def _own_table(self, props: Mapping[str, str | None]) -> ConfigDef | None:
        """The connector's table of settings; None for one of Java's, or where a reference names the class."""
        try:
            found = self.plugins.connector_class(props.get("connector.class") or "", props.get(_VERSION))
        except ConfigError:
            return None
        return None if issubclass(found, Hosted) else instance_of(found).config()

    def _connector(self, name: str, version: str | None) -> Any:  # a Connector
        try:
            plugin_class = self.plugins.connector_class(name, version)
        except (ConfigError, NotFoundError) as err:
            shorter = err.problems[0].message if isinstance(err, ConfigError) and err.problems else str(err)
            problem = ConfigProblem("connector.class", name, shorter)
            close = self.plugins.nearest(name, "source", "sink")
            # REST shows no hints: the suggestion follows Java's list of all settings
            meant = f" Did you mean {' or '.join(close)}?" if close else ""
            raise InvalidConnectorError(f"{err}{meant}", (problem,), hint=err.hint) from err
        return instance_of(plugin_class)

    def _other_version(self, name: str, connector: Any, props: Mapping[str, str | None]) -> ConfigInfos | None:
        """The answer for a connector that is not installed in the required version: only Connect's own settings.

        None if it is installed. Errors: BadRequestError for an invalid version. Source:
        AbstractHerder.validateConnectorConfig.
        Differs: Java answers 500 with the text of a NullPointerException when it is asked for that version again.
        """
        wanted = props.get(_VERSION)
        try:
            if wanted is not None:
                VersionRange.parse(wanted)
        except ConfigError as err:
            raise BadRequestError(str(err), hint=err.hint) from err
        try:
            self.plugins.require_version(connector, wanted)
        except ConfigError as err:
            table = refusing_other_kinds(CONNECTOR_CONFIG, self.plugins)
            values = table.validate_all(props, lambda plugin: any_plugin(self.plugins, plugin))
            with_full_names(values.values(), self.plugins)
            for key in ("connector.class", _VERSION):
                values[key].add_error_message(str(err))
            values[_VERSION].recommended_values = list(self.plugins.versions(type(connector)))
            for key in ("key.converter", "value.converter", "header.converter"):
                values[f"{key}.plugin.version"].visible = key in props
            return of_connector(name, CONNECTOR_CONFIG.config_keys, list(values.values()), CONNECTOR_CONFIG.groups)
        return None

    def _own(
        self,
        name: str,
        connector: Any,  # a Connector
        props: Mapping[str, str | None],
        table: ConfigDef,
        values: list[ConfigValue],
        named: Sequence[tuple[str, str]],
    ) -> ConfigInfos:
        """Connect's own settings and those of the connector, as its `validate` sees them, with the errors `named`."""
        definition = checked_definition(connector, connector.config())
        config = checked_config(connector, connector.validate(props))
        given = {key: value for key, value in props.items() if value is not None}
        declared = _declared_problems(without_taken(given, definition), connector)
        _add_errors((*declared, *named), given, values, config)
        keys: dict[str, ConfigKey] = {**table.config_keys, **definition.config_keys}
        groups = list(dict.fromkeys([*table.groups, *definition.groups]))
        listed = {value.name for value in (*values, *config.config_values)}
        # Names that its user chooses have no row: whoever reads the answer learns that they are none of a typo
        free = {key: text for key, text in props.items() if text and key.startswith(tuple(definition.prefixes))}
        chosen = [ConfigValue(key, text) for key, text in mask(free).items() if key not in listed]
        return of_connector(name, keys, [*values, *config.config_values, *chosen], groups)

    def _converter(
        self,
        props: Mapping[str, str],
        values: Mapping[str, ConfigValue],
        key: str,
        label: str,
        beside: type[Any],  # the connector
    ) -> ConfigInfos:
        """Settings of a converter that the connector names itself; nothing when the class is wrong already."""
        nothing = ConfigInfos("", 0, (), ())
        if key not in props or values[key].error_messages:
            return nothing
        find = self.plugins.header_converter if key == "header.converter" else self.plugins.converter
        try:
            plugin = instance_of(find(props[key], props.get(f"{key}.plugin.version"), beside))
            if not self._is_wanted(plugin, props, values, key):
                return nothing
            table = plugin.config()
        except Exception as err:  # a plugin may raise anything from its constructor or config()
            log.warning("Failed to load ConfigDef from %s of type %s", label, props[key], exc_info=True)
            values[key].add_error_message(f"Failed to load ConfigDef from {label}: {err}")
            return nothing
        if table is None:
            log.warning("%s.config() has returned no ConfigDef; its settings are not checked", props[key])
            return nothing
        prefix = f"{key}."
        own = {name.removeprefix(prefix): value for name, value in props.items() if name.startswith(prefix)}
        try:
            found = table.validate({"converter.type": key.removesuffix(".converter"), **own})
        except Exception as err:  # of a validator or recommender of the plugin
            log.warning("Failed to perform config validation for %s of type %s", label, props[key], exc_info=True)
            values[key].add_error_message(f"Failed to perform config validation for {label}: {err}")
            return nothing
        return prefixed(prefix, table.config_keys, found)

    def _is_wanted(self, plugin: Any, props: Mapping[str, str], values: Mapping[str, ConfigValue], key: str) -> bool:
        """Check that the plugin of a setting has the requested version; if not, both settings get an error."""
        version = f"{key}.plugin.version"
        if values[version].error_messages:  # an invalid version is reported already
            return False
        try:
            self.plugins.require_version(plugin, props.get(version))
        except ConfigError as err:
            for name in (key, version):
                values[name].add_error_message(str(err))
            return False
        return True


def _declared_problems(props: Mapping[str, str], connector: Any) -> Sequence[tuple[str, str]]:
    """What is wrong with declared schemas, which any connector may have."""
    is_sink = not isinstance(connector, SourceConnector)
    if not declarations(props, is_sink=is_sink):
        return ()
    from kconnect.builtin.types.declared import problems  # here: it reads Arrow's types, and few connectors declare any

    return tuple(problems(props, is_sink=is_sink))


def _add_errors(
    errors: Sequence[tuple[str, str]], props: Mapping[str, str], values: Sequence[ConfigValue], config: Config
) -> None:
    """Adds messages to the rows of their settings, of which the connector's count where Connect has one too."""
    rows = {value.name: value for value in (*values, *config.config_values)}
    for key, message in errors:
        if key not in rows:
            config.config_values.append(rows.setdefault(key, ConfigValue(key, props.get(key))))
        rows[key].add_error_message(message)


def _topic_problems(props: Mapping[str, str], connector: Any) -> Iterator[tuple[str, str]]:
    """Names in settings that no topic can have: pairs of setting and message.

    The `topic` of an included source is looked at where nothing may rename it.
    Differs: Java takes them, and the task fails at its first record.
    """
    keys = {_DEAD_LETTERS: [props.get(_DEAD_LETTERS, "").strip()]}
    if not isinstance(connector, SourceConnector):
        keys["topics"] = [name.strip() for name in props.get("topics", "").split(",")]
    elif type(connector).__module__.startswith(_INCLUDED) and not props.get("transforms", "").strip():
        keys["topic"] = [props.get("topic", "").strip()]
    for key, names in keys.items():
        for name in names:
            is_known = name and "${" not in name  # a reference that nobody resolves stays what it is
            if is_known and (problem := topic_name_problem(name)):
                advice = f". To rename it: {topic_renaming(name)}" if key == "topic" else ""
                yield key, f"{key}: {problem}{advice}"


def _check_worker_group(props: Mapping[str, str], values: dict[str, ConfigValue], worker_group: str) -> None:
    """A sink whose consumer group is the workers' own group would break both: an error, with Java's message.

    Source: DistributedHerder#validateSinkConnectorGroupId (Kafka 4.3).
    """
    group = props.get(_GROUP_OVERRIDE)
    if group:
        value, whose = values.setdefault(_GROUP_OVERRIDE, ConfigValue(_GROUP_OVERRIDE, group)), group
    else:
        name = props.get("name", "")
        group, value, whose = f"connect-{name}", values["name"], f"for sink connector named {name}"
    if group == worker_group:
        value.add_error_message(f"Consumer group {whose} conflicts with Connect worker group {worker_group}")


_DEAD_LETTERS, _INCLUDED = "errors.deadletterqueue.topic.name", "kconnect.builtin."
_SUPPORT, _BOUNDARY = "exactly.once.support", "transaction.boundary"


def check_exactly_once(
    connector: SourceConnector, props: Mapping[str, str], values: Mapping[str, ConfigValue], *, is_on: bool
) -> None:
    """Add errors to the two settings. `is_on`: the worker has exactly-once support. May block: it calls the plugin."""
    support, boundary = values[_SUPPORT], values[_BOUNDARY]
    if not support.error_messages and _text(support) == "required":
        if not is_on:
            support.add_error_message("This worker does not have exactly-once source support enabled.")
        _add_problem(
            support, "connector support for exactly-once semantics", lambda: _support_problem(connector, props)
        )
    if not boundary.error_messages and _text(boundary) == "connector":
        _add_problem(
            boundary,
            "connector support for defining its own transaction boundaries",
            lambda: _boundary_problem(connector, props),
        )


def _text(value: ConfigValue) -> str:
    return str(value.value).strip().lower()


def _add_problem(value: ConfigValue, about: str, problem_of: Callable[[], str | None]) -> None:
    try:
        problem = problem_of()
    except Exception as error:  # a plugin call
        log.exception("Failed while validating %s", about)
        reason = str(error).strip()
        problem = "An unexpected error occurred during validation"
        problem += f": {reason}" if reason else "; please see the worker logs for more details."
    if problem is not None:
        value.add_error_message(problem)


def _support_problem(connector: SourceConnector, props: Mapping[str, str]) -> str | None:
    match connector.exactly_once_support(props):
        case ExactlyOnceSupport.SUPPORTED:
            return None
        case ExactlyOnceSupport.UNSUPPORTED:
            return "The connector does not support exactly-once semantics with the provided configuration."
        case None:
            return (
                "The connector does not implement the API required for preflight validation of exactly-once source "
                "support. Please consult the documentation for the connector to determine whether it supports "
                'exactly-once semantics, and then consider reconfiguring the connector to use the value "requested" '
                "for this property (which will disable this preflight check and allow the connector to be created)."
            )
        case other:
            raise TypeError(f"Unexpected value returned from SourceConnector.exactly_once_support: {other}")


def _boundary_problem(connector: SourceConnector, props: Mapping[str, str]) -> str | None:
    given: object = connector.can_define_transaction_boundaries(props)
    if given is None:
        return (
            "This connector has returned a null value from its canDefineTransactionBoundaries method, which is not "
            "permitted. The connector will be treated as if it cannot define its own transaction boundaries, and "
            "cannot be configured with 'transaction.boundary' set to 'connector'."
        )
    if given is not ConnectorTransactionBoundaries.SUPPORTED:
        return (
            "The connector does not support connector-defined transaction boundaries with the given configuration. "
            "Please reconfigure it to use a different transaction boundary definition."
        )
    return None


def _guarded_problems(props: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Settings that name a file of the worker's security, whatever the connector does with files."""
    for key, value in props.items():
        if (file := guarded_in(value)) is not None:
            yield key, f"{file} is a file of the worker's security, which no connector reads or writes"

"""Settings that Connect itself reads from a connector's config. Source: ConnectorConfig and its two subclasses."""

from __future__ import annotations

import re
from typing import Any, Final, TypeAlias

from kconnect.api.config_key import NO_DEFAULT, Importance, Width
from kconnect.api.config_parse import ConfigType
from kconnect.api.config_validators import Validator
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.java.compat.maven_version_range import VersionRange
from kconnect.java.compat.regex import compile_java
from kconnect.runtime.config.distributed_keys import PARTITIONS, REPLICATION_FACTOR

_T: Final = ConfigType
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_SHORT, _MID, _LONG = Width.SHORT, Width.MEDIUM, Width.LONG
_COMMON, _ERRORS, _CREATION, _EXACTLY = "Common", "Error Handling", "Topic Creation", "Exactly Once Support"

# Name, type, default, validator, importance, text, group, order in group, width, label. Default: what the type parses.
FormRow: TypeAlias = tuple[
    str, ConfigType, Any, Validator | None, Importance, str, str, int, Width, str
]  # fmt: skip


def _unique(what: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is not None and len(set(value)) < len(value):
            raise ConfigError.invalid(name, value, "Duplicate alias provided.")

    return ConfigDef.CompositeValidator(ConfigDef.NonNull(), ConfigDef.LambdaValidator(check, what))


def _check_version(name: str, value: Any) -> None:
    """A version such as 1.2, or a range such as [1.0,2.0). Errors: ConfigError with Maven's message."""
    if value is not None:
        VersionRange.parse(value)


def _check_regex(name: str, value: Any) -> None:
    if value is None:
        return
    try:
        compile_java(value)
    except re.error as err:
        raise ConfigError.invalid(name, value, f"Invalid regex: {err.msg}") from err


def _refuse_negative(name: str, value: Any) -> None:
    if value is not None:
        ConfigDef.Range.at_least(0).ensure_valid(name, value)


VALID_REGEX: Final = ConfigDef.LambdaValidator(_check_regex, "valid regex")
_PLUGIN_VERSION: Final = ConfigDef.LambdaValidator(_check_version, "a version or range of versions")
_A_CONVERTER: Final = (
    "A concrete subclass of org.apache.kafka.connect.storage.{}, A class with a public, no-argument constructor"
)


def _accept_class(name: str, value: Any) -> None:
    """The registry knows which classes exist: validation of a connector adds that check."""


_CONVERTER: Final = ConfigDef.LambdaValidator(_accept_class, _A_CONVERTER.format("Converter"))
_HEADER_CONVERTER: Final = ConfigDef.LambdaValidator(_accept_class, _A_CONVERTER.format("HeaderConverter"))


def _table(base: ConfigDef | None, *rows: FormRow) -> ConfigDef:
    table = ConfigDef(base)
    for name, type, default, validator, importance, doc, group, order, width, display_name in rows:
        table.define(
            name, type, default, validator, importance, doc,
            group=group, order=order, width=width, display_name=display_name,
        )  # fmt: skip
    return table


def _version_of(prefix: str, order: int, label: str, importance: Importance, width: Width) -> FormRow:
    doc = f"Version of the {label.lower()} to use; the newest if not given."
    name = f"{prefix}.plugin.version"
    return (name, _T.STRING, None, _PLUGIN_VERSION, importance, doc, _COMMON, order, width, f"{label} version")


# fmt: off
CONNECTOR_CONFIG: Final = _table(
    None,
    ("name", _T.STRING, NO_DEFAULT, ConfigDef.NonEmptyStringWithoutControlChars(), _HIGH,
     "Name of the connector, the only one of this name in the cluster.", _COMMON, 1, _MID, "Connector name"),
    ("connector.class", _T.STRING, NO_DEFAULT, None, _HIGH,
     "Which connector: its class name, Java's class name, or the short name without Connector.",
     _COMMON, 2, _LONG, "Connector class"),
    _version_of("connector", 3, "Connector", _MEDIUM, _MID),
    ("tasks.max", _T.INT, 1, ConfigDef.Range.at_least(1), _HIGH,
     "How many tasks the connector may have at most.", _COMMON, 4, _SHORT, "Tasks max"),
    ("tasks.max.enforce", _T.BOOLEAN, True, None, _LOW,
     "Whether a connector that makes more tasks than it may is failed, or only warned about.",
     _COMMON, 5, _SHORT, "Enforce tasks max"),
    ("key.converter", _T.CLASS, None, _CONVERTER, _LOW,
     "Class that turns record keys into bytes and back; the worker's if not given.",
     _COMMON, 6, _SHORT, "Key converter class"),
    _version_of("key.converter", 7, "Key converter", _LOW, _SHORT),
    ("value.converter", _T.CLASS, None, _CONVERTER, _LOW,
     "Class that turns record values into bytes and back; the worker's if not given.",
     _COMMON, 8, _SHORT, "Value converter class"),
    _version_of("value.converter", 9, "Value converter", _LOW, _SHORT),
    ("header.converter", _T.CLASS, None, _HEADER_CONVERTER, _LOW,
     "Class that turns record headers into bytes and back; the worker's if not given.",
     _COMMON, 10, _SHORT, "Header converter class"),
    _version_of("header.converter", 11, "Header converter", _LOW, _SHORT),
    ("transforms", _T.LIST, [], _unique("unique transformation aliases"), _LOW,
     "Aliases of the transformations that records go through, in order.", "Transforms", 12, _LONG, "Transforms"),
    ("predicates", _T.LIST, [], _unique("unique predicate aliases"), _LOW,
     "Aliases of the predicates that transformations name.", "Predicates", 13, _LONG, "Predicates"),
    ("config.action.reload", _T.STRING, "restart", ConfigDef.ValidString.in_("none", "restart"), _LOW,
     "What happens when a value from a config provider changes: restart the connector, or nothing.",
     _COMMON, 14, _MID, "Reload Action"),
    ("errors.retry.timeout", _T.LONG, 0, None, _MEDIUM,
     "How long a failed operation is tried again, in milliseconds; 0 means never, -1 endlessly.",
     _ERRORS, 1, _MID, "Retry Timeout for Errors"),
    ("errors.retry.delay.max.ms", _T.LONG, 60000, None, _MEDIUM,
     "The longest wait between two tries.", _ERRORS, 2, _MID, "Maximum Delay Between Retries for Errors"),
    ("errors.tolerance", _T.STRING, "none", ConfigDef.ValidString.in_("none", "all"), _MEDIUM,
     "Whether a bad record fails the task (none) or is skipped (all).", _ERRORS, 3, _SHORT, "Error Tolerance"),
    ("errors.log.enable", _T.BOOLEAN, False, None, _MEDIUM,
     "Whether each bad record that is skipped gives a log line.", _ERRORS, 4, _SHORT, "Log Errors"),
    ("errors.log.include.messages", _T.BOOLEAN, False, None, _MEDIUM,
     "Whether such a line shows the record itself.", _ERRORS, 5, _SHORT, "Log Error Details"),
)
"""Every setting that source and sink connectors share."""

SOURCE_CONFIG: Final = _table(
    CONNECTOR_CONFIG,
    ("topic.creation.groups", _T.LIST, [], _unique("unique topic creation groups"), _LOW,
     "Aliases of groups of settings by which topics are created.", _CREATION, 1, _LONG, "Topic Creation Groups"),
    ("exactly.once.support", _T.STRING, "requested",
     ConfigDef.CaseInsensitiveValidString.in_("required", "requested"), _MEDIUM,
     "Whether the connector must support exactly-once (required) or should (requested).",
     _EXACTLY, 2, _SHORT, "Exactly once support"),
    ("transaction.boundary", _T.STRING, "poll",
     ConfigDef.CaseInsensitiveValidString.in_("interval", "poll", "connector"), _MEDIUM,
     "When a transaction ends: with each poll, after an interval, or where the connector says.",
     _EXACTLY, 3, _SHORT, "Transaction Boundary"),
    ("transaction.boundary.interval.ms", _T.LONG, None, ConfigDef.LambdaValidator(_refuse_negative, "[0,...]"), _LOW,
     "That interval; offset.flush.interval.ms of the worker if not given.",
     _EXACTLY, 4, _SHORT, "Transaction boundary interval"),
    ("offsets.storage.topic", _T.STRING, None, ConfigDef.NonEmptyString(), _LOW,
     "A topic of the connector's own for its offsets.", "offsets.topic", 1, _LONG, "Offsets topic"),
)
"""Every setting that Connect defines for source connectors."""

SINK_CONFIG: Final = _table(
    CONNECTOR_CONFIG,
    ("topics", _T.LIST, [], ConfigDef.ValidList.any_non_duplicate_values(True, False), _HIGH,
     "Topics to read, with commas.", _COMMON, 4, _LONG, "Topics"),
    ("topics.regex", _T.STRING, "", VALID_REGEX, _HIGH,
     "Regular expression of the topics to read, instead of topics.", _COMMON, 4, _LONG, "Topics regex"),
    ("errors.deadletterqueue.topic.name", _T.STRING, "", None, _MEDIUM,
     "Topic that bad records are written to; none if empty.", _ERRORS, 6, _MID, "Dead Letter Queue Topic Name"),
    ("errors.deadletterqueue.topic.replication.factor", _T.SHORT, 3, None, _MEDIUM,
     "Replicas of that topic when it is created.", _ERRORS, 7, _MID, "Dead Letter Queue Topic Replication Factor"),
    ("errors.deadletterqueue.context.headers.enable", _T.BOOLEAN, False, None, _MEDIUM,
     "Whether headers tell where and why a record failed.", _ERRORS, 8, _MID, "Enable Error Context Headers"),
)
"""Every setting that Connect defines for sink connectors."""

DEAD_LETTER_KEYS: Final = (
    "errors.deadletterqueue.topic.name",
    "errors.deadletterqueue.topic.replication.factor",
    "errors.deadletterqueue.context.headers.enable",
)
"""Settings of sinks that our sources have too. Java's do not, and its table of sources is listed as it is."""


def topic_creation_table(group: str, replication_factor: Any = NO_DEFAULT, partitions: Any = NO_DEFAULT) -> ConfigDef:
    """Settings of one group under `topic.creation.GROUP.`; the group `default` must give both numbers."""
    is_default = group == "default"
    are_regexes = ConfigDef.LambdaValidator(_check_regexes, "valid regexes")
    patterns: Validator = ConfigDef.NonNull() if is_default else are_regexes
    return _table(
        None,
        ("include", _T.LIST, [".*"] if is_default else [], patterns, _LOW,
         "Regular expressions of the topics that belong to the group.",
         group, 1, _LONG, f"Inclusion Topic Pattern for {group}"),
        ("exclude", _T.LIST, [], patterns, _LOW,
         "Regular expressions of topics that do not, in spite of include.",
         group, 2, _LONG, f"Exclusion Topic Pattern for {group}"),
        ("replication.factor", _T.SHORT, replication_factor, REPLICATION_FACTOR, _LOW,
         "Replicas of topics that are created; -1 for the broker's default.",
         group, 3, _LONG, f"Replication Factor for Topics in {group}"),
        ("partitions", _T.INT, partitions, PARTITIONS, _LOW,
         "Partitions of topics that are created; -1 for the broker's default.",
         group, 4, _LONG, f"Partition Count for Topics in {group}"),
    )
# fmt: on


def _check_regexes(name: str, value: Any) -> None:
    for pattern in value or ():
        try:
            compile_java(pattern)
        except re.error as err:
            message = f"Syntax error in regular expression: {err.msg}"
            raise ConfigError.invalid(name, value, message) from err

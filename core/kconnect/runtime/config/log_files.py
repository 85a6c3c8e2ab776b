"""Levels of loggers from the files and variables of log4j: log4j2.yaml, log4j2.properties, log4j.properties. Pure.

Only levels count, and whether lines are JSON; patterns, appenders and filters have no effect here.
Source: log4j 2's configuration; KAFKA_LOG4J_OPTS of kafka-run-class.sh; CONNECT_LOG4J_* of the vendors' images.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from kconnect.errors import ConfigError
from kconnect.java.compat.properties import parse_properties, read_text_bytes
from kconnect.logs.log_context import level_number
from kconnect.runtime.config.former_names import FORMER_ROOMS

_LOOKUP: Final = re.compile(r"\$\{(?:(\w+):)?([^}:]+?)(?::-([^}]*))?\}")
_OPTION: Final = re.compile(r"-Dlog4j2?\.configuration(?:File)?=(.+)")
_PREFIX: Final = "CONNECT_LOG4J_"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Levels by the names that the user wrote: of Java's loggers, or of ours."""

    root: int | None = None
    levels: Mapping[str, int] = field(default_factory=dict)
    is_json: bool = False
    """Whether an appender writes JSON."""
    notes: tuple[str, ...] = ()
    """Sentences about what has no effect."""

    def over(self, below: LogConfig) -> LogConfig:
        """Both; what both say is as it is here."""
        return LogConfig(
            root=below.root if self.root is None else self.root,
            levels={**below.levels, **self.levels},
            is_json=self.is_json or below.is_json,
            notes=(*below.notes, *self.notes),
        )


def log_config_of(env: Mapping[str, str], file: Path | None = None) -> LogConfig:
    """The file given, else the one that KAFKA_LOG4J_OPTS names; over it CONNECT_LOG4J_*.

    Errors: ConfigError, NotFoundError for a file that cannot be read.
    """
    named = file or _named_by(env.get("KAFKA_LOG4J_OPTS", ""))
    return _of_variables(env).over(read_log_file(named, env) if named is not None else LogConfig())


def read_log_file(file: Path, env: Mapping[str, str]) -> LogConfig:
    """The levels in a file of log4j. Errors: ConfigError, NotFoundError."""
    raw = read_text_bytes(file)
    if file.suffix in (".yaml", ".yml", ".json"):
        found = _of_tree(_tree(file, raw), file, env)
    elif file.suffix == ".properties":
        found = _of_properties(parse_properties(raw, str(file)), file, env)
    else:
        raise ConfigError(
            f"{file} is not read here: levels come from log4j2.yaml, log4j2.properties or log4j.properties.",
            hint="Write the levels into one of these; XML is not read.",
        )
    note = f"{file}: levels are taken; patterns, appenders and filters have no effect"
    return replace(found, notes=(note, *found.notes))


def _named_by(options: str) -> Path | None:
    """The file in `-Dlog4j2.configurationFile=..` or log4j 1's `-Dlog4j.configuration=file:..`. Errors: ConfigError."""
    try:
        words = shlex.split(options)
    except ValueError as err:
        raise ConfigError(f"KAFKA_LOG4J_OPTS cannot be read as options: {err}", hint="Close its quotes.") from err
    for word in words:
        if found := _OPTION.fullmatch(word):
            return Path(re.sub(r"^file:(?://)?", "", found[1]))
    return None


def _of_variables(env: Mapping[str, str]) -> LogConfig:
    """Confluent: ROOT_LOGLEVEL, LOGGERS=a.b=DEBUG,c=WARN. Debezium: LOGGERS=DEBUG, stdout; LOGGER_A_B=DEBUG; LOG_LEVEL.

    Debezium's LOG_LEVEL is only read beside its CONFIG_STORAGE_TOPIC: the name alone says nothing.
    """
    levels: dict[str, int] = {}
    notes: list[str] = []
    root = None
    if (reported := env.get("LOG_LEVEL", "").strip()) and "CONFIG_STORAGE_TOPIC" in env:
        root = _level(reported, "LOG_LEVEL", notes)
    if reported := env.get(f"{_PREFIX}ROOT_LOGLEVEL", "").strip():
        root = _level(reported, f"{_PREFIX}ROOT_LOGLEVEL", notes)
    for number, part in enumerate(env.get(f"{_PREFIX}LOGGERS", "").split(",")):
        name, has_level, level = (text.strip() for text in part.partition("="))
        if has_level:
            _put(levels, name, level, f"{_PREFIX}LOGGERS", notes)
        elif name and number == 0:  # the value of log4j 1's rootLogger: level, then appenders
            root = _level(name, f"{_PREFIX}LOGGERS", notes)
    for variable in sorted(env):
        if variable.startswith(f"{_PREFIX}LOGGER_"):
            name = variable.removeprefix(f"{_PREFIX}LOGGER_").lower().replace("_", ".")
            _put(levels, name, env[variable].partition(",")[0], variable, notes)
    return LogConfig(root, levels, notes=tuple(notes))


def _tree(file: Path, raw: bytes) -> Mapping[str, Any]:
    import yaml

    try:
        tree = yaml.load(raw, Loader=yaml.BaseLoader)  # texts alone: OFF is a level, not a false
    except yaml.YAMLError as err:
        place = getattr(err, "problem_mark", None)
        line = f", line {place.line + 1}" if place is not None else ""
        raise ConfigError(f"{file}{line} is not YAML: {getattr(err, 'problem', None) or err}.") from err
    found = _part(tree, "configuration")
    if not isinstance(found, Mapping):
        raise ConfigError(f"{file} has no Configuration in it.", hint="Is it a file of log4j 2?")
    return found


def _of_tree(tree: Mapping[str, Any], file: Path, env: Mapping[str, str]) -> LogConfig:
    own = {str(item.get("name")): str(item.get("value", "")) for item in _items(_part(tree, "properties"), "property")}
    loggers = _part(tree, "loggers")
    levels: dict[str, int] = {}
    notes: list[str] = []
    root = None
    for kind in ("root", "asyncroot"):
        for item in _items(loggers, kind):
            root = _level(_filled(str(item.get("level", "")), own, env), f"{file}: Root", notes)
    for kind in ("logger", "asynclogger"):
        for item in _items(loggers, kind):
            level = _filled(str(item.get("level", "")), own, env)
            _put(levels, str(item.get("name", "")), level, f"{file}", notes)
    is_json = bool(re.search(r"json(?:template)?layout", str(_part(tree, "appenders")), re.IGNORECASE))
    return LogConfig(root, levels, is_json, tuple(notes))


def _part(tree: object, name: str) -> Any:  # a tree of YAML
    """What is below a name, whose case does not count."""
    if not isinstance(tree, Mapping):
        return None
    return next((value for key, value in tree.items() if str(key).lower() == name), None)


def _items(tree: object, name: str) -> Iterator[Mapping[str, Any]]:
    """One item or a list of them."""
    found = _part(tree, name)
    for item in found if isinstance(found, list) else [found]:
        if isinstance(item, Mapping):
            yield {str(key).lower(): value for key, value in item.items()}


def _of_properties(given: Mapping[str, str], file: Path, env: Mapping[str, str]) -> LogConfig:
    """Both generations: `log4j.logger.a.b=DEBUG, x` and `logger.1.name=a.b` with `logger.1.level=DEBUG`."""
    own = {key.removeprefix("property."): value for key, value in given.items()}
    levels: dict[str, int] = {}
    notes: list[str] = []
    root = None
    for key, value in given.items():
        level = _filled(value, own, env).partition(",")[0]
        where = f"{file}: {key}"
        if re.fullmatch(r"log4j\.root(Logger|Category)|rootLogger(\.level)?", key):
            root = _level(level, where, notes)
        elif found := re.fullmatch(r"log4j\.(?:logger|category)\.(.+)", key):
            _put(levels, found[1], level, where, notes)
        elif found := re.fullmatch(r"logger\.([^.]+)(?:\.level)?", key):
            _put(levels, given.get(f"logger.{found[1]}.name", ""), level, where, notes)
    is_json = any(re.search(r"json(?:template|event)?layout", value, re.IGNORECASE) for value in given.values())
    return LogConfig(root, levels, is_json, tuple(notes))


def _filled(text: str, own: Mapping[str, str], env: Mapping[str, str]) -> str:
    """With `${env:NAME:-default}` and the file's own properties in place."""

    def value(found: re.Match[str]) -> str:
        known = env if found[1] == "env" else own if found[1] is None else {}
        return known.get(found[2], found[0] if found[3] is None else found[3])

    return _LOOKUP.sub(value, text)


def _put(levels: dict[str, int], name: str, level: str, where: str, notes: list[str]) -> None:
    number = _level(level, where, notes) if name.strip() else None
    if number is not None:
        levels[name.strip()] = number


def _level(text: str, where: str, notes: list[str]) -> int | None:
    number = level_number(text)
    if number is None:
        notes.append(
            f"{where}: Unknown level: {text.strip() or 'none'}. Levels are OFF FATAL ERROR WARN INFO DEBUG TRACE"
        )
    return number


_CONNECT: Final = "org.apache.kafka.connect"
OURS: Final[Mapping[str, tuple[str, ...]]] = {
    "org.apache.kafka": ("kconnect",),
    _CONNECT: ("kconnect",),
    f"{_CONNECT}.cli": ("kconnect.worker",),
    f"{_CONNECT}.file": ("kconnect.builtin.connectors",),
    f"{_CONNECT}.json": ("kconnect.builtin.converters",),
    f"{_CONNECT}.runtime": (
        "kconnect.runtime.herder",
        "kconnect.runtime.pipeline",
        "kconnect.runtime.plugins",
        "kconnect.runtime.rest",
        "kconnect.worker",
    ),
    f"{_CONNECT}.runtime.AbstractHerder": ("kconnect.runtime.herder",),
    f"{_CONNECT}.runtime.AbstractWorkerSourceTask": ("kconnect.runtime.pipeline.source",),
    f"{_CONNECT}.runtime.ExactlyOnceWorkerSourceTask": ("kconnect.runtime.pipeline.exactly_once",),
    f"{_CONNECT}.runtime.SourceTaskOffsetCommitter": ("kconnect.runtime.pipeline.guarantee",),
    f"{_CONNECT}.runtime.Worker": ("kconnect.worker", "kconnect.runtime.pipeline.host"),
    f"{_CONNECT}.runtime.WorkerConnector": ("kconnect.runtime.herder.connectors",),
    f"{_CONNECT}.runtime.WorkerSinkTask": ("kconnect.runtime.pipeline.sink", "kconnect.runtime.pipeline.sink_commits"),
    f"{_CONNECT}.runtime.WorkerSourceTask": ("kconnect.runtime.pipeline.source",),
    f"{_CONNECT}.runtime.WorkerTask": ("kconnect.runtime.pipeline",),
    f"{_CONNECT}.runtime.distributed": ("kconnect.runtime.herder",),
    f"{_CONNECT}.runtime.distributed.DistributedHerder": ("kconnect.runtime.herder.cluster",),
    f"{_CONNECT}.runtime.distributed.IncrementalCooperativeAssignor": ("kconnect.runtime.herder.assignment",),
    f"{_CONNECT}.runtime.distributed.WorkerCoordinator": ("kconnect.runtime.herder.group",),
    f"{_CONNECT}.runtime.distributed.WorkerGroupMember": ("kconnect.runtime.herder.group",),
    f"{_CONNECT}.runtime.errors": ("kconnect.runtime.pipeline.tolerance", "kconnect.runtime.pipeline.dead_letter"),
    f"{_CONNECT}.runtime.isolation": ("kconnect.runtime.plugins",),
    f"{_CONNECT}.runtime.rest": ("kconnect.runtime.rest",),
    f"{_CONNECT}.runtime.rest.RestServer": ("kconnect.runtime.rest",),
    f"{_CONNECT}.runtime.standalone": ("kconnect.runtime.herder.standalone",),
    f"{_CONNECT}.storage": ("kconnect.runtime.storage",),
    f"{_CONNECT}.storage.KafkaConfigBackingStore": ("kconnect.runtime.storage.config_store",),
    f"{_CONNECT}.storage.KafkaOffsetBackingStore": ("kconnect.runtime.storage.topic_offsets",),
    f"{_CONNECT}.storage.KafkaStatusBackingStore": ("kconnect.runtime.storage.status_store",),
    f"{_CONNECT}.transforms": ("kconnect.builtin.transforms",),
    f"{_CONNECT}.util.KafkaBasedLog": ("kconnect.runtime.kafka.log",),
    "io.confluent.connect.avro": ("kconnect.builtin.schema_registry.avro",),
    "io.confluent.connect.json": ("kconnect.builtin.schema_registry.json_schema",),
    "io.confluent.connect.protobuf": ("kconnect.builtin.schema_registry.protobuf",),
    "io.confluent.kafka.schemaregistry": ("kconnect.builtin.schema_registry",),
    "org.apache.kafka.clients": ("kconnect.runtime.kafka", "kconnect.runtime.herder.group"),
    "org.apache.kafka.clients.NetworkClient": ("kconnect.runtime.kafka", "kconnect.runtime.herder.group"),
    "org.apache.kafka.clients.admin": ("kconnect.runtime.kafka.admin",),
    "org.apache.kafka.clients.consumer": ("kconnect.runtime.kafka.consumer",),
    "org.apache.kafka.clients.producer": ("kconnect.runtime.kafka.producer",),
    "org.apache.spark": ("kconnect.spark.jvm",),
    "org.eclipse.jetty": ("uvicorn",),
    "org.glassfish.jersey": ("starlette",),
    **{former: (room,) for former, room in FORMER_ROOMS.items()},
}
"""Java's logger, or a former name of ours -> ours. What has no like here is not in it: its level changes nothing."""

_JAVA: Final = ("org.", "com.", "io.", "kafka.", "net.", "java.", "javax.", "jdk.")


class TranslatedLevels(NamedTuple):
    """Levels of our loggers, and the names of Java's that have none here."""

    levels: Mapping[str, int]
    unknown: tuple[str, ...]


def our_levels(levels: Mapping[str, int]) -> TranslatedLevels:
    """Levels by names of Java's loggers and ours, as levels of ours: what is meant more closely wins.

    A Python plugin's logger, and a Java name itself, keep the level under their own name: a plugin may use either.
    """
    found = dict(levels)
    unknown = []
    for name in sorted(levels, key=lambda name: (name.count("."), name)):
        for ours in OURS.get(name, ()):
            if ours not in levels:  # under its own name it is what the user meant
                found[ours] = levels[name]
        if name not in OURS and name.startswith(_JAVA):
            unknown.append(name)
    return TranslatedLevels(found, tuple(unknown))

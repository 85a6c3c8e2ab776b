"""What the config of an editor's connector may name: classes, local files, hosts, topics, config providers, secrets.

A grant's limits, what the worker has, and a config in; what goes beyond the limits out. No I/O but a look at names of
files. Without a word in the grant a config may not name what runs code that the editor writes, nor local files.
Differs: in Java whoever may create a connector may read and write what the worker can.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote

from kconnect.errors import ConfigError
from kconnect.java.compat.regex import compile_java
from kconnect.runtime.config.slot_keys import CORES, MEMORY, SLOT, memory_bytes
from kconnect.runtime.rest.access.local_paths import holds, local_paths
from kconnect.runtime.rest.access.remote_hosts import holds_host, remote_hosts

_CODE: Final = (
    *(
        f"kconnect.builtin.connectors.python.python_{end}Connector"
        for end in ("source.PythonSource", "sink.PythonSink")
    ),
    "kconnect.builtin.connectors.singer.singer_source.SingerSourceConnector",
    "kconnect.builtin.python_function.PythonPredicate",
    "kconnect.builtin.python_function.PythonTransform",
    "kconnect.spark.query.spark_sink.SparkSinkConnector",  # SQL of Spark calls any method of Java, and reads any file
    "kconnect.spark.query.spark_source.SparkSourceConnector",
    # Of others: scripts, commands, and folders that no setting's name gives away
    *("io.debezium.transforms.Filter", "io.debezium.transforms.ContentBasedRouter"),
    *("org.apache.camel.kafkaconnector.*", "com.github.jcustenborder.kafka.connect.spooldir.*"),
    *("io.streamthoughts.kafka.connect.filepulse.*", "com.github.mmolimar.kafka.connect.fs.*"),
)
"""Classes that run what an editor writes, or read folders: denied unless a grant names them."""
_OWN: Final = (
    *("kconnect.builtin.*", "kconnect.spark.*", "org.apache.kafka.connect.*"),
    *(f"io.confluent.connect.{name}.*" for name in ("avro", "json", "protobuf")),
)
_RENAMES: Final = (("RegexRouter", "replacement"), ("TimestampRouter", "topic.format"))
# Parameters by which a driver of databases runs code, sends files of this machine or takes a login that is kept there
_DRIVER_CODE: Final = re.compile(
    r"(?:^|[?&;:.\s])\w*(?:allowLoadLocalInfile|allowUrlInLocalInfile|local_infile|autoDeserialize|loggerFile|odbc_connect|"
    r"class|classname|factory|interceptors?|jndiname|callback|verifier|transform|\b(?:init|service|conninfo|dsn))"
    r"\s*=(?!\s*(?:false|0|no|off)\s*(?:[&;]|$))|^\s*(?:jdbc:)?(?:duckdb|calcite|shillelagh)\b",
    re.IGNORECASE,
)
# As databases' connectors call what they hand to a driver; the rest of the setting's name is the driver's
_TO_DRIVER: Final = re.compile(r"(?:connection\.arg|connection|database|driver|hibernate)\.")
_DRIVERS: Final = ("sqlite3", "psycopg", "pymysql")
# One, to its end: after a semicolon another one begins
_LOGIN_MODULE: Final = re.compile(
    r'\s*(?:[\w.]+\.)?(?:Plain|Scram|OAuthBearer|Krb5)LoginModule\b(?:"(?:[^"\\]|\\.)*"|[^;"])*(?:;\s*)?'
)
_TOPIC_KEY: Final = re.compile(r"(?:^|\.)topics?(?:\.name)?$")
# An alias may have dots, and one of a predicate need not be listed
_STEP: Final = re.compile(r"^(?:transforms|predicates)\.(.+)\.type$")
_NO_CLASS: Final = re.compile(r"[^.:$]*")
# How an expression begins without a choice; what may be left out is none of it
_FIXED: Final = re.compile(r"(?:(?:[^\[\](){}.*+?^$\\|]|\\\.)(?![*?{]))*")
_MIRROR: Final = "MirrorSourceConnector"
_CHECKPOINTS: Final = "MirrorCheckpointConnector"
_EVERY_TOPIC: Final = ".*"  # Its default
GROUP_PREFIX: Final = "connect-"
GROUP_KEY: Final = "consumer.override.group.id"
_GROUP_KEYS: Final = (GROUP_KEY, "consumer.override.librdkafka.group.id")
_ELSEWHERE: Final = re.compile(
    r"(producer|consumer|admin)\.override\.(?:librdkafka\.)?"
    r"(?:bootstrap\.servers|metadata\.broker\.list|sasl\.oauthbearer\.token\.endpoint\.url)"
)
# Of Kafka's clients, and of Iceberg's catalogs and tables
_RUN_BY_CLIENT: Final = re.compile(
    r"(?:plugin\.library\.paths|kinit\.cmd|\.ssl\.engine\.[\w.]+|\.(?:ssl|security)\.providers)$"
)
_RUN_BY_TABLE: Final = re.compile(r"table\.(?:catalog|properties)\..*[-.]impl$")
# Java's plugins resolve these by themselves, whatever the worker's providers may read
_OWN_PROVIDERS: Final = re.compile(r"(?:^|\.)config\.providers(?:\.|$)")
_NO_LOGIN: Final = ("PLAINTEXT", "SSL")
_TASKS: Final = "tasks.max"
_CONVERTER: Final = re.compile(r"(?:^|\.)(?:key|value|header)\.converter$")
_INTERCEPTORS: Final = re.compile(r"\.interceptor\.classes$")
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Host:
    """What the worker knows of the names in a config."""

    full_name: Callable[[str], str | None] = lambda name: name
    """The class that a setting names, with its package; None for one that is not among the worker's plugins."""
    own_topics: frozenset[str] = field(default=frozenset())
    """The topics of configs, offsets and statuses, which are the cluster itself."""
    providers: frozenset[str] = field(default=frozenset())
    """The worker's config providers."""
    group: str | None = None
    """The group of the workers."""
    has_login: bool = False
    """Whether the worker's Kafka clients log in with a password or a token."""
    passwords: Callable[[Mapping[str, str]], Collection[str]] = lambda _config: ()
    """The settings of a config that its plugins' tables type as PASSWORD."""


@dataclass(frozen=True, slots=True)
class Others:
    """The caller's connector among the others."""

    name: str | None = None
    """Its name, whatever its config says; None where only the config is known."""
    edits: Callable[[str], bool] = lambda _name: False
    """Whether the caller may edit the connector of this name, too."""
    groups: Callable[[], Mapping[str, str]] = dict
    """The consumer groups of connectors, by their names."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one grant. None: any; patterns have `*` and `?`."""

    classes: Sequence[str] | None = None
    """The connectors that may be named, and steps that are not the worker's own; None: all but what runs code."""
    files: Sequence[str] = ()
    """Folders, and patterns of files, of the worker's machine."""
    hosts: Sequence[str] | None = None
    """Hosts that connectors may connect to: names, addresses and networks, with or without a port."""
    topics: Sequence[str] | None = None
    providers: Sequence[str] | None = None
    secrets: Sequence[str] | None = None
    """References to config providers, as they are written inside of `${..}`."""
    tasks: int | None = None
    """The most that tasks.max may be."""
    memory: str | None = None
    """The most memory of a slot of a connector's own, as `512m`."""
    cores: int | None = None
    """The most cores of a slot of a connector's own."""

    def beyond(self, config: Mapping[str, str], host: Host, others: Others | None = None) -> list[str]:
        """Each thing that the config names and the grant does not: a sentence that names the setting."""
        return [
            *self._classes_beyond(config, host),
            *self._code_beyond(config),
            *self._files_beyond(config, host),
            *self._hosts_beyond(config),
            *self._topics_beyond(config, host),
            *_groups_beyond(config, host, others or Others()),
            *_synced_groups_beyond(config, others or Others()),
            *_logins_beyond(config, host),
            *self._size_beyond(config),
            *self._references_beyond(config, host),
        ]

    def _classes_beyond(self, config: Mapping[str, str], host: Host) -> Iterator[str]:
        for key, name in _classes(config):
            full = host.full_name(name.removeprefix("java:"))
            called = full or name
            if _names_class(self.classes or (), called, name):
                continue
            if full is None and (found := _STEP.match(key)) and "." in found[1] and _NO_CLASS.fullmatch(name):
                continue  # a setting of a step, which ends like the one that names its class
            if full is None:
                yield f"{key}={name} is not among this worker's plugins, and the grant's classes do not name it"
            elif any(fnmatchcase(called, pattern) for pattern in _CODE):
                yield f"{key}={name} runs code or reads local folders, and the grant's classes do not name it"
            elif self.classes is not None and not (key != "connector.class" and _is_own(called)):
                yield f"{key}={name} is not among the grant's classes"

    def _code_beyond(self, config: Mapping[str, str]) -> Iterator[str]:
        """Settings by which a connector runs code, or reads files, that its class alone would not."""
        called = config.get("connector.class", "")
        is_named = _names_class(self.classes or (), called, called)
        for key, value in config.items():
            if _RUN_BY_CLIENT.search(key):
                yield f"{key} names a command or a library that the client runs"
            elif _OWN_PROVIDERS.search(key):
                yield f"{key} gives the connector config providers of its own, which could read any file"
            elif is_named:
                continue
            elif key.endswith("sasl.jaas.config") and not _LOGIN_MODULE.fullmatch(value):
                yield f"{key} names a login module that is not Kafka's"
            elif _RUN_BY_TABLE.match(key):
                yield f"{key} names a class that the catalog runs"
            elif key == "connection.driver" and value.strip() not in ("", *_DRIVERS):
                yield f"{key}={value} is not one of {', '.join(_DRIVERS)}"
            elif found := next(filter(None, map(_DRIVER_CODE.search, _of_driver(key, value))), None):
                word = found[0].strip("?&;:. =")
                yield f"{key} has {word}, by which a driver runs code or takes files of this machine"

    def _files_beyond(self, config: Mapping[str, str], host: Host) -> Iterator[str]:
        for key, path in local_paths(config):
            leads_anywhere = any(provider in host.providers for provider, _ in _REFERENCE.findall(path))
            if leads_anywhere or not any(holds(pattern, path) for pattern in self.files):
                yield f"{key} names {path}, a path of this machine that the grant's files do not hold"

    def _hosts_beyond(self, config: Mapping[str, str]) -> Iterator[str]:
        for key, name in remote_hosts(config) if self.hosts is not None else ():
            if not any(holds_host(pattern, name) for pattern in self.hosts or ()):
                yield f"{key} names {name}, which is not among the grant's hosts"

    def _topics_beyond(self, config: Mapping[str, str], host: Host) -> Iterator[str]:
        is_mirror = _is_mirror(config)
        for key, name, is_start in _topics(config):
            if name in host.own_topics:
                yield f"{key} names {name}, one of the worker's own topics"
            elif key == "topics.regex" and (own := _matched(name, host.own_topics)):
                yield f"{key}={name} matches {own}, one of the worker's own topics"
            elif self.topics is not None and not any(
                _covers(one, name, is_start=is_start, is_expression=key == "topics.regex" or is_mirror)
                for one in self.topics
            ):
                given = config.get(key, name)
                whose = "" if given == name or not is_mirror else f", which is {name} here,"
                yield f"{key}={given}{whose} is not among the grant's topics"
        if is_mirror and (own := _mirrored(config, host.own_topics)):
            yield f"topics of {_MIRROR} match {own}, one of the worker's own topics; topics.exclude leaves it out"
        if self.topics is None:
            return
        for key, name in _classes(config):
            full = host.full_name(name.removeprefix("java:")) or name
            if key.startswith("transforms.") and not _is_own(full) and not _names_class(self.classes or (), full, name):
                yield f"{key}={name} may rename topics, and the grant's classes do not name it"

    def _size_beyond(self, config: Mapping[str, str]) -> Iterator[str]:
        if self.tasks is not None:
            given = config.get(_TASKS, "1").strip()
            if not given.isdecimal() or int(given) > self.tasks:
                yield f"{_TASKS}={given} is more than the grant's tasks, {self.tasks}"
            if config.get(f"{_TASKS}.enforce", "true").strip().lower() != "true":
                yield f"{_TASKS}.enforce lets the connector have more tasks than {_TASKS}"
        if config.get(SLOT, "").strip() != "own":
            return
        for key, most, size in ((MEMORY, self.memory, memory_bytes), (CORES, self.cores, int)):
            if most is not None and not _is_within(config.get(key), str(most), size):
                yield f"{key} must be given, and at most {most}, as {SLOT} is own"

    def _references_beyond(self, config: Mapping[str, str], host: Host) -> Iterator[str]:
        for key, value in config.items():
            for provider, rest in _REFERENCE.findall(value):
                if provider not in host.providers:
                    continue
                if self.providers is not None and provider not in self.providers:
                    yield f"{key} asks the config provider {provider}, which is not among the grant's providers"
                elif self.secrets is not None:
                    if not all(_any_of(self.secrets, f"{provider}:{one}") for one in (rest, _straight(rest))):
                        yield f"{key} asks for ${{{provider}:{rest}}}, which is not among the grant's secrets"
                elif (file := rest.partition(":"))[1] and any(holds(pattern, file[0]) for pattern in self.files):
                    yield (
                        f"{key} asks for ${{{provider}:{rest}}}, a file that the grant lets connectors write; its "
                        "secrets may name it"
                    )


def _straight(reference: str) -> str:
    """What a reference asks for, without detours in its path."""
    path, sign, name = reference.partition(":")
    return f"{os.path.normpath(path)}{sign}{name}" if ".." in path.split("/") else reference


def _of_driver(key: str, value: str) -> Iterator[str]:
    """What of a setting a driver of databases reads as its parameters: `name=value`, or a text with several."""
    if found := _TO_DRIVER.match(key):
        yield f"{key[found.end() :]}={value}"
    if key.endswith(("url", "uri")):
        yield unquote(value)


def _classes(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if key == "connector.class" or _STEP.match(key) or _CONVERTER.search(key):
            yield key, value.strip()
        elif _INTERCEPTORS.search(key):
            yield from ((key, name.strip()) for name in value.split(",") if name.strip())


def _is_own(full: str) -> bool:
    return _any_of(_OWN, full) and not _any_of(_CODE, full)


def _names_class(patterns: Sequence[str], full: str, given: str) -> bool:
    simple = full.rsplit(".", 1)[-1].rsplit(":", 1)[-1]
    names = {full, given, simple, simple.removesuffix("Connector")}
    return any(fnmatchcase(name, pattern) for pattern in patterns for name in names)


def _any_of(patterns: Sequence[str], text: str) -> bool:
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def _topics(config: Mapping[str, str]) -> Iterator[tuple[str, str, bool]]:
    """Settings that name topics: each name, and whether it is only how names begin."""
    is_mirror = _is_mirror(config)
    if is_mirror:
        yield from (("topics", expression, False) for expression in _mirrored_expressions(config))
    for key, value in config.items():
        if is_mirror and key == "topics":
            continue
        if key == "topics.regex":
            yield key, value, False
        elif key.endswith("topic.prefix"):
            yield key, value, True
        elif _TOPIC_KEY.search(key):
            yield from ((key, name.strip(), False) for name in value.split(",") if name.strip())
    for key, value in config.items():
        setting = next((own for router, own in _RENAMES if _STEP.match(key) and router in value), None)
        key = f"{key.removesuffix('type')}{setting}"
        if setting is None or not (renamed := config.get(key)):
            continue
        if renamed.startswith("${topic}"):
            named = [name for other in ("topic", "topics") for name in config.get(other, "").split(",")]
            yield from ((key, name.strip(), renamed != "${topic}") for name in named if name.strip())
        else:
            yield key, renamed.partition("$")[0], "$" in renamed


def _covers(pattern: str, name: str, *, is_start: bool, is_expression: bool) -> bool:
    """Whether a pattern of a grant holds a topic, all topics that begin so, or all that an expression matches."""
    if pattern == "*":
        return True
    if is_expression:
        if "|" in name:
            return False
        fixed = _FIXED.match(name)
        assert fixed is not None  # any text has a beginning
        name, is_start = fixed[0].replace("\\.", "."), is_start or fixed.end() < len(name)
    if not is_start:
        return fnmatchcase(name, pattern)
    begin = pattern.removesuffix("*")
    return pattern.endswith("*") and not any(sign in begin for sign in "*?[") and name.startswith(begin)


def _is_within(given: str | None, most: str, size: Callable[[str], int]) -> bool:
    try:
        return given is not None and size(given) <= size(most)
    except (ConfigError, ValueError):
        return False


def _groups_beyond(config: Mapping[str, str], host: Host, others: Others) -> Iterator[str]:
    """Who alters the offsets of a connector alters those of its group, which may be another connector's."""
    for key in _GROUP_KEYS:
        if group := config.get(key, "").strip():
            yield from _group_beyond(key, group, config, host, others)


def _group_beyond(key: str, group: str, config: Mapping[str, str], host: Host, others: Others) -> Iterator[str]:
    if group == host.group:
        yield f"{key} names {group}, the group of the workers"
    elif "${" in group:
        yield f"{key} refers to {group}, which may be another connector's group"
    else:
        own = config.get("name") if others.name is None else others.name
        implied = group.removeprefix(GROUP_PREFIX)
        named = [name for name, its in others.groups().items() if its == group]
        for other in dict.fromkeys((*([] if implied == group else [implied]), *named)):
            if other != own and not others.edits(other):
                yield f"{key} names {group}, the group of connector {other}"


def _synced_groups_beyond(config: Mapping[str, str], others: Others) -> Iterator[str]:
    """A mirror's checkpoints move groups of this cluster."""
    switch = "sync.group.offsets.enabled"
    if config.get("connector.class", "").strip().endswith(_CHECKPOINTS) and config.get(switch, "").strip() == "true":
        groups = {group: name for name, group in others.groups().items() if not others.edits(name)}
        for pattern in config.get("groups", ".*").split(","):
            if (found := _matched(pattern.strip(), frozenset(groups))) is not None:
                yield f"groups of {_CHECKPOINTS} match {found}, the group of connector {groups[found]} ({switch})"


def _logins_beyond(config: Mapping[str, str], host: Host) -> Iterator[str]:
    """Clients of connectors log in as the worker does, unless they have a login of their own."""
    for key in config if host.has_login else ():
        found = _ELSEWHERE.fullmatch(key)
        own = "" if found is None else f"{found[1]}.override."
        if found is None or config.get(f"{own}security.protocol", "").strip().upper() in _NO_LOGIN:
            continue
        if f"{own}sasl.jaas.config" not in config:
            yield f"{key} sends the worker's login elsewhere: give {own}sasl.jaas.config too"


def _is_mirror(config: Mapping[str, str]) -> bool:
    return config.get("connector.class", "").strip().endswith(_MIRROR)


def _mirrored_expressions(config: Mapping[str, str]) -> Iterator[str]:
    """What a mirror reads, and what that is called here."""
    lead = f"{config.get('source.cluster.alias', '').strip()}{config.get('replication.policy.separator', '.').strip()}"
    keeps = config.get("replication.policy.class", "").strip().endswith("IdentityReplicationPolicy")
    for expression in filter(None, map(str.strip, config.get("topics", _EVERY_TOPIC).split(","))):
        yield from (expression,) if keeps else (expression, lead.replace(".", r"\.") + expression)


def _mirrored(config: Mapping[str, str], own: frozenset[str]) -> str | None:
    """The first of the topics that a mirror reads; its lists are of expressions."""
    named, left_out = (
        [pattern.strip() for pattern in config.get(key, default).split(",") if pattern.strip()]
        for key, default in (("topics", _EVERY_TOPIC), ("topics.exclude", ""))
    )
    kept = frozenset(topic for topic in own if not any(_matched(pattern, frozenset((topic,))) for pattern in left_out))
    return next((topic for pattern in named if (topic := _matched(pattern, kept)) is not None), None)


def _matched(pattern: str, topics: frozenset[str]) -> str | None:
    try:
        found = compile_java(pattern)
    except re.error:
        return None  # the config's own validation says so
    return next((topic for topic in sorted(topics) if found.fullmatch(topic)), None)

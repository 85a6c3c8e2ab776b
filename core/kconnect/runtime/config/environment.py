"""A worker's settings from the environment, as the images of Confluent and Debezium read them. Pure.

`CONNECT_GROUP_ID` is `group.id`: one underscore is a dot, two are an underscore, three a dash. Without the prefix some
of them are Debezium's: `GROUP_ID`, `BOOTSTRAP_SERVERS`, `CONFIG_STORAGE_TOPIC` ..; that image has defaults of its own.
Source: ConvertKey of confluentinc/common-docker ub.go, kafka-connect-base's configure; debezium/container-images
connect-base/3.5/docker-entrypoint.sh.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kconnect.errors import ConfigError, ConfigProblem, ConnectError
from kconnect.java.compat.properties import read_text_bytes
from kconnect.logs.log_context import is_secret
from kconnect.runtime.config.worker_config import DISTRIBUTED_CONFIG, KCONNECT_CONFIG

PREFIX: Final = "CONNECT_"
_FILE: Final = "_FILE"
_LOGGING: Final = "CONNECT_LOG4J"
_REQUIRED: Final = (
    "bootstrap.servers",
    "group.id",
    "config.storage.topic",
    "offset.storage.topic",
    "status.storage.topic",
    "key.converter",
    "value.converter",
)
# Debezium's own names; each stands for the setting behind it
_SHORT: Final = {
    "BOOTSTRAP_SERVERS": "bootstrap.servers",
    "GROUP_ID": "group.id",
    "CONFIG_STORAGE_TOPIC": "config.storage.topic",
    "OFFSET_STORAGE_TOPIC": "offset.storage.topic",
    "STATUS_STORAGE_TOPIC": "status.storage.topic",
    "KEY_CONVERTER": "key.converter",
    "VALUE_CONVERTER": "value.converter",
    "OFFSET_FLUSH_INTERVAL_MS": "offset.flush.interval.ms",
    "OFFSET_FLUSH_TIMEOUT_MS": "offset.flush.timeout.ms",
    "SHUTDOWN_TIMEOUT": "task.shutdown.graceful.timeout.ms",
    "ADVERTISED_HOST_NAME": "rest.advertised.host.name",
    "ADVERTISED_PORT": "rest.advertised.port",
    "REST_HOST_NAME": "rest.host.name",
    "REST_PORT": "rest.port",
}
# What that image sets where nothing else does: its script, and the sample file of Kafka that it edits
_DEBEZIUM: Final = {
    "group.id": "1",
    "status.storage.topic": "connect-status",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "offset.flush.timeout.ms": "5000",
    "task.shutdown.graceful.timeout.ms": "10000",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
}
# Of Kafka before 3.0; images still set them
_OF_THE_PAST: Final = ("internal.key.converter", "internal.value.converter")


@dataclass(frozen=True, slots=True)
class FromEnvironment:
    """Settings, and the variable that each came from."""

    properties: Mapping[str, str] = field(repr=False)  # secrets live here
    variables: Mapping[str, str]
    """Setting -> variable; those of defaults are not in it."""
    notes: tuple[str, ...] = ()
    """Sentences for the log; no values in them."""


def has_worker(env: Mapping[str, str]) -> bool:
    """Whether the environment describes a worker: its brokers and one of its topics are there."""
    return any(
        f"{prefix}BOOTSTRAP_SERVERS" in env and f"{prefix}CONFIG_STORAGE_TOPIC" in env for prefix in (PREFIX, "")
    ) or ("CONFIG_STORAGE_TOPIC" in env and f"{PREFIX}BOOTSTRAP_SERVERS" in env)


def has_settings(env: Mapping[str, str]) -> bool:
    """Whether there are variables that could be meant for a worker."""
    return any(name.startswith(PREFIX) and not name.startswith(_LOGGING) for name in env)


def setting_name(variable: str) -> str:
    """The setting that a variable stands for, its prefix taken off: SASL_JAAS_CONFIG is sasl.jaas.config.

    Differs: between words of one letter Confluent's script leaves every second underscore as it is. Four underscores
    and more, which it does not define, are read from the left as threes.
    """

    def mark(found: re.Match[str]) -> str:
        count = len(found[0])
        if count == 1:
            is_between = found.start() > 0 and found.end() < len(variable)
            return "." if is_between else "_"
        return "-" * (count // 3) + ("_" if count % 3 else "")

    return re.sub("_+", mark, variable).lower()


def worker_of(
    env: Mapping[str, str],
    file: Mapping[str, str] | None = None,
    read: Callable[[Path], bytes] = read_text_bytes,
) -> FromEnvironment:
    """The settings of a worker: the environment's over those of `file`.

    `NAME_FILE` is a file with the value of NAME, for settings that are secrets. A CONNECT_ variable wins over
    Debezium's name for the same setting.
    Errors: ConfigError that names the variables that are missing; as `read_text_bytes` for a file of a secret.
    """
    given, variables, notes = _prefixed(env, read)
    short = {_SHORT[name]: name for name in _SHORT if env.get(name)}
    is_debezium = file is None and "CONFIG_STORAGE_TOPIC" in env
    for key, name in short.items() if is_debezium else ():
        if key not in given:
            given[key], variables[key] = env[name], name
        elif given[key] != env[name]:
            notes.append(f"{name} is not used: {variables[key]} sets {key}")
    properties = {**(_DEBEZIUM if is_debezium else {}), **(file or {}), **given}
    _listeners(properties, variables, notes)
    for key in _OF_THE_PAST:
        for name in [name for name in properties if name == key or name.startswith(f"{key}.")]:
            del properties[name]
            variables.pop(name, None)
    if file is None:
        _check(properties, is_debezium)
    return FromEnvironment(properties, variables, tuple(notes))


def _prefixed(
    env: Mapping[str, str], read: Callable[[Path], bytes]
) -> tuple[dict[str, str], dict[str, str], list[str]]:
    given: dict[str, str] = {}
    variables: dict[str, str] = {}
    notes: list[str] = []
    for name in sorted(env):
        if not name.startswith(PREFIX) or name.startswith(_LOGGING) or name == PREFIX:
            continue
        key = setting_name(name.removeprefix(PREFIX))
        of_file = _key_of_file(name)
        if of_file is None:
            given[key], variables[key] = env[name], name
        elif name.removesuffix(_FILE) in env:
            notes.append(f"{name} is not used: {name.removesuffix(_FILE)} is set, too")
        else:
            given[of_file] = _secret_in(Path(env[name]), name, read)
            variables[of_file] = name
    return given, variables, notes


def _secret_in(file: Path, variable: str, read: Callable[[Path], bytes]) -> str:
    """The text of a file, without the end of line that editors leave. Errors: ConfigError that names the variable."""
    try:
        return read(file).decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as err:
        raise ConfigError(f"{variable}={file} is not a text file.", hint="Write the secret into it as UTF-8.") from err
    except ConnectError as err:
        raise ConfigError(f"{variable}: {err}", hint=err.hint) from err


def _key_of_file(name: str) -> str | None:
    """The setting whose value is in the file that a variable names; None for a variable that is itself a setting."""
    if not name.endswith(_FILE):
        return None
    key = setting_name(name.removeprefix(PREFIX))
    if key in DISTRIBUTED_CONFIG.config_keys or key in KCONNECT_CONFIG.config_keys:
        return None
    plain = setting_name(name.removeprefix(PREFIX).removesuffix(_FILE))
    return plain if is_secret(plain) else None


def _listeners(properties: dict[str, str], variables: dict[str, str], notes: list[str]) -> None:
    """`rest.port` and `rest.host.name` are settings of Kafka before 3.0, which images still have."""
    port, host = properties.pop("rest.port", None), properties.pop("rest.host.name", "")
    named = [variables.pop(key) for key in ("rest.port", "rest.host.name") if key in variables]
    if not named:
        return
    if "listeners" in properties:
        notes.append(f"{' and '.join(named)} not used: listeners is set")
        return
    properties["listeners"] = f"http://{f'[{host}]' if ':' in host else host}:{port or '8083'}"
    variables["listeners"] = named[0]


def _check(properties: Mapping[str, str], is_debezium: bool) -> None:
    missing = [key for key in _REQUIRED if not properties.get(key, "").strip()]
    if not missing:
        return
    prefix = "" if is_debezium else PREFIX
    names = [prefix + key.upper().replace(".", "_") for key in missing]
    sentence = f"The environment lacks {' and '.join(names)}, which a worker needs"
    raise ConfigError(
        sentence,
        [ConfigProblem(key, None, f"{name} is not set") for key, name in zip(missing, names, strict=True)],
        hint="Set these variables, or name a file: connect distributed WORKER.properties.",
    )

"""`${provider:path:key}` references in configs: found, resolved, and restored before anything is shown.

Configs are stored, sent and shown as written. Values are resolved where they are used: by the worker for its own
settings and for connectors, by each slot for its tasks.
Here are the built-in providers, too: properties files, folders with one file per secret, environment variables.
Their `ttl.ms` is ours: how often a file is checked, so that connectors restart when it has changed.
Source: ConfigTransformer, WorkerConfigTransformer, AbstractHerder.reverseTransform, FileConfigProvider,
DirectoryConfigProvider, EnvVarConfigProvider, AllowedPaths (Kafka 4.3).
Differs: an unreadable or missing value is an error; Java leaves `${..}` in the config and continues.
"""

from __future__ import annotations

import importlib
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kconnect.api.config_parse import parse_type
from kconnect.api.config_provider import ConfigData, ConfigProvider
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.files.guarded import is_guarded
from kconnect.java.compat.properties import parse_properties
from kconnect.java.compat.regex import compile_java
from kconnect.logs.log_context import is_secret
from kconnect.runtime.config.client_security import parse_jaas

log = logging.getLogger(__name__)

_REFERENCE: Final = re.compile(r"\$\{([^}:]*):([^}]*)\}")
# Shorter values occur in text by chance.
_MIN_REPLACED: Final = 6
_NAME_KEY: Final = re.compile(
    r"^name$|(?:^|\.)(?:topics?|topics\.regex|topic\.(?:name|prefix|format)|group\.id|client\.id|table\.name(?:\.format)?|"
    r"replacement|transactional\.id(?:\.prefix)?|slot\.name|publication\.name|tables?)$"
)
_USUAL_NAMES: Final = frozenset({"file", "env", "dir", "directory"})

_BETWEEN_NAMES: Final = re.compile(r"[,\s]+")
_NAME: Final = re.compile(r"[\w.$-]{4,249}")


FindProvider = Callable[[str], type[ConfigProvider] | None]
"""Finds a provider that is a Java class; None for another name."""


def has_reference(text: str | None) -> bool:
    """Whether a value contains a reference to any provider."""
    return text is not None and _REFERENCE.search(text) is not None


def unresolved_problems(config: Mapping[str, str | None], keys: Sequence[str]) -> list[tuple[str, str]]:
    """Finds references in these settings, which are read where none is resolved: key and message."""
    message = "is read as it is written, and has a reference. Write the value itself"
    return [(key, f"{key} {message}") for key in keys if has_reference(config.get(key))]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A config with its references replaced. Never shown: show the raw config, and text through `shown`."""

    values: Mapping[str, str] = field(repr=False)
    references: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The reference behind each value: value -> `${..}`."""
    ttl_ms: int | None = None
    """The shortest time after which a provider wants to be asked again."""

    def shown(self, text: str) -> str:
        """The text with values replaced by their references."""
        for value in sorted(self.references, key=len, reverse=True):
            if value:
                text = text.replace(value, self.references[value])
        return text

    def unresolved(self, raw: Mapping[str, str], configs: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
        """Task configs that a connector generated from the resolved config, with references restored.

        Differs: Java restores a key's reference whatever the connector made of its value, and exposes a value that was
        copied to another key.
        """
        return [{key: self._put_back(key, value, raw) for key, value in config.items()} for config in configs]

    def _put_back(self, key: str, value: str, raw: Mapping[str, str]) -> str:
        if not isinstance(value, str) or not self.references:
            return value
        if key in raw and self.values.get(key) == value:
            return raw[key]
        for found, reference in self.references.items():
            if len(found) >= _MIN_REPLACED:
                value = value.replace(found, reference)
        return value


class Variables:
    """The config providers of one worker. Threads: any, if the providers allow it; ours do."""

    def __init__(self, providers: Mapping[str, ConfigProvider] | None = None) -> None:
        self._providers = dict(providers or {})

    @classmethod
    def of_worker(cls, props: Mapping[str, str], java: FindProvider | None = None) -> Variables:
        """The configured providers in `config.providers`; `java` finds those that are Java classes.

        Errors: ConfigError naming the provider. Source: Plugins.newConfigProvider.
        """
        names = parse_type("config.providers", props.get("config.providers", ""), ConfigDef.Type.LIST)
        return cls({name: _provider(name, props, java) for name in dict.fromkeys(names)})

    def resolve(self, config: Mapping[str, str], of: str) -> Resolved:
        """The config with references to configured providers replaced; others are left unchanged, as in Java.

        `of` names the config in messages, such as `connector orders`. Values of None pass through.
        Errors: ConfigError that names the reference, its key, its provider and what to do; never a value.
        """
        found: dict[str, str] = {}  # reference -> value
        ttls: list[int] = []
        values: dict[str, str] = {}
        for key, text in config.items():
            if text is None or "${" not in text:
                values[key] = text
                continue
            for match in _REFERENCE.finditer(text):
                self._look_up(match, key, of, found, ttls)
            values[key] = _REFERENCE.sub(lambda match: found.get(match[0], match[0]), text)
        references = {value: reference for reference, value in found.items()}
        return Resolved(values, references, min(ttls, default=None))

    def secrets_in_names(self, config: Mapping[str, str | None]) -> list[tuple[str, str]]:
        """Settings that become names which everybody sees, and refer to a secret: key and message.

        What has a path, a file or a vault, keeps secrets; a variable of the environment is one if its name says so.
        Differs: Java creates a topic that is called like the password.
        """
        found = []
        for key, text in config.items():
            for match in _REFERENCE.finditer(text or "") if _NAME_KEY.search(key) else ():
                path, variable = _path_and_variable(match)
                if match[1] in self._providers and (path or is_secret(variable)):
                    message = f"{match[0]} is a secret, and {key} is a name that everybody sees. Write the name itself"
                    found.append((key, message))
        return found

    def files(self, config: Mapping[str, str]) -> tuple[Path, ...]:
        """The files that hold what the config refers to; those of providers that are not ours are unknown."""
        found: dict[Path, None] = {}
        for text in config.values():
            for match in _REFERENCE.finditer(text or ""):
                provider = self._providers.get(match[1])
                if isinstance(provider, _PathProvider):
                    found[provider.file(*_path_and_variable(match))] = None
        return tuple(found)

    def watch(self, config: Mapping[str, str], of: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Have providers that can tell it call `changed` when a value that the config refers to is another.

        Returns what ends this; it never raises. A provider that fails to subscribe is logged. `of` as for `resolve`.
        """
        subscriptions: list[tuple[ConfigProvider, str, str]] = []

        def on_change(path: str, data: ConfigData) -> None:
            changed()

        for provider, path, variable in self._subscribable(config):
            try:
                provider.subscribe(path, [variable], on_change)
            except Exception as err:  # a plugin call
                log.warning("Changes of %s in %s will not be reported: %s: %s", variable, of, type(err).__name__, err)
            else:
                subscriptions.append((provider, path, variable))

        def end() -> None:
            for provider, path, variable in subscriptions:
                try:
                    provider.unsubscribe(path, [variable], on_change)
                except Exception as err:  # a plugin call
                    log.warning("%s.unsubscribe() raised %s: %s", type(provider).__name__, type(err).__name__, err)

        return end

    def _subscribable(self, config: Mapping[str, str]) -> list[tuple[ConfigProvider, str, str]]:
        """Provider, path and variable of each reference whose provider overrides subscribe(), once each."""
        found: dict[tuple[str, str, str], ConfigProvider] = {}
        for text in config.values():
            for match in _REFERENCE.finditer(text or ""):
                provider = self._providers.get(match[1])
                if provider is not None and type(provider).subscribe is not ConfigProvider.subscribe:
                    found[match[1], *_path_and_variable(match)] = provider
        return [(provider, path, variable) for (_, path, variable), provider in found.items()]

    def close(self) -> None:
        for provider in self._providers.values():
            provider.close()

    def _look_up(self, match: re.Match[str], key: str, of: str, found: dict[str, str], ttls: list[int]) -> None:
        reference, name = match[0], match[1]
        if reference in found:
            return
        provider = self._providers.get(name)
        if provider is None:
            if name in _USUAL_NAMES:
                log.warning(
                    "%s in %s of %s is left unchanged: config.providers of the worker does not name %s",
                    reference,
                    key,
                    of,
                    name,
                )
            return
        path, variable = _path_and_variable(match)
        lead = f"{reference} in {key} of {of} cannot be resolved by the config provider {name}"
        try:
            data = provider.get(path, [variable])
        except ConfigError as err:
            raise ConfigError(f"{lead}: {err}.", hint=(err.hint or "").replace("NAME", name) or None) from err
        except Exception as err:  # a plugin call
            raise ConfigError(f"{lead}: {type(err).__name__}: {err}") from err
        if variable not in data.values:
            where = f"there is no {variable!r} in {path}" if path else f"there is no variable {variable!r}"
            raise ConfigError(f"{lead}: {where}.", hint=f"Add it there, or correct {key}.")
        found[reference] = data.values[variable]
        if data.ttl_ms is not None and data.ttl_ms >= 0:
            ttls.append(data.ttl_ms)


def _path_and_variable(match: re.Match[str]) -> tuple[str, str]:
    """Parts a reference; the path is empty if it has none."""
    path, colon, variable = match[2].partition(":")
    return (path, variable) if colon else ("", path)


def secret_values(config: Mapping[str, str], password_keys: frozenset[str] = frozenset()) -> set[str]:
    """Values of secret keys, and passwords inside JAAS entries, to hide in all text."""
    found: set[str] = set()
    for key, value in config.items():
        if not value or not (key in password_keys or is_secret(key)):
            continue
        found.add(value)
        if key.endswith("sasl.jaas.config"):
            found |= _jaas_secrets(value)
    return found


def plain_names(config: Mapping[str, str | None], password_keys: frozenset[str] = frozenset()) -> set[str]:
    """Names of connectors, topics, tables and the like in a config whose references are not replaced: no secrets."""
    return {
        part
        for key, value in config.items()
        if value and not has_reference(value) and not (key in password_keys or is_secret(key))
        for part in _BETWEEN_NAMES.split(value)
        if _NAME.fullmatch(part)
    }


def _jaas_secrets(entry: str) -> set[str]:
    try:
        _, options = parse_jaas(entry)
    except ConfigError:
        return set()  # reported where a client is created from it
    return {value for name, value in options.items() if is_secret(name) or name.lower().endswith("secret")}


def _provider(name: str, props: Mapping[str, str], java: FindProvider | None) -> ConfigProvider:
    prefix = f"config.providers.{name}"
    class_name = (props.get(f"{prefix}.class") or "").strip()
    if not class_name:
        raise ConfigError(
            f"config.providers names {name}, but {prefix}.class is missing.",
            hint=f"Set {prefix}.class, for instance to org.apache.kafka.common.config.provider.FileConfigProvider.",
        )
    params = f"{prefix}.param."
    settings = {key.removeprefix(params): value for key, value in props.items() if key.startswith(params)}
    try:
        provider = _provider_class(class_name, prefix, java)()
        provider.configure(settings)
    except ConfigError as err:
        raise ConfigError(f"The config provider {name} cannot be set up: {err}", hint=err.hint) from err
    except Exception as err:  # a plugin call
        raise ConfigError(f"The config provider {name} cannot be set up: {type(err).__name__}: {err}") from err
    return provider


def _provider_class(class_name: str, prefix: str, java: FindProvider | None) -> type[ConfigProvider]:
    """Ours, Python's, or Java's. Errors: ConfigError."""
    if class_name in BUILTIN_PROVIDERS:
        return BUILTIN_PROVIDERS[class_name]
    try:
        return _python_class(class_name, prefix)
    except ConfigError:
        found = None if java is None else java(class_name)
        if found is None:
            raise
        return found


def _python_class(class_name: str, prefix: str) -> type[ConfigProvider]:
    """A user-defined provider, `package.module.Class`; plugin.path folders are importable by now."""
    module_name, _, name = class_name.replace(":", ".").rpartition(".")
    try:
        found = getattr(importlib.import_module(module_name), name) if module_name else None
    except (ImportError, AttributeError) as err:
        found, why = None, f": {err}"
    else:
        why = ""
    if not (isinstance(found, type) and issubclass(found, ConfigProvider)):
        raise ConfigError(
            f"{prefix}.class={class_name} is not a config provider{why}",
            hint="There are FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider; a Python class is "
            "named as package.module.Class and extends kconnect.api.ConfigProvider; a Java class is in a folder of "
            "plugin.path.",
        )
    return found


class _PathProvider(ConfigProvider):
    """What the file and folder providers share: `allowed.paths` and `ttl.ms`."""

    def __init__(self) -> None:
        self._allowed: tuple[Path, ...] | None = None
        self._ttl_ms: int | None = None

    def configure(self, props: Mapping[str, str]) -> None:
        if given := props.get("allowed.paths"):
            self._allowed = tuple(_allowed_path(text) for text in given.split(","))
        if (ttl := props.get("ttl.ms")) is not None:
            self._ttl_ms = parse_type("ttl.ms", ttl, ConfigDef.Type.LONG)
            ConfigDef.Range.at_least(1).ensure_valid("ttl.ms", self._ttl_ms)

    def file(self, path: str, variable: str) -> Path:
        """The file that a reference is about."""
        return Path(path)

    def _path(self, path: str) -> Path:
        """The path, if it may be read. Errors: ConfigError.

        Differs: a link out of the allowed paths is also refused; Java only compares the names.
        """
        if not path:
            raise ConfigError("no path is given", hint="Write it as ${provider:/path:key}.")
        if is_guarded(path):
            raise ConfigError(
                f"{path} is a file of the worker's security, which no config refers to",
                hint="Keep secrets of connectors in a file of their own.",
            )
        wanted = Path(os.path.normpath(path)) if self._allowed is not None else Path(path)
        if self._allowed is not None:
            real = Path(os.path.realpath(wanted))
            spelled_well = any(wanted.is_relative_to(allowed) for allowed in self._allowed)
            if not spelled_well or not any(real.is_relative_to(os.path.realpath(one)) for one in self._allowed):
                raise ConfigError(
                    f"{path} is not within allowed.paths",
                    hint="Add the folder to config.providers.NAME.param.allowed.paths of the worker.",
                )
        return wanted


class FileConfigProvider(_PathProvider):
    """`${file:/path/of.properties:key}`: a key of a properties file in UTF-8."""

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        file = self._path(path)
        try:
            text = file.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as err:
            why = err.strerror if isinstance(err, OSError) else "it is not UTF-8"
            raise ConfigError(
                f"the file {path} cannot be read: {why}", hint="Make the file readable, or correct the path."
            ) from err
        found = parse_properties(text, path)
        return ConfigData({key: found[key] for key in keys if key in found}, self._ttl_ms)


class DirectoryConfigProvider(_PathProvider):
    """`${dir:/path:file}`: the full content of a file, as mounted secrets have it; includes a final newline."""

    def file(self, path: str, variable: str) -> Path:
        return Path(path, variable)

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        folder = self._path(path)
        if not folder.is_dir():
            raise ConfigError(f"the folder {path} does not exist", hint="Make the folder, or correct the path.")
        found = {}
        for key in keys:
            file = folder / key
            if os.sep in key or key in (os.curdir, os.pardir) or not file.is_file():
                continue
            self._path(str(file))
            try:
                found[key] = file.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as err:
                why = err.strerror if isinstance(err, OSError) else "it is not UTF-8"
                raise ConfigError(f"the file {file} cannot be read: {why}", hint="Make the file readable.") from err
        return ConfigData(found, self._ttl_ms)


class EnvVarConfigProvider(ConfigProvider):
    """`${env:NAME}`: an environment variable; for tasks, of their slot."""

    def __init__(self) -> None:
        self._pattern: re.Pattern[str] | None = None

    def configure(self, props: Mapping[str, str]) -> None:
        pattern = props.get("allowlist.pattern")
        if pattern is None:
            return
        try:
            self._pattern = compile_java(pattern)
        except re.error as err:
            raise ConfigError.invalid("allowlist.pattern", pattern, f"not a regular expression: {err}") from err

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        if path:
            raise ConfigError(
                f"an environment variable has no path, but {path!r} was given", hint="Write ${provider:NAME}."
            )
        for key in keys:
            if self._pattern is not None and self._pattern.fullmatch(key) is None:
                raise ConfigError(
                    f"the variable {key} does not match allowlist.pattern",
                    hint="Widen config.providers.NAME.param.allowlist.pattern of the worker.",
                )
        return ConfigData({key: os.environ[key] for key in keys if key in os.environ})


def _allowed_path(text: str) -> Path:
    path = Path(os.path.normpath(text.strip()))
    if not path.is_absolute():
        raise ConfigError(f"Path {path} is not absolute")
    if not path.exists():
        raise ConfigError(f"Path {path} does not exist")
    return path


BUILTIN_PROVIDERS: Final[Mapping[str, type[ConfigProvider]]] = {
    f"{prefix}{name}{suffix}": provider
    for name, provider in (
        ("File", FileConfigProvider),
        ("Directory", DirectoryConfigProvider),
        ("EnvVar", EnvVarConfigProvider),
    )
    for prefix, suffix in (
        ("org.apache.kafka.common.config.provider.", "ConfigProvider"),
        ("", "ConfigProvider"),
        ("", ""),
    )
}
"""By the name of the Java class, and its short names."""

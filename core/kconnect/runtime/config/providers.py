"""The built-in config providers: properties files, folders with one file per secret, environment variables.

Source: FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider, AllowedPaths (Kafka 4.3).
Differs: an unreadable or missing value is an error; Java leaves `${..}` in the config and continues.
`ttl.ms` is ours: how often a file is checked, so that connectors restart when it has changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from kconnect.api.config_parse import parse_type
from kconnect.api.config_provider import ConfigData, ConfigProvider
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.java.compat.properties import parse_properties
from kconnect.java.compat.regex import compile_java


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

    def _path(self, path: str) -> Path:
        """The path, if it may be read. Errors: ConfigError.

        Differs: a link out of the allowed paths is also refused; Java only compares the names.
        """
        if not path:
            raise ConfigError("no path is given", hint="Write it as ${provider:/path:key}.")
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

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        folder = self._path(path)
        if not folder.is_dir():
            raise ConfigError(f"there is no folder {path}", hint="Make the folder, or correct the path.")
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

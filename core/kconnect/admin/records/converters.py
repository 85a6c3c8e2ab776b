"""Decoders by the converters of a connector, and behind them of the worker, as its tasks would use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kconnect.admin.records.decoding import Decoded, FieldDecoder, RecordDecoder
from kconnect.admin.records.guess import GuessDecoder, guess
from kconnect.api import Converter, HeaderConverter, SchemaAndValue
from kconnect.runtime.config.connector_config import prefixed
from kconnect.runtime.config.worker_config import STANDALONE_CONFIG

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

KEY, VALUE, HEADER = "key.converter", "value.converter", "header.converter"
_KEYS: Final = (KEY, VALUE, HEADER)


def converter_decoder(
    connector: Mapping[str, str],
    worker: Mapping[str, str],
    plugins: PluginRegistry,
    *,
    is_lenient: bool = False,
    otherwise: FieldDecoder | None = None,
) -> RecordDecoder:
    """Decodes as the tasks of a connector do: its converters, or the worker's where it names none.

    A part for which neither names one is left to `otherwise`, by default the guess. Both configs as they are written:
    references in them (`${file:..}`) are resolved by the worker's providers. `is_lenient`: what a converter cannot read
    is no problem, but guessed. An empty `connector` gives the worker's converters.
    Errors: ConfigError, NotFoundError for a converter that is not installed here, cannot be configured, or whose
    settings refer to a secret that is not here.
    """
    rest = otherwise or GuessDecoder()

    def part(key: str) -> FieldDecoder:
        name = connector.get(key) or worker.get(key) or _default(key)
        if not name:
            return rest
        settings = _settings(connector if connector.get(key) else worker, worker, key)
        if key == HEADER:
            return _HeaderDecoder(_header_converter(name, settings, plugins))
        return _ConverterDecoder(_converter(name, settings, plugins, is_key=key == KEY), rest, is_lenient=is_lenient)

    return RecordDecoder(*map(part, _KEYS))


class _ConverterDecoder:
    """One converter, with the guess behind it."""

    def __init__(self, converter: Converter, otherwise: FieldDecoder, *, is_lenient: bool) -> None:
        self._converter = converter
        self._name = type(converter).__name__
        self._otherwise = otherwise
        self._is_lenient = is_lenient

    def decode(self, topic: str, data: bytes | None, header: str | None = None) -> Decoded:
        if data is None:
            return Decoded(None, "null")
        try:
            found = self._converter.to_connect_data(topic, data)
        except Exception as err:
            guessed = self._otherwise.decode(topic, data)
            return guessed if self._is_lenient else replace(guessed, problem=refusal(self._name, err))
        return Decoded(found.value, self._name, found.schema)

    def close(self) -> None:
        self._converter.close()


class _HeaderDecoder:
    """A header converter; what it cannot read is guessed."""

    def __init__(self, converter: HeaderConverter) -> None:
        self._converter = converter
        self._name = type(converter).__name__

    def decode(self, topic: str, data: bytes | None, header: str | None = None) -> Decoded:
        if data is None:
            return Decoded(None, "null")
        try:
            found: SchemaAndValue = self._converter.to_connect_header(topic, header or "", data)
        except Exception as err:
            return replace(guess(data), problem=refusal(self._name, err))
        return Decoded(found.value, self._name, found.schema)

    def close(self) -> None:
        self._converter.close()


def refusal(converter: str, error: BaseException) -> str:
    """A sentence: what the converter says of bytes that it cannot read."""
    return f"{converter} cannot read it: {error or type(error).__name__}"


def _settings(config: Mapping[str, str], worker: Mapping[str, str], key: str) -> dict[str, str]:
    """The converter's settings, with references resolved; nothing else of the config is looked up."""
    found = {name: value for name, value in config.items() if name.startswith(f"{key}.") and value is not None}
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(worker)
    try:
        return prefixed(variables.resolve(found, key).values, f"{key}.")
    finally:
        variables.close()


def _converter(name: str, settings: Mapping[str, str], plugins: PluginRegistry, *, is_key: bool) -> Converter:
    from kconnect.runtime.pipeline.plugin_call import (
        plugin_call,  # here: its room is large, and a guess needs none of it
    )

    kind = plugins.converter(name)
    with plugin_call(kind, "configure"):
        made: Converter = kind()
        made.configure(settings, is_key)
    return made


def _header_converter(name: str, settings: Mapping[str, str], plugins: PluginRegistry) -> HeaderConverter:
    from kconnect.runtime.pipeline.plugin_call import plugin_call  # as above

    kind = plugins.header_converter(name)
    with plugin_call(kind, "configure"):
        made: HeaderConverter = kind()
        made.configure({**settings, "converter.type": "header"})
    return made


def _default(key: str) -> str | None:
    """The worker's default: that of headers; keys and values have none."""
    default = STANDALONE_CONFIG.config_keys[key].default
    return default if isinstance(default, str) else None

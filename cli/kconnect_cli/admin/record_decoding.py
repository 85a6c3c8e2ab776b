"""What decodes the records of a topic: the converters of a connector, a registry, a worker's converters, or a guess."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kconnect.errors import ConnectError
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.admin.records import FieldDecoder, RecordDecoder
    from kconnect.runtime.plugins import PluginRegistry

REGISTRY_VARIABLE = "KCONNECT_REGISTRY"
# Converters that take everything for text or bytes say less than the guess does
_SAY_NOTHING = ("StringConverter", "ByteArrayConverter")
_OF_REGISTRY = ("schema.registry.", "basic.auth.", "bearer.auth.", "http.")


def record_decoder(
    session: CliSession,
    access: ClusterAccess,
    plugins: PluginRegistry,
    *,
    connector: str | None = None,
    registry: str | None = None,
) -> RecordDecoder:
    """Decodes as a connector's tasks do, else by what the options, the environment and the worker's file say.

    What that cannot read is looked up in the registry, if one is known, and guessed. Errors: NotFoundError for an
    unknown connector; ConfigError for a converter that is not here.
    """
    from kconnect.admin.records import GuessDecoder, RecordDecoder, RegistryDecoder, converter_decoder

    settings = registry_settings(access.worker, registry)
    rest: FieldDecoder = RegistryDecoder(settings, plugins) if settings else GuessDecoder()
    if connector is not None:
        config = session.on_connector(connector, session.reader.connector).config
        try:
            return converter_decoder(config, access.worker, plugins, otherwise=rest)
        except ConnectError as err:
            err.hint = err.hint or "Without --as the records are decoded by a registry (--registry URL), or guessed."
            raise
    if registry is not None:
        return RecordDecoder(rest, rest, GuessDecoder())
    worker = {
        key: value
        for key, value in access.worker.items()
        if not any(_says_nothing(access.worker, part) and key.startswith(part) for part in _PARTS)
    }
    if any(part in worker for part in _PARTS):
        return converter_decoder({}, worker, plugins, is_lenient=True, otherwise=rest)
    return RecordDecoder(rest, rest, GuessDecoder())


_PARTS = ("key.converter", "value.converter")


def registry_settings(worker: Mapping[str, str], registry: str | None) -> dict[str, str]:
    """Settings of the registry's client: of the option, the environment, or the worker's converters; else none."""
    url = registry or os.environ.get(REGISTRY_VARIABLE)
    if url:
        return {"schema.registry.url": url}
    for part in reversed(_PARTS):
        prefix = f"{part}."
        if worker.get(f"{prefix}schema.registry.url"):
            inner = {key.removeprefix(prefix): value for key, value in worker.items() if key.startswith(prefix)}
            return {key: value for key, value in inner.items() if key.startswith(_OF_REGISTRY)}
    return {}


def _says_nothing(worker: Mapping[str, str], part: str) -> bool:
    return worker.get(part, "").rpartition(".")[2] in _SAY_NOTHING

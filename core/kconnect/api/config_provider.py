"""Resolves `${provider:path:key}` in configs. Source: o.a.k.common.config.provider.ConfigProvider (Kafka 4.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ConfigData:
    """The values a provider found. `ttl_ms`: ask again after this time; None means never."""

    values: Mapping[str, str] = field(repr=False)  # may contain secrets
    ttl_ms: int | None = None


class ConfigChangeCallback(Protocol):
    """What a provider calls with a path and its new values, from any thread; it returns at once."""

    def __call__(self, path: str, data: ConfigData, /) -> None: ...


class ConfigProvider(ABC):
    """Supplies values that configs refer to. Named in the worker's `config.providers.NAME.class`.

    One instance lives in the worker and one for each task in its slot, so that secrets never travel between them.
    Lifecycle: constructed without arguments -> configure() -> get()s -> close().
    """

    def configure(self, props: Mapping[str, str]) -> None:
        """Read `config.providers.NAME.param.*`, without the prefix. Errors: ConfigError for invalid settings.

        Called once, before anything else. May not block.
        """
        return

    @abstractmethod
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        """The values of the keys that exist; others are omitted. `path` is empty if the reference has none.

        Called when a connector is validated or starts, when a task starts or asks for its configs, and again after
        `ttl_ms`, on the thread that needs the value. May block briefly, which delays that thread.
        Errors: ConfigError that says why the path cannot be read; it must not contain a value.
        """

    def subscribe(self, path: str, keys: Collection[str], callback: ConfigChangeCallback) -> None:
        """Call `callback` when one of these values has changed, until unsubscribe; override it where that is possible.

        Called for each reference in the config of a connector that runs here, unless its `config.action.reload` is
        `none`: the connector and its tasks restart if the value differs. May not block.
        Errors: NotImplementedError unless overridden; any is logged, and then only `ttl_ms` counts.
        Differs: Java's workers never call it.
        """
        raise NotImplementedError(f"{type(self).__name__} does not tell changes")

    def unsubscribe(self, path: str, keys: Collection[str], callback: ConfigChangeCallback) -> None:
        """End what `subscribe` began with the same arguments. Not called if that raised."""
        raise NotImplementedError(f"{type(self).__name__} does not tell changes")

    def close(self) -> None:
        """Release resources. Called once; not if the process dies."""
        return

"""Resolves `${provider:path:key}` in configs. Source: o.a.k.common.config.provider.ConfigProvider (Kafka 4.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ConfigData:
    """The values a provider found. `ttl_ms`: ask again after this time; None means never."""

    values: Mapping[str, str] = field(repr=False)  # may contain secrets
    ttl_ms: int | None = None


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

    def close(self) -> None:
        """Release resources. Called once; not if the process dies."""
        return

"""What resolves `${provider:path:key}` in configs. Source: o.a.k.common.config.provider.ConfigProvider (Kafka 4.3)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

__all__ = ["ConfigData", "ConfigProvider"]


@dataclass(frozen=True, slots=True)
class ConfigData:
    """What a provider found. `ttl_ms`: after this time it should be asked again; None: never."""

    values: Mapping[str, str] = field(repr=False)  # secrets live here
    ttl_ms: int | None = None


class ConfigProvider(ABC):
    """Gives values that configs only refer to. Named in the worker's `config.providers.NAME.class`.

    One instance lives in the worker and one for each task in its slot, so that secrets never travel between them.
    Lifecycle: constructed without arguments -> configure() -> get()s -> close().
    """

    def configure(self, props: Mapping[str, str]) -> None:
        """Take `config.providers.NAME.param.*`, prefix taken off. Errors: ConfigError for settings that make no sense.

        Called once, before anything else. May not block.
        """
        return

    @abstractmethod
    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        """Values of those keys that are there; keys that are not are left out. `path` is empty when none was written.

        Called when a connector is validated or starts, when a task starts or asks for its configs, and again after
        `ttl_ms`, on the thread that needs the value. May block for a moment: that holds up who needs it.
        Errors: ConfigError that tells why the path cannot be read; it may not hold a value.
        """

    def close(self) -> None:
        """Let go of what was opened. Called once; not when the process dies."""
        return

"""The parts of a standalone herder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kconnect.api.config_key import ConfigKey
from kconnect.clock import Clock, SystemClock
from kconnect.logs.log_tail import LogTail
from kconnect.runtime.config.restart_keys import RestartSettings
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.connectors.hosted_connector import PluginTimes
from kconnect.runtime.herder.connectors.plugin_classes import ConnectorPlugins
from kconnect.runtime.herder.decisions.auto_restarts import Notice
from kconnect.runtime.herder.health.kafka_contact import KafkaContact
from kconnect.runtime.herder.health.reasons import Health
from kconnect.runtime.herder.interface import Launcher
from kconnect.runtime.herder.offsets.offsets_admin import GroupOffsetsFactory
from kconnect.runtime.herder.offsets.sink_lags import Lags, SinkLags
from kconnect.runtime.herder.validation.config_infos import ConfigInfos
from kconnect.runtime.metrics import Reading
from kconnect.runtime.metrics.history import History
from kconnect.runtime.storage import OffsetStore


class Webhooks(Protocol):
    """Where a herder's notices go. Threads: any; nothing blocks."""

    def announce(self, notice: Notice) -> None:
        """Pass on what has become of a connector or task."""
        ...

    def documents(self) -> Sequence[Mapping[str, Any]]:
        """How deliveries fare: one for each target."""
        ...

    def readings(self) -> Sequence[Reading]:
        """For `/metrics`."""
        ...


class NoWebhooks:
    """Implements `Webhooks` for a herder that nobody listens to."""

    def announce(self, notice: Notice) -> None: ...

    def documents(self) -> Sequence[Mapping[str, Any]]:
        return ()

    def readings(self) -> Sequence[Reading]:
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HerderParts:
    """What a standalone herder works with."""

    worker_config: Mapping[str, str] = field(repr=False)
    """The raw worker properties, which tasks get as well."""
    settings: Mapping[str, str] | None = field(default=None, repr=False)
    """The same as they hold now, references resolved; None where nothing in them refers."""
    plugins: ConnectorPlugins
    launcher: Launcher
    offsets: OffsetStore
    groups: GroupOffsetsFactory
    validate: Callable[[Mapping[str, str]], None]
    """Refuse a bad connector config with BadRequestError; also calls the connector's own `validate`."""
    explain: Callable[[Mapping[str, str | None]], ConfigInfos]
    """The same checks as a report on every setting."""
    plugin_config: Callable[[str, str | None], Sequence[ConfigKey]]
    """Settings of the plugin of that name, if its version fits. Errors: NotFoundError, BadRequestError."""
    tracks_topics: bool = True
    """topic.tracking.enable"""
    allows_topics_reset: bool = True
    """topic.tracking.allow.reset"""
    variables: Variables = field(default_factory=Variables)
    """Resolves `${..}` in connector configs; without providers they stay as they are."""
    times: PluginTimes = field(default_factory=PluginTimes)
    health: Health = field(default_factory=Health)
    """Where the worker and its parts report why it is unhealthy."""
    restarts: RestartSettings = field(default_factory=RestartSettings)
    """kconnect.errors.restart.*, of a standalone worker"""
    clock: Clock = field(default_factory=SystemClock)
    answer_s: float = 3.0
    """kconnect.kafka.answer.timeout.ms"""
    kafka: KafkaContact = field(default_factory=lambda: KafkaContact(""))
    """Whether Kafka answers; the worker keeps it up to date."""
    webhooks: Webhooks = field(default_factory=NoWebhooks)
    history: History = field(default_factory=History)
    """The worker's sampler fills it."""
    lags: Callable[[], Lags] | None = None
    """Opens what looks up the lag of sinks; None where there are no brokers to ask."""
    sink_lags: SinkLags = field(default_factory=SinkLags)
    """The worker's lag watch fills it."""
    log_tail: LogTail = field(default_factory=LogTail)
    """The worker puts its handler on the root logger."""

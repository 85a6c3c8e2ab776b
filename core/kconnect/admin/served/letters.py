"""ConnectorLetters: one connector's dead letters, with what reads them: config, brokers, topic, plugins, converters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Self

from kconnect.admin.dead_letters import (
    DeadLetterTopic,
    Documents,
    KafkaAccess,
    dead_letter_settings,
    is_source,
    letter_documents,
    letters_worker,
)
from kconnect.admin.direct.access import ClusterAccess
from kconnect.model import ConnectorInfo
from kconnect.runtime.plugins import PluginRegistry


class ConnectorLetters:
    """Opens nothing before it is asked for. A context manager. Threads: one. Commands, pages and routes share it.

    Errors: NotFoundError for one without a dead letter topic, or a topic that does not exist; ConfigError when the
    brokers are not known; UnreachableError, TimedOutError.
    """

    def __init__(
        self,
        info: ConnectorInfo,
        access: ClusterAccess,
        note: Callable[[str], None],
        plugins: Callable[[], PluginRegistry],
    ) -> None:
        """`access`: the worker's brokers; the connector's own producer may have others. `note`: gets sentences."""
        self.info = info
        self.name = info.name
        self.config = dict(info.config)
        self.settings = dead_letter_settings(info.name, self.config)
        self.access = access
        self.note = note
        self._registry = plugins
        self._topic: DeadLetterTopic | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._topic is not None:
            self._topic.close()

    @cached_property
    def brokers(self) -> ClusterAccess:
        """Where the dead letters are. Tells where these are not the worker's brokers."""
        worker = letters_worker(self.config, self.access.worker)
        if worker is self.access.worker:
            return self.access
        found = replace(self.access, worker=worker)
        self.note(f"Dead letters of {self.name} are in Kafka at {found.bootstrap_servers}, as its config says.")
        return found

    @property
    def is_open(self) -> bool:
        return self._topic is not None

    @property
    def topic(self) -> DeadLetterTopic:
        if self._topic is None:
            clients = self.brokers.clients()
            access = KafkaAccess(
                producer=clients.producer,
                consumer=clients.consumer,
                admin=clients.admin,
                timeout_s=self.access.timeout_s,
            )
            self._topic = DeadLetterTopic(self.settings.topic, access, self.note)
        return self._topic

    @cached_property
    def plugins(self) -> PluginRegistry:
        return self._registry()

    @cached_property
    def is_source(self) -> bool:
        return is_source(self.info.type, self.config, self.plugins)

    @cached_property
    def documents(self) -> Documents:
        """What reads its dead letters: its converters, or a guess where they are not installed here."""
        return letter_documents(self.config, self.access.worker, self.plugins, is_source=self.is_source, note=self.note)

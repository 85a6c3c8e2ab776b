"""LetterDesk: one connector's dead letters, from what the options of a call say: config, topic, plugins, filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kconnect.errors import UnreachableError
from kconnect.logs.wording import counted
from kconnect_cli.options.cluster import cluster_of
from kconnect_cli.options.dead_letters import LetterOptions
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.admin.dead_letters import DeadLetter, DeadLetterTopic, Documents, Selection
    from kconnect.admin.direct.access import ClusterAccess
    from kconnect.model import ConnectorInfo
    from kconnect.runtime.plugins import PluginRegistry


class LetterDesk:
    """Reads the connector's config at once, anything else when it is asked for. A context manager. Threads: one.

    Errors: NotFoundError for an unknown connector, one without a dead letter topic, or a topic that does not exist;
    ConfigError when the brokers are not known; UnreachableError, TimedOutError.
    """

    def __init__(self, session: CliSession, connector: str) -> None:
        from kconnect.admin.dead_letters import dead_letter_settings

        self.session = session
        self.name = connector
        self.access = cluster_of(session).access()
        _ = self.access.bootstrap_servers  # says best what is missing
        info = _connector(session, connector)
        self._type = info.type
        self.config = dict(info.config)
        self._brokers = self._where_letters_are()
        self._brokers.raise_if_refused()
        self.settings = dead_letter_settings(connector, self.config)
        self._topic: DeadLetterTopic | None = None

    def __enter__(self) -> LetterDesk:
        return self

    def __exit__(self, *_: object) -> None:
        if self._topic is not None:
            self._topic.close()

    @property
    def topic(self) -> DeadLetterTopic:
        if self._topic is None:
            from kconnect.admin.dead_letters import DeadLetterTopic, KafkaAccess

            clients = self._brokers.clients()
            access = KafkaAccess(
                producer=clients.producer,
                consumer=clients.consumer,
                admin=clients.admin,
                timeout_s=self.access.timeout_s,
            )
            self._topic = DeadLetterTopic(self.settings.topic, access, self.session.say)
        return self._topic

    @cached_property
    def selection(self) -> Selection:
        """What the options say. Letters that name no connector are its own where it writes no context headers."""
        options = self.session.given(LetterOptions) or LetterOptions()
        return options.selection(self.name, takes_unknown=not self.settings.context_headers)

    @cached_property
    def plugins(self) -> PluginRegistry:
        from kconnect.runtime.plugins import PluginRegistry

        return PluginRegistry.load(self.access.worker.get("plugin.path"), tells_skipped=False)

    @cached_property
    def is_source(self) -> bool:
        from kconnect.admin.dead_letters import is_source

        return is_source(self._type, self.config, self.plugins)

    @cached_property
    def documents(self) -> Documents:
        """What reads its letters: its converters, or a guess where they are not installed here."""
        from kconnect.admin.dead_letters import letter_documents

        return letter_documents(
            self.config, self.access.worker, self.plugins, is_source=self.is_source, note=self.session.say
        )

    def letters(self) -> Iterator[DeadLetter]:
        """Those that are meant."""
        from kconnect.admin.dead_letters import selected

        return selected(self.topic.letters(), self.selection)

    def _where_letters_are(self) -> ClusterAccess:
        from kconnect.admin.dead_letters import letters_worker

        worker = letters_worker(self.config, self.access.worker)
        if worker is self.access.worker:
            return self.access
        access = replace(self.access, worker=worker)
        self.session.say(f"Dead letters of {self.name} are in Kafka at {access.bootstrap_servers}, as its config says.")
        return access

    def say_skipped(self, others: int, unknown: int) -> None:
        """What else is in the topic."""
        told = []
        if others:
            told.append(f"{counted(others, 'letter')} of other connectors")
        if unknown:
            told.append(f"{counted(unknown, 'record')} that name no connector")
        if told:
            self.session.say(f"{self.settings.topic} has also {' and '.join(told)}; --all shows them.")


def _connector(session: CliSession, name: str) -> ConnectorInfo:
    read: Callable[[str], ConnectorInfo] = session.reader.connector
    try:
        return session.on_connector(name, read)
    except UnreachableError as error:
        if session.direct is None:
            hint = "--direct reads the connector's config from the cluster's topics, with no worker."
            error.hint = f"{error.hint} {hint}" if error.hint else hint
        raise

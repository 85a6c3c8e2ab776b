"""DeadLetterReader: one connector's dead letters, from what the options of a call say: config, topic, filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import islice
from typing import Any

from kconnect.admin.dead_letters import DeadLetter, Selection, letter_view, selected, summary, summary_view
from kconnect.admin.dead_letters.archive import archived
from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.served.letters import ConnectorLetters
from kconnect.errors import UnreachableError
from kconnect.model import ConnectorInfo
from kconnect.runtime.plugins import PluginRegistry
from kconnect_cli.admin.dead_letters import LetterPage
from kconnect_cli.options.cluster import cluster_of
from kconnect_cli.options.dead_letters import LetterOptions
from kconnect_cli.session import CliSession


class DeadLetterReader(ConnectorLetters):
    """Reads the connector's config at once, anything else when it is asked for. A context manager. Threads: one.

    Errors: as ConnectorLetters; NotFoundError for an unknown connector.
    """

    def __init__(self, session: CliSession, connector: str) -> None:
        self.session = session
        access = cluster_of(session).access()
        _ = access.bootstrap_servers  # says best what is missing
        super().__init__(_connector(session, connector), access, session.say, partial(_plugins, access))
        self.brokers.raise_if_refused()

    @cached_property
    def selection(self) -> Selection:
        """What the options say. Dead letters that name no connector are its own where it writes no context headers."""
        options = self.session.given(LetterOptions) or LetterOptions()
        return options.selection(self.name, takes_unknown=not self.settings.context_headers)

    def letters(self) -> Iterator[DeadLetter]:
        """The dead letters that the options choose."""
        return selected(self.topic.letters(), self.selection)

    @property
    def topic_name(self) -> str:
        return self.settings.topic

    def summary(self) -> dict[str, Any]:
        """What `connect dlq list` shows."""
        found = summary(self.topic.letters(), self.selection, self.topic.marks())
        return summary_view(self.name, self.settings.topic, found)

    def shown(self, limit: int) -> LetterPage:
        """What `connect dlq show` shows."""
        marks, letters = self.topic.marks(), self.letters()
        views = [letter_view(letter, self.documents, marks) for letter in islice(letters, limit)]
        return LetterPage(self.settings.topic, views, more=next(letters, None) is not None)

    def archived(self, limit: int | None) -> Iterator[dict[str, Any]]:
        """What `connect dlq export` writes, dead letter by dead letter."""
        for letter in islice(self.letters(), limit):
            yield archived(letter, self.documents.document(letter.as_read()).body)


def _plugins(access: ClusterAccess) -> PluginRegistry:
    return PluginRegistry.load(access.worker.get("plugin.path"), tells_skipped=False)


def _connector(session: CliSession, name: str) -> ConnectorInfo:
    read: Callable[[str], ConnectorInfo] = session.reader.connector
    try:
        return session.on_connector(name, read)
    except UnreachableError as error:
        if session.direct is None:
            hint = "--direct reads the connector's config from the cluster's topics, with no worker."
            error.hint = f"{error.hint} {hint}" if error.hint else hint
        raise

"""UnansweredCommits: which of a consumer's commits an answer belongs to."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kconnect.errors import ConnectError
from kconnect.model import TopicPartition

CommitDone = Callable[[ConnectError | None], None]
"""Called with the answer: None, or why the offsets were not committed."""


class UnansweredCommits:
    """Commits that were sent, until each has its own answer, however late. Threads: one.

    librdkafka answers without a number, but repeats the offsets; those of two commits are hardly ever the same, and
    where they are, the older one is answered first.
    """

    def __init__(self) -> None:
        self._sent: list[tuple[Mapping[TopicPartition, int], CommitDone]] = []

    def sent(self, offsets: Mapping[TopicPartition, int], done: CommitDone) -> None:
        self._sent.append((dict(offsets), done))

    def answered(self, offsets: Mapping[TopicPartition, int], error: ConnectError | None) -> None:
        """Tell the commit of these offsets; an answer to none that was sent is ignored."""
        for index, (own, done) in enumerate(self._sent):
            if own == offsets:
                del self._sent[index]
                done(error)
                return

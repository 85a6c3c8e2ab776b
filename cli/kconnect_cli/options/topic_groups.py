"""The groups below `connect topics`, one for each internal topic, on which the commands' modules mount theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import typer

if TYPE_CHECKING:
    from kconnect.admin.direct.access import InternalTopic


class TopicGroups(NamedTuple):
    """`connect topics` itself, and its groups by the words that the command line has for the topics."""

    topics: typer.Typer
    config: typer.Typer
    status: typer.Typer
    offsets: typer.Typer

    @property
    def each(self) -> Iterator[tuple[str, typer.Typer]]:
        """Word and group of each topic."""
        yield "config", self.config
        yield "status", self.status
        yield "offsets", self.offsets


def internal_topic(word: str) -> InternalTopic:
    """The topic that a group's word stands for."""
    from kconnect.admin.direct.access import InternalTopic

    return InternalTopic(word.removesuffix("s") if word == "offsets" else word)

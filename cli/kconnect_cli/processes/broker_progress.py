"""What commands tell while a development broker is fetched and prepared."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.java.devbroker import DevBroker

PREPARING = "Preparing Kafka's class archive once, in the background; the broker starts 1 s faster after it"


def tell_preparation(session: CliSession, broker: DevBroker) -> None:
    """Say that a process runs in the background, if this start began one."""
    if broker.prepares_archive:
        session.say(PREPARING)


class FetchTalk:
    """Tells on stderr how far a one-time fetch is: a line that moves on a terminal, else two lines."""

    def __init__(self, session: CliSession, what: str = "Kafka") -> None:
        self._session = session
        self._what = what
        self._shown = -1

    def __call__(self, done: int, total: int) -> None:
        percent = done * 100 // total
        if percent == self._shown:
            return
        if sys.stderr.isatty():
            typer.echo(
                f"\rFetching {self._what}, once: {percent} % of {total / 1e6:.0f} MB ", err=True, nl=percent == 100
            )
        elif self._shown < 0:
            self._session.say(f"Fetching {self._what}, once: {total / 1e6:.0f} MB")
        elif percent == 100:
            self._session.say(f"{self._what[0].upper()}{self._what[1:]} is fetched.")
        self._shown = percent

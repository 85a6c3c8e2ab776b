"""Dead letters as commands show them, whoever reads them: this process, or a worker over REST."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kconnect.errors import BadRequestError
from kconnect.logs.wording import pluralize
from kconnect_cli.options.dead_letters import LetterOptions
from kconnect_cli.session import CliSession


@dataclass(frozen=True, slots=True)
class LetterPage:
    """Letters as `letter_view` shows them, and whether there are more."""

    topic: str
    letters: Sequence[dict[str, Any]]
    more: bool


class WorkerLetters:
    """The same dead letters, as a worker reads them. A context manager. Threads: one. Errors: as AskedWorker."""

    def __init__(self, session: CliSession, connector: str) -> None:
        from kconnect_cli.admin.asked_worker import AskedWorker

        self._name = connector
        self._query = list((session.given(LetterOptions) or LetterOptions()).query())
        self._worker = AskedWorker(session)
        self.topic_name = ""

    def __enter__(self) -> WorkerLetters:
        return self

    def __exit__(self, *_: object) -> None:
        self._worker.__exit__()

    def summary(self) -> dict[str, Any]:
        return dict(self._ask("summary", None)["summary"])

    def shown(self, limit: int) -> LetterPage:
        body = self._ask("show", limit)
        return LetterPage(body["topic"], body["letters"], body["more"])

    def archived(self, limit: int | None) -> Iterator[dict[str, Any]]:
        body = self._ask("export", limit)
        if body["more"] and limit is None:
            raise BadRequestError(
                f"{self._name} has more than {len(body['letters']):,} dead letters, the most that a worker gives",
                hint="--worker FILE or --bootstrap-servers reads all; --offset and --limit give a part.",
            )
        yield from body["letters"]

    def _ask(self, what: str, limit: int | None) -> dict[str, Any]:
        more = [] if limit is None else [("limit", str(limit))]
        body = self._worker.letters(self._name, [("as", what), *self._query, *more])
        self.topic_name = body["summary"]["topic"] if what == "summary" else body["topic"]
        return body


def say_skipped(session: CliSession, view: Mapping[str, Any]) -> None:
    """What else is in the topic."""
    reported = []
    if view["others"]:
        reported.append(f"{pluralize(view['others'], 'dead letter')} of other connectors")
    if view["unknown"]:
        reported.append(f"{pluralize(view['unknown'], 'record')} that name no connector")
    if reported:
        session.say(f"{view['topic']} has also {' and '.join(reported)}; --all shows them.")

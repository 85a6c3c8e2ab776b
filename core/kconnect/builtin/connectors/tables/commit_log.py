"""CommitLog: the numbered commits of one partition to a table of plain files, of which each number exists once."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from kconnect.api import ConnectError, TopicPartition
from kconnect.builtin.stores.file_store import FileStore

FOLDER = "_kconnect"
"""Readers of Parquet folders leave names with an underscore out."""

# A writer that slept through so many commits of another finds the one it stands on gone, and so learns of them.
_KEPT = 50


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit: the offset to go on from afterwards (None: none), and the files that it adds."""

    number: int
    offset: int | None
    files: tuple[tuple[str, str], ...] = ()
    """Pairs of temporary and final path. The final one is there at the latest before the next commit."""
    columns: str | None = None
    """The table's columns after it, as text of the table's own."""


class CommitLog:
    """Commits of a partition by one writer (a connector), as small files with a number.

    A commit exists when its file does: the store makes a file with that number once. Its data files get their names
    afterwards; who opens the log next does it where the writer died in between. Threads: one.
    """

    def __init__(self, files: FileStore, writer: str, at: TopicPartition) -> None:
        self._files = files
        self.folder = f"{FOLDER}/{quote(writer, safe='')}/{at.topic}/{at.partition}"
        self.head = Commit(-1, None)

    def last(self) -> Commit | None:
        """The last commit; None when there is none. Changes nothing."""
        numbers = sorted(self._numbers(), reverse=True)
        for number in numbers[:2]:  # one that is found in a hole is taken back by who made it
            found = self._read(number)
            if found is not None:
                return found
        return None

    def take_over(self) -> Commit:
        """Finish the last commit, and add an empty one, after which no earlier writer can commit."""
        while True:
            found = self.last() or Commit(-1, None)
            self.finish(found)
            self.head = found
            taken = self.append(found.offset, (), found.columns)
            if taken is not None:
                self._tidy()
                return taken

    def append(self, offset: int | None, files: Sequence[tuple[str, str]], columns: str | None = None) -> Commit | None:
        """Commit, if the head is still the last one; None if somebody else has committed since."""
        base, made = self.head, Commit(self.head.number + 1, offset, tuple(files), columns)
        pairs = [list(pair) for pair in files]
        record = {"offset": offset, "files": pairs, "columns": columns, "id": uuid.uuid4().hex}
        if not self._files.create(self._path(made.number), json.dumps(record).encode()):
            return None
        if self._is_hole(base):
            self._files.remove(self._path(made.number))
            return None
        self.head = made
        if made.number >= _KEPT:
            self._files.remove(self._path(made.number - _KEPT))
        return made

    def finish(self, commit: Commit) -> None:
        """Give the commit's files their final names, where that was not done."""
        for temporary, final in commit.files:
            self._files.move(self._files.at(temporary), self._files.at(final))

    def _is_hole(self, base: Commit) -> bool:
        """Whether the number that was just made was used before, and removed: the ones before it are removed first."""
        if base.number >= 0:
            return self._files.find(self._path(base.number)) is None
        return max(self._numbers(), default=0) > 0

    def _tidy(self) -> None:
        """Remove what writers left that died before they committed. They cannot commit any more."""
        for name in self._files.names(self._files.at(self.folder)):
            if name.endswith(".tmp"):
                self._files.remove(self._files.at(f"{self.folder}/{name}"))

    def _numbers(self) -> list[int]:
        names = self._files.names(self._files.at(self.folder))
        return [int(name.removesuffix(".json")) for name in names if _is_commit(name)]

    def _read(self, number: int) -> Commit | None:
        path = self._path(number)
        content = self._files.read(path)
        if content is None:
            return None
        try:
            found = json.loads(content)
            files = tuple((str(temporary), str(final)) for temporary, final in found["files"])
            return Commit(number, found["offset"], files, found.get("columns"))
        except (ValueError, KeyError, TypeError) as error:
            raise ConnectError(
                f"{path} is no commit of a table: {error}", hint="Remove it only if you know that it is not the last."
            ) from error

    def _path(self, number: int) -> str:
        return self._files.at(f"{self.folder}/{number:020d}.json")


def _is_commit(name: str) -> bool:
    return name.endswith(".json") and name.removesuffix(".json").isdecimal()

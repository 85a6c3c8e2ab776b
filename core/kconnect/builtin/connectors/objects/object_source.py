"""ObjectSource: the rows of files and objects, on a disk or in any store that fsspec reaches.

`chosen` is pure: it says which files of a listing are data, and what waits for a job that writes now.
"""

from __future__ import annotations

import fnmatch
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any

from kconnect.api import (
    Config,
    ConfigDef,
    ConfigError,
    ConnectError,
    DataError,
    ExactlyOnceSupport,
    RecordBatch,
    RetriableError,
    SourceConnector,
    SourceRecord,
    SourceTask,
)
from kconnect.builtin.connectors.checked_settings import raised_by, with_problems
from kconnect.builtin.connectors.objects.object_config import (
    DELETE,
    DELIMITER,
    KEEP,
    MOVE,
    SOURCE_CONFIG,
    delimiter_in,
    object_store,
)
from kconnect.builtin.connectors.objects.object_progress import Place, Progress, check_offset, partition_of
from kconnect.builtin.connectors.objects.object_reading import OpenObject, RowSettings
from kconnect.builtin.stores.file_store import Found
from kconnect.builtin.types.declarations import declarations
from kconnect.builtin.version import KAFKA_VERSION

log = logging.getLogger(__name__)

TASK, TASKS = "object.task", "object.tasks"
_OFFSETS_AT_ONCE = 1000


class ObjectSourceConnector(SourceConnector):
    """Each task reads the objects whose names fall to it."""

    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        _checked(props)
        self._props = props

    def task_class(self) -> type[SourceTask]:
        return ObjectSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._props, TASK: str(number), TASKS: str(max_tasks)} for number in range(max_tasks)]

    def stop(self) -> None:
        """Nothing runs besides the tasks."""

    def config(self) -> ConfigDef:
        return SOURCE_CONFIG

    def validate(self, configs: Mapping[str, str]) -> Config:
        """Also opens the store, which needs no network, and checks combinations of settings."""
        look = partial(raised_by, partial(_checked, configs), SOURCE_CONFIG, "object.url")
        return with_problems(super().validate(configs), look)

    def version(self) -> str:
        return KAFKA_VERSION

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """The offset of each row is its place in its object, and nothing happens to an object before the commit."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        for partition, offset in offsets:
            if offset is not None:
                check_offset(partition, offset)
        return True


def _checked(props: Mapping[str, str]) -> dict[str, Any]:
    config = SOURCE_CONFIG.parse(props)
    url = config["object.url"]
    if "*" in url:
        advice = "It names a folder, a prefix or one file. Patterns such as *.csv belong in object.pattern"
        raise ConfigError.invalid("object.url", url, advice)
    store = object_store(url, props)
    if config["object.after"] == MOVE:
        target = config["object.move.url"]
        if not target:
            raise ConfigError.invalid("object.move.url", target, "object.after=move needs it")
        other = object_store(target, props)
        if other.kind is not store.kind:
            raise ConfigError.invalid("object.move.url", target, "It must be in the same store as object.url")
        if other.root == store.root:
            raise ConfigError.invalid("object.move.url", target, "It must be another folder than object.url")
    return {**config, DELIMITER: delimiter_in(props) or ""}


class ObjectSourceTask(SourceTask):
    """Lists, then reads one object after the other; a poll gives the rows of one block.

    The offset of a row is its number in the object (`row`), with the object's `etag` and `size`; the last row says
    `done`. An object is deleted or moved when the offset that says so is committed, or at the next start.
    """

    def version(self) -> str:
        return KAFKA_VERSION

    def start(self, props: Mapping[str, str]) -> None:
        config = self._config = _checked(props)
        self._store = object_store(config["object.url"], props)
        self._target = object_store(config["object.move.url"], props).root if self._moves else None
        self._is_one_file = False
        """Whether the URL names a file, and not a folder of files."""
        self._topic: str = config["topic"]
        self._settings = RowSettings.of(config, is_declared=bool(declarations(props, is_sink=False)))
        self._progress = Progress(
            number=int(props.get(TASK, "0")),
            tasks=int(props.get(TASKS, "1")),
            order=config["object.order"],
            changed=config["object.changed"],
            min_age_s=config["object.min.age.ms"] / 1000,
            settle_s=config["object.settle.ms"] / 1000 if self._store.grows else 0.0,
            keeps=config["object.after"] == KEEP,
        )
        self._open: OpenObject | None = None
        self._next_listing = 0.0
        self._without_rows: dict[str, Place] = {}  # by path: objects that no row says is done, until that is committed
        self._reported: set[tuple[str, str]] = set()
        self._has_letters = False  # whether rows were given up that no record came behind, with which they are written

    @property
    def _moves(self) -> bool:
        return bool(self._config["object.after"] == MOVE)

    def poll(self) -> RecordBatch | list[SourceRecord] | None:
        """The next block of rows; None when a listing has nothing new, after waiting for the next."""
        self._finish_objects()
        if self._open is None and not self._open_next():
            self.context.wait(max(0.0, self._next_listing - time.monotonic()))
            return None
        opened = self._open
        assert opened is not None
        try:
            rows = opened.next_rows()
        except RetriableError:
            self._close()
            self._progress.postpone(opened.place)
            raise
        except DataError as err:
            if not (opened.is_unreadable and self._progress.is_cut_off(opened.place.path)):
                raise
            self._close()
            self._pause(opened.place, err)
            return None
        if opened.is_over:
            self._close()
        if rows is None:
            self._has_letters |= opened.has_given_up
            if opened.is_done:
                self._without_rows[opened.place.path] = replace(opened.place, done=True)
            else:
                self._progress.pause(opened.place)
            return None
        self._has_letters = False
        self._without_rows.pop(opened.place.path, None)  # what was in it before
        polled = opened.polled(rows, self._topic)
        if opened.is_over and not opened.is_done:
            self._progress.pause(opened.place)
        else:
            self._progress.reached(opened.place)
        return polled

    def stop(self) -> None:
        """Also deletes or moves what was committed last."""
        self._close()
        try:
            self._finish_objects()
        except RetriableError as err:
            log.warning("%s; it is done at the next start", err)
        for path in self._progress.paused():
            log.warning("%s was written up to now. What it has behind its last whole line is read later", path)

    def update_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
        """Adds objects without rows, and takes out those that are gone; notes which are done with this commit.

        An object without further rows is said until its offset is committed: earlier rows of it may be on their way.
        """
        empty = [] if self._has_letters else list(self._without_rows.values())
        done = [(partition_of(place.path), place.offset()) for place in empty]
        self._progress.committing([*offsets, *done])
        return [*done, *((partition_of(path), None) for path in self._progress.take_gone())]

    def commit(self) -> None:
        self._progress.committed()

    # --- objects ---

    def _open_next(self) -> bool:
        while (place := self._next_place()) is not None:
            log.info("Reading %s%s", place.path, f" from row {place.row + 1}" if place.row else "")
            try:
                self._open = OpenObject(
                    self._store,
                    place,
                    self._settings,
                    self._topic,
                    self.context.report_errant,
                    ends=self._progress.is_settled(place.path),
                )
                return True
            except RetriableError:
                self._progress.postpone(place)
                raise
            except ConnectError as err:
                if not isinstance(err.__cause__, FileNotFoundError):
                    raise
                log.warning("%s is gone since it was listed", place.path)
        return False

    def _next_place(self) -> Place | None:
        place = self._progress.next()
        if place is None and time.monotonic() >= self._next_listing:
            self._list()
            place = self._progress.next()
        return place

    def _list(self) -> None:
        self._next_listing = time.monotonic() + self._config["poll.interval.ms"] / 1000
        found = self._chosen()
        self._tell(found)
        mine = self._progress.mine(found.files)
        unknown = self._progress.unknown(mine)
        reader = self.context.offset_storage_reader()
        for start in range(0, len(unknown), _OFFSETS_AT_ONCE):
            part = unknown[start : start + _OFFSETS_AT_ONCE]
            kept = reader.offsets([partition_of(one.path) for one in part])
            self._progress.learn(dict(zip((one.path for one in part), kept, strict=True)))
        for reported in self._progress.plan(mine, time.time()):
            log.warning("%s", reported)

    def _chosen(self) -> Chosen:
        if self._is_one_file:  # deleted or moved when it was read, and read again once it is written again
            return self._one_file()
        try:
            listed = self._store.listing(besides=self._target)
        except ConnectError as err:
            if not isinstance(err.__cause__, FileNotFoundError) or not PurePath(self._store.root).suffix:
                raise
            # As FileStreamSource waits for its file: it may come, or was deleted or moved before a restart
            log.warning("%s does not exist; it is read when it is written", self._store.root)
            self._is_one_file = True
            return self._one_file()
        if [one.path for one in listed] == [self._store.root]:
            self._is_one_file = True
            return Chosen(listed)
        pattern, hidden = self._config["object.pattern"], self._config["object.hidden"]
        return chosen(listed, self._store.at(""), pattern, hidden=hidden)

    def _one_file(self) -> Chosen:
        now = self._store.find(self._store.root)
        return Chosen([] if now is None else [now])

    def _tell(self, found: Chosen) -> None:
        """What must be known of folders; each once."""
        for folder in found.written:
            self._tell_once(
                folder, "%s waits: a job writes into it now, or was killed and left its %s there", "_temporary"
            )
        for folder in found.delta:
            advice = (
                "%s is a table of Delta Lake: files that its log (%s) removed are read, too. SparkSource reads its rows"
            )
            self._tell_once(folder, advice, "_delta_log")

    def _tell_once(self, folder: str, what: str, name: str) -> None:
        if (folder, name) not in self._reported:
            self._reported.add((folder, name))
            log.warning(what, self._store.at(folder), name)

    def _pause(self, place: Place, error: DataError) -> None:
        """Wait with an object that may be incomplete."""
        self._progress.pause(place, is_cut_off=True)
        if (place.path, place.etag) not in self._reported:
            self._reported.add((place.path, place.etag))
            log.info("%s. It was written a moment ago, and is read again when it is complete", error)

    def _finish_objects(self) -> None:
        """Delete or move what is done, as long as it is what was read."""
        after = self._config["object.after"]
        for place in self._confirmed():
            if self._without_rows.get(place.path) == place:
                del self._without_rows[place.path]
            if after not in (DELETE, MOVE):
                continue
            now = self._store.find(place.path)
            if now is not None and now.etag != place.etag:
                log.warning("%s has changed since it was read; object.after=%s is not done with it", place.path, after)
                continue
            if now is not None and after == DELETE:
                self._store.remove(place.path)
            elif now is not None and self._target is not None:
                below = place.path[len(self._store.root) :] or "/" + place.path.rsplit("/", 1)[-1]
                self._store.move(place.path, self._target + below)
            self._progress.gone(place.path)

    def _confirmed(self) -> list[Place]:
        """Gives, of what counts as finished, that whose committed offset says so; the others are looked at again later.

        A commit may have been followed by the question for the next one before the task heard of it. Objects that stay
        and that a row says are done need no look.
        """
        places = list(self._progress.finished)
        self._progress.finished.clear()
        if self._config["object.after"] == KEEP:
            places = [place for place in places if self._without_rows.get(place.path) == place]
        if not places:
            return []
        kept = self.context.offset_storage_reader().offsets([partition_of(place.path) for place in places])
        pairs = zip(places, kept, strict=True)
        return [place for place, offset in pairs if offset and Place.of(place.path, offset) == place]

    def _close(self) -> None:
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()


# What Hadoop, Spark, browsers and copying programs call files that are not complete, or no data
_NO_DATA = re.compile(
    r".*(?:\.tmp|\.temp|\.part|\.partial|\.crc|\.inprogress|\.in-progress|\.crdownload|\.filepart|\._COPYING_|~)"
    r"|.*\.inprogress\.[^/]*",
    re.IGNORECASE,
)
# A job of Hadoop's or Spark's has its results in it until they are committed
_JOB = "_temporary"
_DELTA_LOG = "_delta_log"


@dataclass(frozen=True, slots=True)
class Chosen:
    """What to read, and folders that something must be said of; paths are below the URL, "" is the URL's own folder."""

    files: list[Found]
    written: tuple[str, ...] = ()
    """Folders that a job writes into now: files below them wait."""
    delta: tuple[str, ...] = ()
    """Folders of Delta tables: files that their log has removed are among those to read."""


def chosen(found: Sequence[Found], prefix: str, pattern: str, *, hidden: bool = False) -> Chosen:
    """What of a listing to read. `prefix` is what all paths begin with.

    `hidden`: also what counts as no data, as with a pattern that has such names itself: _in/*.csv.
    """
    hidden = hidden or any(part[:1] in ("_", ".") for part in pattern.split("/"))
    matches = re.compile(glob_regex(pattern), re.DOTALL).fullmatch
    below = [(one, one.path[len(prefix) :]) for one in found]
    written = tuple(sorted({folder for _, path in below if (folder := _holder(path, _JOB)) is not None}))
    delta = tuple(sorted({folder for _, path in below if (folder := _holder(path, _DELTA_LOG)) is not None}))
    files = [
        one
        for one, path in below
        if not one.path.endswith("/")
        and matches(path)
        and (hidden or not is_hidden(path))
        and not any(path.startswith(folder) for folder in written)
    ]
    return Chosen(files, written, delta)


def is_hidden(path: str) -> bool:
    """Whether a file is no data: its name or a folder's begins with _ or ., or it ends as unfinished ones do.

    Folders such as _day=1 are columns, as for Spark.
    """
    parts = path.split("/")
    if any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in parts):
        return True
    return bool(_NO_DATA.fullmatch(parts[-1]))


def _holder(path: str, name: str) -> str | None:
    """The folder in which there is one of this name, with its slash; None if the path does not lead through one."""
    folder, sign, _ = f"/{path}".partition(f"/{name}/")
    return (folder[1:] + "/").lstrip("/") if sign else None


def glob_regex(pattern: str) -> str:
    """A pattern of paths as a regular expression: `*` and `?` stay in a folder, `**` goes below, {a,b} is either."""
    found, at = "", 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            found, at = found + "(?:.*/)?", at + 3
        elif pattern.startswith("**", at):
            found, at = found + ".*", at + 2
        elif pattern[at] == "*":
            found, at = found + "[^/]*", at + 1
        elif pattern[at] == "?":
            found, at = found + "[^/]", at + 1
        elif pattern[at] == "{" and "}" in pattern[at:]:
            end = pattern.index("}", at)
            found += "(?:" + "|".join(glob_regex(part) for part in pattern[at + 1 : end].split(",")) + ")"
            at = end + 1
        elif pattern[at] == "[" and "]" in pattern[at:]:
            end = pattern.index("]", at)
            found += fnmatch.translate(pattern[at : end + 1])[4:-3]
            at = end + 1
        else:
            found, at = found + re.escape(pattern[at]), at + 1
    return found

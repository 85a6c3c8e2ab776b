"""Which files of a listing are data, and what waits for a job that writes now. Pure."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kconnect.builtin.stores.file_store import Found

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
    matches = re.compile(glob_regex(pattern)).fullmatch
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

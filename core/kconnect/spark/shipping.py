"""What a worker ships to the executors of a cluster: kconnect itself, and the folders of `plugin.path`.

Each is one zip, built once per content and cached; Spark unpacks it beside every executor. A driver serves it as
long as it runs, so each application has a hard link of its own, and old zips can leave the cache at any time.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import kconnect
from kconnect.errors import EnvironmentProblemError, TimedOutError
from kconnect.files.file_turn import turn

log = logging.getLogger(__name__)

LIBRARY: Final = "kconnect-lib"
"""Folder beside an executor into which kconnect is unpacked."""
# Zips of one kind kept in the cache: those of the latest upgrades.
_KEPT: Final = 5
# A folder of this size takes seconds per executor; the operator may prefer to put it into an image.
_LARGE_BYTES: Final = 200 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Shipment:
    """A folder to ship. `prefix`: its parent folder in the zip; `unpacked_as`: the folder at the executor."""

    source: Path
    prefix: str
    unpacked_as: str


def shipments(plugin_path: str | None) -> list[Shipment]:
    """What to ship: kconnect and each existing folder of `plugin.path`; the worker has warned about the others."""
    ships = [Shipment(Path(kconnect.__file__).parent, "kconnect", LIBRARY)]
    elements = [Path(part.strip()).expanduser().absolute() for part in (plugin_path or "").split(",") if part.strip()]
    folders = [folder for folder in elements if folder.is_dir()]
    return ships + [Shipment(folder, "", plugin_folder_name(number)) for number, folder in enumerate(folders)]


def plugin_folder_name(number: int) -> str:
    return f"kconnect-plugins-{number}"


def pack(ship: Shipment, cache: Path, into: Path) -> Path:
    """The zip of a shipment, linked into the application's folder. Built when the cache has none of this content.

    Errors: OSError when the cache or the source cannot be read or written.
    """
    files = sorted(_files(ship.source))
    stem = f"{ship.unpacked_as}-{kconnect.__version__}"
    packed = cache / f"{stem}-{_state_of(ship, files)}.zip"
    if not packed.exists():
        size = sum(path.stat().st_size for path, _ in files)
        if size > _LARGE_BYTES:
            log.warning("%s has %d MB and is shipped to every executor", ship.source, size // 1024**2)
        _make(packed, ship, files)
        _sweep(packed, stem)
    linked = into / packed.name
    if not linked.exists():
        try:
            os.link(packed, linked)
        except OSError:  # another file system
            shutil.copyfile(packed, linked)
    return linked


def _files(source: Path) -> Iterator[tuple[Path, str]]:
    """Files below a folder with their relative names; follows links, except one to a parent folder."""
    for folder, names, files in os.walk(source, followlinks=True):
        here = Path(folder)
        real = here.resolve()
        names[:] = [
            name
            for name in names
            if name != "__pycache__"
            and not name.startswith(".")
            and (here / name).resolve() not in (real, *real.parents)
        ]
        for name in files:
            path = here / name
            if path.suffix != ".pyc" and path.is_file():
                yield path, path.relative_to(source).as_posix()


def _state_of(ship: Shipment, files: list[tuple[Path, str]]) -> str:
    """A hash of source and file metadata; contents are not read, since a plugin folder may be large."""
    mark = hashlib.sha256(str(ship.source).encode())
    for path, name in files:
        found = path.stat()
        mark.update(f"\0{name}\0{found.st_size}\0{found.st_mtime_ns}".encode())
    return mark.hexdigest()[:16]


def _make(packed: Path, ship: Shipment, files: list[tuple[Path, str]]) -> None:
    packed.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=packed.stem, suffix=".tmp", dir=packed.parent)
    try:
        with (
            os.fdopen(handle, "wb") as file,
            zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as made,
        ):
            for path, name in files:
                made.write(path, f"{ship.prefix}/{name}" if ship.prefix else name)
            if not files:
                made.writestr("empty", "")  # Spark cannot unpack a zip without an entry
        os.replace(temporary, packed)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _sweep(packed: Path, stem: str) -> None:
    kind = stem.rpartition("-")[0]
    others = sorted(packed.parent.glob(f"{kind}-*.zip"), key=lambda path: path.stat().st_mtime, reverse=True)
    for old in others[_KEPT:]:
        old.unlink(missing_ok=True)


@contextmanager
def package_turn(spark: Mapping[str, str], cache: Path, timeout_s: float, stopping: threading.Event) -> Iterator[None]:
    """Inside, no other worker of this user fetches packages; at once where there are none to fetch.

    Errors: TimedOutError; EnvironmentProblemError when the worker stops meanwhile, or the folder cannot be written.
    """
    packages = spark.get("spark.jars.packages", "").strip()
    if not packages:
        yield
        return
    lock = cache / "spark-packages.lock"
    with ExitStack() as held:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            waits = turn(lock, timeout_s, stopping=stopping, when_taken=lambda: _tell(packages))
            is_ours = held.enter_context(waits)
        except OSError as error:
            raise EnvironmentProblemError(
                f"Cannot write {lock}, which lets one worker at a time fetch spark.jars.packages: {error}",
                hint="Set KCONNECT_CACHE to a folder that can be written.",
            ) from error
        if not is_ours and stopping.is_set():
            raise EnvironmentProblemError("The worker stops")
        if not is_ours:
            raise TimedOutError(
                f"Another worker has been fetching spark.jars.packages for {timeout_s:g} s "
                f"(kconnect.slot.start.timeout.ms; lock {lock})",
                hint="Look at that worker's log, or end it.",
            )
        yield


def _tell(packages: str) -> None:
    log.info("Another worker of this user is fetching packages for Spark; waiting for it to fetch %s", packages)

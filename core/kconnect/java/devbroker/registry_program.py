"""The program of the development registry: Apicurio Registry's archive, fetched and unpacked once into the cache."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from importlib import resources
from pathlib import Path

from kconnect.errors import EnvironmentProblemError
from kconnect.files.folders import cache_folder
from kconnect.java.maven import ArtifactSet, Jar, Progress, read_lock

_TITLE = "The schema registry's files"


def locked_registry() -> Jar:
    """The one artifact of the lock file."""
    (archive,) = read_lock(resources.files(__package__).joinpath("registry.lock").read_text("utf-8"))
    return archive


def registry_jar(progress: Progress | None = None) -> Path:
    """The jar that starts the registry, with its libraries beside it; no network when it is there.

    Errors: UnreachableError, EnvironmentProblemError, TimedOutError as those of ArtifactSet.fetch.
    """
    archive = locked_registry()
    target = cache_folder() / "registry" / archive.file_name.removesuffix("-all.tar.gz")
    if not target.is_dir():
        downloads = ArtifactSet(_TITLE, target.parent, [archive])
        (packed,) = downloads.fetch(progress)
        try:
            _unpack(packed, target)
            packed.unlink(missing_ok=True)  # 109 MB that nobody needs again
        except (OSError, tarfile.TarError) as err:
            raise EnvironmentProblemError(
                f"{_TITLE} cannot be unpacked to the cache folder {target.parent}: {err}",
                hint="Free some space there (130 MB), or name another folder in KCONNECT_CACHE.",
            ) from err
    return _runner(target)


def _unpack(packed: Path, target: Path) -> None:
    """Into place as a whole; another process may be first."""
    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=".unpack-"))
    try:
        with tarfile.open(packed) as archive:
            if hasattr(tarfile, "data_filter"):
                archive.extractall(staging / "it", filter="data")
            else:  # Python before 3.11.4; the checksum of the archive was right
                archive.extractall(staging / "it")
        _runner(staging / "it")
        try:
            os.replace(staging / "it", target)
        except OSError:
            if not target.is_dir():
                raise
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _runner(folder: Path) -> Path:
    for found in folder.glob("*-runner.jar"):
        return found
    raise EnvironmentProblemError(
        f"{folder} is damaged: it has no runner jar.", hint="Delete that folder; it is fetched again at the next start."
    )

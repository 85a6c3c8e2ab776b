"""The class archive of the broker's JVM: it halves the start, 2.0 s to 1.0 s measured on 2 cores.

`python -m kconnect.java.devbroker.make_archive` makes it: a broker writes it when it ends, which takes 1.7 s more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kconnect.java.archives import RECORDS_AT_EXIT, ClassArchive
from kconnect.java.installed import Java


def broker_archive(cache: Path, java: Java, jars: Sequence[Path], options: Sequence[str]) -> ClassArchive | None:
    """The archive for this Java, class path and options; None for a broker that writes one itself.

    The JVM refuses an archive of another build, class path, jar time or collector.
    """
    if any(option.startswith(RECORDS_AT_EXIT) for option in options):
        return None
    facts = [java.version, str(java.executable.resolve()), *filter(_matters, options)]
    facts += [f"{jar}:{stat.st_size}:{stat.st_mtime_ns}" for jar in jars if (stat := jar.stat())]
    return ClassArchive(cache / "jvm", "broker", facts)


def _matters(option: str) -> bool:
    """Whether a JVM with the option may need another archive; classes are the same whatever compiles them."""
    return option.startswith("-XX:") and not option.startswith("-XX:TieredStopAtLevel=")

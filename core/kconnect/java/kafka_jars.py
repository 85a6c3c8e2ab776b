"""Kafka's own jars from its Maven artifacts, locked: `maven.py` fetches and checks them.

resolution.py resolves the artifacts when the lock is made: `python -m kconnect.java.kafka_jars`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from kconnect.errors import ConnectError
from kconnect.files.folders import cache_folder
from kconnect.java.maven import ArtifactSet, Jar, read_lock

KAFKA_VERSION = "4.3.0"
BROKER = "broker"
CONNECT = "connect"
_LOCK_NAME = f"kafka-{KAFKA_VERSION}.lock"
_ROOTS = {
    BROKER: (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",),
    CONNECT: tuple(
        f"org.apache.kafka:{name}:{KAFKA_VERSION}"
        for name in (
            "kafka_2.13",
            "connect-runtime",
            "connect-file",
            "connect-json",
            "connect-transforms",
            "connect-basic-auth-extension",
            "connect-mirror",
        )
    ),
}
# Kafka logs through slf4j 1.7; this is the binding its release ships. Resolved apart from Kafka: jgo applies the
# versions an artifact's parent manages to all it resolves with it, and the parent of this one manages an old
# kafka-clients.
_LOG_BINDING = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"


def locked_jars(name: str = BROKER) -> list[Jar]:
    """The jars of one set, `broker` or `connect`, in class path order."""
    text = resources.files(__package__).joinpath(_LOCK_NAME).read_text("utf-8")
    return [jar for jar in read_lock(text) if name in jar.sets]


class JarSet(ArtifactSet):
    """Kafka's jars of one set; `fetch()` gives the class path."""

    def __init__(self, name: str = BROKER, *, folder: Path | None = None, jars: Sequence[Jar] | None = None) -> None:
        super().__init__(
            "Kafka's jars",
            folder or cache_folder() / "jars" / f"kafka-{KAFKA_VERSION}",
            jars if jars is not None else locked_jars(name),
        )


def _make_lock(target: Path) -> None:
    """Resolve the roots again and write the lock; for maintainers, after a change of the Kafka version."""
    from kconnect.java.resolution import Coordinate, Found, Resolver  # jgo takes 0.2 s, and only this needs it

    with tempfile.TemporaryDirectory() as folder, Resolver("Kafka's jars") as resolver:
        sets: dict[str, set[str]] = {}
        artifacts: dict[str, Found] = {}
        for name, roots in _ROOTS.items():
            for root in (*roots, _LOG_BINDING):
                for found in resolver.resolve(Coordinate(*root.split(":"))).found:
                    it = found.coordinate
                    if it.packaging != "jar" or it.classifier:
                        raise ConnectError(f"{it} is not a plain jar: the lock has no form for it")
                    if str(it) not in artifacts and it.artifact in {known.split(":")[1] for known in artifacts}:
                        continue  # the log binding depends on another version: Kafka's own choice is kept
                    sets.setdefault(str(it), set()).add(name)
                    artifacts[str(it)] = found
        lines = ["# Kafka's jars: sets, SHA-256, bytes, Maven coordinate. Made by: python -m kconnect.java.kafka_jars"]
        for key in sorted(artifacts):
            jar = resolver.fetch(artifacts[key], Path(folder)).result()
            lines.append(f"{','.join(sorted(sets[key]))} {jar.sha256} {jar.size_bytes} {key}")
        staged = target.with_suffix(".new")
        staged.write_text("\n".join(lines) + "\n", "utf-8")
        shutil.move(staged, target)


if __name__ == "__main__":
    _make_lock(Path(__file__).with_name(_LOCK_NAME))
    sys.stderr.write(f"wrote {_LOCK_NAME}\n")

"""Kafka's own jars from its Maven artifacts, locked: `maven.py` fetches and checks them.

jgo resolves the artifacts when the lock is made: `python -m kconnect.java.kafka_jars.jars`.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from kconnect.errors import ConnectError
from kconnect.files.folders import cache_folder
from kconnect.java.maven import ArtifactSet, Jar, maven_context, read_lock

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
    with tempfile.TemporaryDirectory() as folder:
        context = maven_context(Path(folder))
        sets: dict[str, set[str]] = {}
        artifacts: dict[str, Any] = {}
        for name, roots in _ROOTS.items():
            for group in (roots, (_LOG_BINDING,)):
                inputs, transitive = context.resolver.resolve([context.create_dependency(root) for root in group])
                for dependency in [*inputs, *transitive]:
                    if dependency.type != "jar" or dependency.classifier:
                        raise ConnectError(f"{dependency} is not a plain jar: the lock has no form for it")
                    key = f"{dependency.groupId}:{dependency.artifactId}:{dependency.version}"
                    if key not in artifacts and dependency.artifactId in {known.split(":")[1] for known in artifacts}:
                        continue  # the log binding depends on another version: Kafka's own choice is kept
                    sets.setdefault(key, set()).add(name)
                    artifacts[key] = dependency.artifact
        lines = [
            "# Kafka's jars: sets, SHA-256, bytes, Maven coordinate. Made by: python -m kconnect.java.kafka_jars.jars"
        ]
        for key in sorted(artifacts):
            data = Path(artifacts[key].resolve()).read_bytes()
            lines.append(f"{','.join(sorted(sets[key]))} {hashlib.sha256(data).hexdigest()} {len(data)} {key}")
        staged = target.with_suffix(".new")
        staged.write_text("\n".join(lines) + "\n", "utf-8")
        shutil.move(staged, target)


if __name__ == "__main__":
    _make_lock(Path(__file__).with_name(_LOCK_NAME))
    sys.stderr.write(f"wrote {_LOCK_NAME}\n")

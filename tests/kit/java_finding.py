"""Folders of Java plugins in several versions, compiled once from tests/kit/java_sources_found."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from kconnect.files.folders import cache_folder
from kconnect.java.devbroker import JarSet, find_java
from kconnect.java.maven import ArtifactSet, read_lock
from kit.java_compiled import compiled

__all__ = ["FOUND", "found_folder", "kafka_tool"]

_SOURCES = Path(__file__).with_name("java_sources_found")
_PLACEHOLDER = b"0.0.0"
_NEEDED = (
    *("jopt-simple", "kafka-server-4"),  # of kafka-acls
    *("connect-api", "connect-json", "connect-runtime", "connect-transforms", "kafka-clients", "kafka-server-common"),
    *("argparse4j", "classgraph", "jackson-", "jakarta.ws.rs", "maven-artifact", "slf4j-api"),
)
FOUND: Mapping[str, tuple[str, ...]] = {
    "org.apache.kafka.connect.source.SourceConnector": ("Ticker",),
    "org.apache.kafka.connect.transforms.Transformation": ("Stamp",),
    "org.apache.kafka.connect.transforms.predicates.Predicate": ("Always",),
    "org.apache.kafka.connect.storage.Converter": ("Words",),
    "org.apache.kafka.connect.storage.HeaderConverter": ("Words",),
    "org.apache.kafka.common.config.provider.ConfigProvider": ("Vault",),
    "org.apache.kafka.connect.connector.policy.ConnectorClientConfigOverridePolicy": (
        "StrictConnectorClientConfigOverridePolicy",
    ),
    "org.apache.kafka.connect.rest.ConnectRestExtension": ("Guard",),
}
"""What the manifests name, by Java's interface; without the prefix found.Found$."""


def found_folder(folder: Path, version: str, *, only: Collection[str] = (), manifest: bool = True) -> Path:
    """A plugin folder whose plugins say that they have a version of five characters; gives the folder.

    `only`: these classes, without their prefix; else all. `manifest`: whether META-INF/services names them.
    """
    folder.mkdir(parents=True)
    assert len(version) == len(_PLACEHOLDER)
    with zipfile.ZipFile(folder / f"found-{version}.jar", "w") as jar:
        for name, data in _classes().items():
            outer = name.removesuffix(".class").partition("$")[2].partition("$")[0]
            if not only or not outer or outer.removesuffix("Task") in only:
                jar.writestr(name, data.replace(_PLACEHOLDER, version.encode()))
        for interface, names in FOUND.items() if manifest else ():
            kept = [f"found.Found${name}" for name in names if not only or name in only]
            if kept:
                jar.writestr(f"META-INF/services/{interface}", "\n".join(kept) + "\n")
    return folder


@cache
def _classes() -> Mapping[str, bytes]:
    with zipfile.ZipFile(compiled(_SOURCES)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def kafka_tool(main: str, *arguments: str) -> str:
    """What a tool of Kafka's prints: a class of org.apache.kafka.tools. Errors: AssertionError when it fails."""
    lock = read_lock(Path(__file__).with_name("kafka-tools.lock").read_text())
    tools = ArtifactSet("Kafka's tools", cache_folder() / "jars" / "kafka-tools", lock).fetch()
    # Its scan reads every class on the class path, for each folder
    jars = [jar for jar in {*JarSet("connect").fetch(), *JarSet().fetch()} if jar.name.startswith(_NEEDED)]
    command = [
        str(find_java("tests").executable),
        "-XX:TieredStopAtLevel=1",
        "-cp",
        os.pathsep.join(map(str, [*tools, *jars])),
    ]
    done = subprocess.run(
        [*command, f"org.apache.kafka.tools.{main}", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout

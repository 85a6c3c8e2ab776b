"""A folder of Java plugins for tests, compiled from tests/kit/java_sources."""

from __future__ import annotations

import zipfile
from pathlib import Path

from kconnect.devbroker import JarSet, find_java
from kconnect.java_plugins.program import compile_host

__all__ = ["java_plugin_folder"]

_SOURCES = Path(__file__).with_name("java_sources")
_SERVICES = {
    "org.apache.kafka.connect.transforms.Transformation": ("kit.TestPlugins$Identity", "kit.TestPlugins$Misbehaves"),
    "org.apache.kafka.connect.source.SourceConnector": ("kit.TestPlugins$Numbers",),
}


def java_plugin_folder(path: Path) -> Path:
    """A plugin.path with one folder `kit` in it, which lacks the class kit.Missing; gives the plugin.path."""
    folder = path / "kit"
    folder.mkdir(parents=True)
    jar = folder / "kit.jar"
    compile_host(find_java("tests"), sorted(_SOURCES.rglob("*.java")), JarSet("connect").fetch(), jar)
    whole = jar.read_bytes()
    spare = path / ".spare"
    spare.write_bytes(whole)
    with zipfile.ZipFile(spare) as given, zipfile.ZipFile(jar, "w") as made:
        for name in given.namelist():
            if name != "kit/Missing.class":
                made.writestr(name, given.read(name))
        for interface, classes in _SERVICES.items():
            made.writestr(f"META-INF/services/{interface}", "\n".join(classes) + "\n")
    spare.unlink()
    return path

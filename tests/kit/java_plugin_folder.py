"""A folder of Java plugins for tests, compiled from tests/kit/java_sources."""

from __future__ import annotations

import zipfile
from pathlib import Path

from kconnect.java.devbroker import JarSet
from kit.java_compiled import compiled

__all__ = ["java_plugin_folder"]

_SOURCES = Path(__file__).with_name("java_sources")
_SERVICES = {
    "org.apache.kafka.connect.transforms.Transformation": (
        "kit.TestPlugins$Identity",
        "kit.TestPlugins$Misbehaves",
        "kit.TestPlugins$Counted",
        "kit.TestPlugins$Once",
        "kit.Beans",
        "kit.Guarded",
    ),
    "org.apache.kafka.connect.transforms.predicates.Predicate": ("kit.TestPlugins$Ends", "kit.Guarded$Guard"),
    "org.apache.kafka.connect.storage.Converter": ("kit.Heading",),
    "org.apache.kafka.connect.source.SourceConnector": (
        "kit.TestPlugins$Numbers",
        "kit.TestPlugins$Shapes",
        "kit.TestPlugins$Reported",
        "kit.RecordedSource",
        "kit.JavaLines",
        "kit.Faulty$Source",
        "kit.Monitored",
    ),
    "org.apache.kafka.connect.sink.SinkConnector": (
        "kit.TestPlugins$Obeying",
        "kit.RecordedSink",
        "kit.Reaching",
        "kit.JavaFile",
        "kit.Faulty$Sink",
    ),
}


def java_plugin_folder(path: Path) -> Path:
    """A plugin.path with one folder `kit` in it, which lacks the class kit.Missing; gives the plugin.path.

    Kafka's file connectors are in the folder as well, where Java's worker looks for what extends them.
    """
    folder = path / "kit"
    folder.mkdir(parents=True)
    jar = folder / "kit.jar"
    jars = JarSet("connect").fetch()
    (files,) = (found for found in jars if found.name.startswith("connect-file"))
    with zipfile.ZipFile(compiled(_SOURCES)) as given, zipfile.ZipFile(jar, "w") as made:
        for name in given.namelist():
            if name != "kit/Missing.class":
                made.writestr(name, given.read(name))
        for interface, classes in _SERVICES.items():
            made.writestr(f"META-INF/services/{interface}", "\n".join(classes) + "\n")
        with zipfile.ZipFile(files) as given:
            for name in given.namelist():
                if name.endswith(".class"):
                    made.writestr(name, given.read(name))
    return path

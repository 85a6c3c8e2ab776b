"""Java's loggers and ours that say the same things, for levels that were written for a Java worker. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

_CONNECT: Final = "org.apache.kafka.connect"
OURS: Final[Mapping[str, tuple[str, ...]]] = {
    "org.apache.kafka": ("kconnect",),
    _CONNECT: ("kconnect",),
    f"{_CONNECT}.cli": ("kconnect.worker",),
    f"{_CONNECT}.file": ("kconnect.builtin.connectors",),
    f"{_CONNECT}.json": ("kconnect.builtin.converters",),
    f"{_CONNECT}.runtime": (
        "kconnect.herder",
        "kconnect.pipeline",
        "kconnect.plugins",
        "kconnect.rest",
        "kconnect.worker",
    ),
    f"{_CONNECT}.runtime.AbstractHerder": ("kconnect.herder",),
    f"{_CONNECT}.runtime.AbstractWorkerSourceTask": ("kconnect.pipeline.source",),
    f"{_CONNECT}.runtime.ExactlyOnceWorkerSourceTask": ("kconnect.pipeline.exactly_once",),
    f"{_CONNECT}.runtime.SourceTaskOffsetCommitter": ("kconnect.pipeline.at_least_once",),
    f"{_CONNECT}.runtime.Worker": ("kconnect.worker", "kconnect.pipeline.host"),
    f"{_CONNECT}.runtime.WorkerConnector": ("kconnect.herder.connectors",),
    f"{_CONNECT}.runtime.WorkerSinkTask": ("kconnect.pipeline.sink", "kconnect.pipeline.sink_commits"),
    f"{_CONNECT}.runtime.WorkerSourceTask": ("kconnect.pipeline.source",),
    f"{_CONNECT}.runtime.WorkerTask": ("kconnect.pipeline",),
    f"{_CONNECT}.runtime.distributed": ("kconnect.herder",),
    f"{_CONNECT}.runtime.distributed.DistributedHerder": ("kconnect.herder.cluster",),
    f"{_CONNECT}.runtime.distributed.IncrementalCooperativeAssignor": ("kconnect.herder.assignment",),
    f"{_CONNECT}.runtime.distributed.WorkerCoordinator": ("kconnect.herder.group",),
    f"{_CONNECT}.runtime.distributed.WorkerGroupMember": ("kconnect.herder.group",),
    f"{_CONNECT}.runtime.errors": ("kconnect.pipeline.tolerance", "kconnect.pipeline.dead_letter"),
    f"{_CONNECT}.runtime.isolation": ("kconnect.plugins",),
    f"{_CONNECT}.runtime.rest": ("kconnect.rest",),
    f"{_CONNECT}.runtime.rest.RestServer": ("kconnect.rest",),
    f"{_CONNECT}.runtime.standalone": ("kconnect.herder.standalone",),
    f"{_CONNECT}.storage": ("kconnect.storage",),
    f"{_CONNECT}.storage.KafkaConfigBackingStore": ("kconnect.storage.config_store",),
    f"{_CONNECT}.storage.KafkaOffsetBackingStore": ("kconnect.storage.topic_offsets",),
    f"{_CONNECT}.storage.KafkaStatusBackingStore": ("kconnect.storage.status_store",),
    f"{_CONNECT}.transforms": ("kconnect.builtin.transforms",),
    f"{_CONNECT}.util.KafkaBasedLog": ("kconnect.kafka.log",),
    "io.confluent.connect.avro": ("kconnect.schema_registry.avro",),
    "io.confluent.connect.json": ("kconnect.schema_registry.json_schema",),
    "io.confluent.connect.protobuf": ("kconnect.schema_registry.protobuf",),
    "io.confluent.kafka.schemaregistry": ("kconnect.schema_registry",),
    "org.apache.kafka.clients": ("kconnect.kafka", "kconnect.herder.group"),
    "org.apache.kafka.clients.NetworkClient": ("kconnect.kafka", "kconnect.herder.group"),
    "org.apache.kafka.clients.admin": ("kconnect.kafka.admin",),
    "org.apache.kafka.clients.consumer": ("kconnect.kafka.consumer",),
    "org.apache.kafka.clients.producer": ("kconnect.kafka.producer",),
    "org.apache.spark": ("kconnect.spark.jvm",),
    "org.eclipse.jetty": ("uvicorn",),
    "org.glassfish.jersey": ("starlette",),
}
"""Java's logger -> ours. Classes that have no like here are not in it, and their level changes nothing."""

_JAVA: Final = ("org.", "com.", "io.", "kafka.", "net.", "java.", "javax.", "jdk.")


class TranslatedLevels(NamedTuple):
    """Levels of our loggers, and the names of Java's that have none here."""

    levels: Mapping[str, int]
    unknown: tuple[str, ...]


def our_levels(levels: Mapping[str, int]) -> TranslatedLevels:
    """Levels by names of Java's loggers and ours, as levels of ours: what is meant more closely wins.

    A Python plugin's logger, and a Java name itself, keep the level under their own name: a plugin may use either.
    """
    found = dict(levels)
    unknown = []
    for name in sorted(levels, key=lambda name: (name.count("."), name)):
        for ours in OURS.get(name, ()):
            if ours not in levels:  # under its own name it is what the user meant
                found[ours] = levels[name]
        if name not in OURS and name.startswith(_JAVA):
            unknown.append(name)
    return TranslatedLevels(found, tuple(unknown))

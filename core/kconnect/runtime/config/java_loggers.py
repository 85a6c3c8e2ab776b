"""Java's loggers and ours that say the same things, for levels that were written for a Java worker. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kconnect.runtime.config.former_names import FORMER_ROOMS

_CONNECT: Final = "org.apache.kafka.connect"
OURS: Final[Mapping[str, tuple[str, ...]]] = {
    "org.apache.kafka": ("kconnect",),
    _CONNECT: ("kconnect",),
    f"{_CONNECT}.cli": ("kconnect.worker",),
    f"{_CONNECT}.file": ("kconnect.builtin.connectors",),
    f"{_CONNECT}.json": ("kconnect.builtin.converters",),
    f"{_CONNECT}.runtime": (
        "kconnect.runtime.herder",
        "kconnect.runtime.pipeline",
        "kconnect.runtime.plugins",
        "kconnect.runtime.rest",
        "kconnect.worker",
    ),
    f"{_CONNECT}.runtime.AbstractHerder": ("kconnect.runtime.herder",),
    f"{_CONNECT}.runtime.AbstractWorkerSourceTask": ("kconnect.runtime.pipeline.source",),
    f"{_CONNECT}.runtime.ExactlyOnceWorkerSourceTask": ("kconnect.runtime.pipeline.exactly_once",),
    f"{_CONNECT}.runtime.SourceTaskOffsetCommitter": ("kconnect.runtime.pipeline.at_least_once",),
    f"{_CONNECT}.runtime.Worker": ("kconnect.worker", "kconnect.runtime.pipeline.host"),
    f"{_CONNECT}.runtime.WorkerConnector": ("kconnect.runtime.herder.connectors",),
    f"{_CONNECT}.runtime.WorkerSinkTask": ("kconnect.runtime.pipeline.sink", "kconnect.runtime.pipeline.sink_commits"),
    f"{_CONNECT}.runtime.WorkerSourceTask": ("kconnect.runtime.pipeline.source",),
    f"{_CONNECT}.runtime.WorkerTask": ("kconnect.runtime.pipeline",),
    f"{_CONNECT}.runtime.distributed": ("kconnect.runtime.herder",),
    f"{_CONNECT}.runtime.distributed.DistributedHerder": ("kconnect.runtime.herder.cluster",),
    f"{_CONNECT}.runtime.distributed.IncrementalCooperativeAssignor": ("kconnect.runtime.herder.assignment",),
    f"{_CONNECT}.runtime.distributed.WorkerCoordinator": ("kconnect.runtime.herder.group",),
    f"{_CONNECT}.runtime.distributed.WorkerGroupMember": ("kconnect.runtime.herder.group",),
    f"{_CONNECT}.runtime.errors": ("kconnect.runtime.pipeline.tolerance", "kconnect.runtime.pipeline.dead_letter"),
    f"{_CONNECT}.runtime.isolation": ("kconnect.runtime.plugins",),
    f"{_CONNECT}.runtime.rest": ("kconnect.runtime.rest",),
    f"{_CONNECT}.runtime.rest.RestServer": ("kconnect.runtime.rest",),
    f"{_CONNECT}.runtime.standalone": ("kconnect.runtime.herder.standalone",),
    f"{_CONNECT}.storage": ("kconnect.runtime.storage",),
    f"{_CONNECT}.storage.KafkaConfigBackingStore": ("kconnect.runtime.storage.config_store",),
    f"{_CONNECT}.storage.KafkaOffsetBackingStore": ("kconnect.runtime.storage.topic_offsets",),
    f"{_CONNECT}.storage.KafkaStatusBackingStore": ("kconnect.runtime.storage.status_store",),
    f"{_CONNECT}.transforms": ("kconnect.builtin.transforms",),
    f"{_CONNECT}.util.KafkaBasedLog": ("kconnect.runtime.kafka.log",),
    "io.confluent.connect.avro": ("kconnect.builtin.schema_registry.avro",),
    "io.confluent.connect.json": ("kconnect.builtin.schema_registry.json_schema",),
    "io.confluent.connect.protobuf": ("kconnect.builtin.schema_registry.protobuf",),
    "io.confluent.kafka.schemaregistry": ("kconnect.builtin.schema_registry",),
    "org.apache.kafka.clients": ("kconnect.runtime.kafka", "kconnect.runtime.herder.group"),
    "org.apache.kafka.clients.NetworkClient": ("kconnect.runtime.kafka", "kconnect.runtime.herder.group"),
    "org.apache.kafka.clients.admin": ("kconnect.runtime.kafka.admin",),
    "org.apache.kafka.clients.consumer": ("kconnect.runtime.kafka.consumer",),
    "org.apache.kafka.clients.producer": ("kconnect.runtime.kafka.producer",),
    "org.apache.spark": ("kconnect.spark.jvm",),
    "org.eclipse.jetty": ("uvicorn",),
    "org.glassfish.jersey": ("starlette",),
    **{former: (room,) for former, room in FORMER_ROOMS.items()},
}
"""Java's logger, or a former name of ours -> ours. What has no like here is not in it: its level changes nothing."""

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

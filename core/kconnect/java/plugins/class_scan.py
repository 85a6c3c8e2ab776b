"""Which classes of a plugin's jars are plugins, by what they extend and implement: no JVM, and no manifest, is needed.

As Java's ReflectionScanner: public classes that are not abstract, of public classes only. Whether one can be loaded is
not known here.
Source: o.a.k.connect.runtime.isolation.ReflectionScanner, ClassGraph's defaults (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kconnect.java.plugins.class_files import JavaClass

BASES: Final[Mapping[str, str]] = {
    "org.apache.kafka.connect.sink.SinkConnector": "sink",
    "org.apache.kafka.connect.source.SourceConnector": "source",
    "org.apache.kafka.connect.storage.Converter": "converter",
    "org.apache.kafka.connect.storage.HeaderConverter": "header_converter",
    "org.apache.kafka.connect.transforms.Transformation": "transformation",
    "org.apache.kafka.connect.transforms.predicates.Predicate": "predicate",
}
"""What is searched for, with the names of the kinds. Other kinds are found by manifests alone, as in Java."""

_PACKAGE: Final = "org.apache.kafka.connect."
_TWO_SIDED: Final = (
    "Cast",
    "ExtractField",
    "Flatten",
    "HeaderFrom",
    "HoistField",
    "InsertField",
    "MaskField",
    "ReplaceField",
    "SetSchemaMetadata",
    "TimestampConverter",
)
_TRANSFORMS: Final = (
    *("DropHeaders", "Filter", "InsertHeader", "RegexRouter", "TimestampRouter", "ValueToKey"),
    *(f"{name}{side}" for name in _TWO_SIDED for side in ("", "$Key", "$Value")),
)
_BOTH: Final = (
    "converters.BooleanConverter",
    "converters.ByteArrayConverter",
    "json.JsonConverter",
    "storage.StringConverter",
)
OF_KAFKA: Final[Mapping[str, frozenset[str]]] = {
    **{f"{_PACKAGE}transforms.{name}": frozenset({"transformation"}) for name in _TRANSFORMS},
    **{
        f"{_PACKAGE}transforms.predicates.{name}": frozenset({"predicate"})
        for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
    },
    **{f"{_PACKAGE}{name}": frozenset({"converter", "header_converter"}) for name in _BOTH},
    f"{_PACKAGE}storage.SimpleHeaderConverter": frozenset({"header_converter"}),
    **{
        f"{_PACKAGE}mirror.Mirror{name}Connector": frozenset({"source"})
        for name in ("Source", "Checkpoint", "Heartbeat")
    },
}
"""Kafka's own public classes on every worker's class path that a plugin may extend."""


def plugin_classes(classes: Iterable[JavaClass]) -> dict[str, frozenset[str]]:
    """The plugins among the classes of one folder, with their kinds."""
    public = {found.name: found for found in classes if found.is_public}
    known = {name: kinds for name, kinds in OF_KAFKA.items() if name not in public}
    known |= {name: frozenset({kind}) for name, kind in BASES.items()}  # of the worker, whatever a folder brings

    def kinds(name: str) -> frozenset[str]:
        if name in known:
            return known[name]
        known[name] = frozenset()  # in a circle, which no JVM would load
        found = public.get(name)
        if found is not None:
            known[name] = frozenset().union(*(kinds(parent) for parent in found.parents))
        return known[name]

    return {name: kinds(name) for name, found in public.items() if found.is_concrete and kinds(name)}

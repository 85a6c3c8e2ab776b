"""The topics that a connector's transformations may give to records of a topic, read from its config. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kconnect.api import ConnectError
from kconnect.java.compat.regex import compile_java, replace_first

_ROUTER: Final = "RegexRouter"
# What Kafka and kconnect bring that leaves the topic as it is
_STAYING: Final = frozenset(
    {
        "Cast",
        "DropHeaders",
        "ExtractField",
        "Filter",
        "Flatten",
        "HeaderFrom",
        "HoistField",
        "InsertField",
        "InsertHeader",
        "MaskField",
        "ReplaceField",
        "SetSchemaMetadata",
        "TimestampConverter",
        "ValueToKey",
        "SqlTransform",
        "WithSchema",
    }
)


def possible_topics(config: Mapping[str, str], topic: str) -> set[str]:
    """The topic itself, and what RegexRouters make of it; behind a predicate it may stay as well.

    Errors: ConnectError for a transformation of which only a record can tell.
    """
    found = {topic}
    for alias in filter(None, (part.strip() for part in config.get("transforms", "").split(","))):
        settings = {name: config.get(f"transforms.{alias}.{name}", "") for name in ("type", "regex", "replacement")}
        name = settings["type"].rpartition(".")[2].rpartition(":")[2].partition("$")[0]
        if name in _STAYING:
            continue
        if name != _ROUTER:
            raise ConnectError(
                f"Transformation {alias} ({settings['type']}) may have moved records of {topic} to other topics, and "
                "the tables of these keep their offsets",
                hint="Delete the tables, or create the connector under another name, which is a new writer to them.",
            )
        pattern = compile_java(settings["regex"])
        found |= {replace_first(pattern, one, settings["replacement"]) for one in found if pattern.fullmatch(one)}
    return found

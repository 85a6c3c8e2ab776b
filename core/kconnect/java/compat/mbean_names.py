"""Names of MBeans: patterns that choose them, and the names that Prometheus gets by the JMX exporter's common rules."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from kconnect.errors import ConfigError

DEFAULT_MBEANS: Final = "debezium.*"
"""Is the default of `kconnect.java.mbeans`: what Debezium's users alert on."""
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_:]")
_MORE: Final = re.compile(r"_{2,}")
_DEBEZIUM: Final = "debezium."
_OF_CONNECTORS: Final = "connector-metrics"
# What Debezium's rules for the exporter call its properties; others keep their names
_LABELS: Final = {"server": "name", "key": "table"}


def object_name_patterns(text: str | None) -> list[str]:
    """The patterns of a list such as `debezium.*, kafka.producer:type=producer-metrics,*`; one of a domain alone means
    all in it.

    Errors: ConfigError for one that Java would refuse. Source: javax.management.ObjectName.
    """
    found: list[str] = []
    for part in filter(None, map(str.strip, (text or "").split(","))):
        goes_on = bool(found) and ":" in found[-1] and ":" not in part and ("=" in part or part == "*")
        if goes_on:
            found[-1] += f",{part}"
        else:
            found.append(part)
    return [_checked(pattern if ":" in pattern else f"{pattern}:*") for pattern in found]


def _checked(pattern: str) -> str:
    properties = pattern.partition(":")[2].split(",")
    keys = [each.partition("=")[0] for each in properties]
    if not all(each == "*" or re.fullmatch(r"[^=:*?]+=[^=:]+", each) for each in properties) or len({*keys}) < len(
        keys
    ):
        raise ConfigError(
            f"{pattern} is not a pattern for MBeans",
            hint="Write a domain, such as debezium.*, or domain:key=value,* as for Java's ObjectName.",
        )
    return pattern


def exported_name(
    domain: str, properties: Iterable[Sequence[str]], path: Sequence[str], attribute: str
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Name and labels for Prometheus of an attribute, or of a part of one (`path` are the names above it).

    Debezium's `debezium.postgres:type=connector-metrics,context=streaming,server=shop` has the names of its own rules,
    `debezium_metrics_MilliSecondsBehindSource{plugin="postgres",context="streaming",name="shop"}`. All others are what
    the exporter makes without rules: domain, first property, path and attribute, and the other properties as labels.
    Source: io.prometheus.jmx.JmxCollector, monitoring of debezium-examples.
    """
    pairs = [(str(key), str(value)) for key, value in properties]
    if domain.startswith(_DEBEZIUM) and ("type", _OF_CONNECTORS) in pairs:
        pairs.remove(("type", _OF_CONNECTORS))
        labels = [("plugin", domain.removeprefix(_DEBEZIUM)), *((_LABELS.get(key, key), text) for key, text in pairs)]
        return _safe("_".join(("debezium_metrics", *path, attribute))), _as_labels(labels)
    first = [value for _, value in pairs[:1]]
    return _safe("_".join((domain, *first, *path, attribute))), _as_labels(pairs[1:])


def _safe(name: str) -> str:
    made = _MORE.sub("_", _NOT_IN_NAMES.sub("_", name))
    return f"_{made}" if made[:1].isdigit() else made


def _as_labels(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Labels have no colon, and each is there once."""
    return tuple({_safe(key).replace(":", "_"): text for key, text in pairs}.items())

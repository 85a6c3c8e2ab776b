"""Readings as text for Prometheus (exposition format 0.0.4).

Written by hand: the format is three kinds of lines, while the client library needs its own registry of counters in this
process; ours come from other processes and live as long as their task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from kconnect.runtime.metrics.catalogue import Kind, Metric
from kconnect.runtime.metrics.readings import Reading

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def prometheus_text(readings: Iterable[Reading]) -> str:
    """All readings, by name; those of one name together, as the format requires."""
    by_name: dict[str, tuple[Metric, list[str]]] = {}
    for reading in readings:
        metric = reading.metric
        _, lines = by_name.setdefault(metric.prometheus, (metric, []))
        lines.append(f"{metric.prometheus}{_labels(reading)} {_number(reading.value)}")
    blocks = []
    for name in sorted(by_name):
        metric, lines = by_name[name]
        kind = "counter" if metric.kind is Kind.COUNTER else "gauge"
        blocks += [f"# HELP {name} {_escaped(metric.text, quotes=False)}", f"# TYPE {name} {kind}", *sorted(lines)]
    return "\n".join(blocks) + "\n" if blocks else ""


def _labels(reading: Reading) -> str:
    pairs = list(zip(reading.metric.tags, reading.labels, strict=True))
    if isinstance(reading.value, str):
        pairs.append(("value", reading.value))
    if not pairs:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _number(value: float | int | str) -> str:
    if isinstance(value, str):
        return "1"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    return repr(value)


def _escaped(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text

"""What a connector that eats a core costs those beside it, in shared slots and in a slot of its own."""

from __future__ import annotations

from collections.abc import Mapping

from bench.ground import Ground, Metrics, file_source, made_topic, running
from bench.waiting import last_record, times_of_appends

__all__ = ["isolation"]

_BESIDE = 10
# Enough for a p99 of three
_APPENDS = 300
_GREEDY = {"connector.class": "PythonSource", "function": "greedy_source:eat", "tasks.max": "1"}


def isolation(side: str, ground: Ground) -> Metrics:
    """From the append of a line to its arrival, ms, over ten file sources in turn: by themselves, beside a connector
    that eats a core in slots that all share, and beside it in a slot of its own.

    The worker has two slots: half of the ten share theirs with it.
    """
    times = {
        "alone": _times(side, ground, None),
        "shared": _times(side, ground, {"kconnect.slot": "shared"}),
        "own": _times(side, ground, {"kconnect.slot": "own"}),
    }
    found = {f"{name}_p{part}_ms": each[len(each) * part // 100] for name, each in times.items() for part in (50, 99)}
    for name in ("shared", "own"):
        found[f"{name}_times_alone"] = found[f"{name}_p99_ms"] / found["alone_p99_ms"]
    return found


def _times(side: str, ground: Ground, greedy: Mapping[str, str] | None) -> list[float]:
    """Sorted, of one worker; `greedy`: with the connector that eats a core, and where it runs."""
    with made_topic(ground, side, "isolation") as topic, made_topic(ground, side, "isolation-greedy") as other:
        files = [ground.folder / f"{topic}-{number}.txt" for number in range(_BESIDE)]
        for file in files:
            file.write_text("")
        connectors = [{**file_source(topic, file), "name": f"{topic}-{at}"} for at, file in enumerate(files)]
        if greedy is not None:
            connectors.append({**_GREEDY, "name": other, "topic": other, **greedy})
        with running(side, ground, topic, *connectors), last_record(ground.bootstrap, topic) as next_value:
            if greedy is not None:
                with last_record(ground.bootstrap, other) as next_meal:
                    while next_meal() is None:
                        """It eats from the first on."""
            return sorted(times_of_appends(files, next_value, _APPENDS, 3 * _BESIDE))

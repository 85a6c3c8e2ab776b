"""`python -m kit.history_memory`: what a process holds of topics in which keys come and go, as one line of JSON."""

from __future__ import annotations

import gc
import json
import sys
import tracemalloc
from collections.abc import Iterator
from itertools import count

from kconnect.admin.direct.read.reader import Latest
from kconnect.model import LogRecord, TaskId
from kconnect.runtime.storage import config_topic
from kconnect.runtime.storage.snapshot import ConfigFold

_LIVE = tuple(map(str, range(20)))


def _read_round(number: int, offsets: Iterator[int], fold: ConfigFold, latest: Latest) -> None:
    """Every connector is written anew, and as many others come and go."""
    for name in _LIVE:
        settings = {"name": name, "connector.class": "X", "round": f"{number:08d}"}
        gone = f"gone-{number}-{name}"
        for key, value in (
            config_topic.encode_connector(name, settings),
            config_topic.encode_task(TaskId(name, 0), settings),
            config_topic.encode_commit(name, 1),
            config_topic.encode_connector(gone, settings),
            config_topic.tombstone_of_connector(gone),
            config_topic.tombstone_of_target_state(gone),
        ):
            record = LogRecord("c", 0, next(offsets), key, value, 0)
            fold.apply(record)
            latest.apply(record)


def main() -> None:
    offsets, fold, latest = count(), ConfigFold(), Latest()
    held = []
    tracemalloc.start()
    # The first fifty also fill what the interpreter keeps of freed tuples
    for rounds in (range(50), range(50, 100)):
        for number in rounds:
            _read_round(number, offsets, fold, latest)
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    # The least that is kept of a history: names of what is gone. What else moves, as room in tables, is a sixth of it
    names = sum(sys.getsizeof(f"gone-{number}-{name}") for number in range(50, 100) for name in _LIVE)
    found = {
        "fifty": held[0],
        "hundred": held[1],
        "names": names,
        "connectors": fold.snapshot().connectors,
        "latest": len(latest.all()),
    }
    print(json.dumps(found))  # noqa: T201 - that is how it tells


if __name__ == "__main__":
    main()

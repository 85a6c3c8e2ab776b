"""A process of its own that opens the offset store of a worker, as its start does: `open_offset_store.py WORKER`.

Prints, as JSON, the seconds that it took, the processor time and the memory of the process.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import psutil

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.java.compat.properties import read_properties
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, LogSpec
from kconnect.runtime.storage.topic_offsets import TopicOffsetStore


def main(worker: str) -> None:
    access = ClusterAccess(read_properties(Path(worker)), 60.0)
    clients = access.clients(InternalTopic.OFFSET)
    spec = LogSpec(topic=access.topic(InternalTopic.OFFSET), consumer=clients.consumer, producer=clients.producer)
    process = psutil.Process()
    with KafkaAdmin(access.clients().admin, "bench") as admin:
        store = TopicOffsetStore(CompactedLog(spec, admin))
        before = process.memory_full_info().uss
        began, cpu = time.monotonic(), time.process_time()
        store.start()
        reported = {
            "offsets_start_s": time.monotonic() - began,
            "offsets_cpu_s": time.process_time() - cpu,
            "offsets_mb": (process.memory_full_info().uss - before) / 1e6,
        }
        store.stop()
    sys.stdout.write(json.dumps(reported) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

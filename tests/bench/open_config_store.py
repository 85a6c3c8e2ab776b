"""A process of its own that does what the config store of a starting worker does: `python open_config_store.py WORKER`.

Prints, as JSON, the seconds that the store's start took and what it knows then.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.java.compat.properties import read_properties
from kconnect.runtime.kafka import CompactedLog, KafkaAdmin, LogSpec
from kconnect.runtime.storage.config_store import TopicConfigStore


def main(worker: str) -> None:
    access = ClusterAccess(read_properties(Path(worker)), 60.0)
    clients = access.clients(InternalTopic.CONFIG)
    spec = LogSpec(topic=access.topic(InternalTopic.CONFIG), consumer=clients.consumer, producer=clients.producer)
    with KafkaAdmin(access.clients().admin, "bench") as admin:
        store = TopicConfigStore(CompactedLog(spec, admin))
        began = time.monotonic()
        store.start()
        taken = time.monotonic() - began
        try:
            state = store.snapshot()
        finally:
            store.stop()
    reported = {"start_s": taken, "offset": state.offset, "connectors": len(state.connectors)}
    sys.stdout.write(json.dumps(reported) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

"""A writer of fenced offsets, for tests; as a program one whose last call hangs."""

from __future__ import annotations

import sys

from kconnect.errors import TimedOutError
from kconnect.model import TopicPartition
from kconnect.runtime.kafka import CommittedOffset, FencedOffsets

__all__ = ["CLAIM_S", "writer"]

CLAIM_S = 120.0


def writer(bootstrap: str, name: str, **settings: str) -> FencedOffsets:
    """A writer of the group `name`. Keywords with `_` are settings of its producer with `.`."""
    producer = {
        "bootstrap.servers": bootstrap,
        "transactional.id": name,
        "enable.idempotence": "true",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    made = FencedOffsets(producer, {"bootstrap.servers": bootstrap, "group.id": name}, name)
    assert made.claim(CLAIM_S, lambda: False)
    return made


def main(bootstrap: str, name: str, topic: str) -> None:
    """Write, say so, write again when reported to; then say what came of it."""
    at = TopicPartition(topic, 0)
    # A client that forgets the group's coordinator with all brokers, and waits for it
    hung = writer(bootstrap, name, metadata_recovery_strategy="rebootstrap", transaction_timeout_ms="3000")
    assert hung.write({at: CommittedOffset(1, "before")}, lambda: False)
    assert hung.await_settled([at], lambda: False)  # what Kafka knows of until then may be forgotten
    say("written")
    sys.stdin.readline()
    try:
        hung.write({at: CommittedOffset(2, "after")}, lambda: False)
    except TimedOutError as error:
        say(str(error))
    hung.close()


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])

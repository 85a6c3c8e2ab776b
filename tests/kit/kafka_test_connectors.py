"""Connectors of Kafka's own tests (connect-runtime, classifier test), and what they log of the calls they get."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from kit.mixed_cluster import Node
from kit.third_party import third_party_path

__all__ = ["PACKAGE", "kafka_test_jars", "kafka_test_path", "logged_calls", "settled"]

PACKAGE = "org.apache.kafka.connect.integration"
_LINE = re.compile(
    r"\] (?:TRACE|DEBUG|INFO) (?:\[([^|\]]+)\|(worker|task-\d+)[^\]]*\] )?(.*) \((?:[\w.$]*\.)?(\w+)(?::\d+)?\)$"
)
_LOGGERS = ("TestableSourceConnector", "TestableSinkConnector", "BlockingConnectorTest")


def kafka_test_path() -> Path:
    """A plugin.path that has them."""
    return third_party_path("connect-runtime")


def kafka_test_jars() -> list[Path]:
    """Their jars, for the class path of Java's worker: it looks there alone for this package."""
    return sorted((kafka_test_path() / "connect-runtime").glob("*.jar"))


def logged_calls(node: Node, connector: str, scope: str) -> list[str]:
    """What a connector (scope `worker`) or its task (`task-0`) has logged itself; needs its package at TRACE.

    What is logged on threads that are not its own, as those of the producer, has no context but its name.
    """
    own = connector if scope == "worker" else f"{connector}-{scope.rpartition('-')[2]}"
    named = re.compile(rf"{'connector' if scope == 'worker' else 'task'}(?:\.id=| ){re.escape(own)}\b(?!-)")
    made = []
    for name, where, text in _logged(node.worker.log):
        if (name, where) == (connector, scope) or (name is None and named.search(text)):
            made.append(text)
    return made


def _logged(log: Path) -> Iterator[tuple[str | None, str | None, str]]:
    for line in log.read_text(errors="replace").splitlines():
        found = _LINE.search(line)
        if found and found[4] in _LOGGERS:
            yield found[1], found[2], found[3]


def settled(lines: Sequence[str], *own: str) -> list[str]:
    """Lines without what depends on time: how often is polled and committed, and how often settings are looked at.

    Of records that flow, what stays is that each was acknowledged, and that offsets were committed. `own`: texts that
    are those of one side only.
    """
    made: list[str] = []
    commits: set[str] = set()
    for line in lines:
        for text in own:
            line = line.replace(text, "<own>")
        line = _COUNTED.sub(r"\1<some>\2", line.partition(" with properties ")[0])
        if _ASKED.match(line):
            continue
        if _COMMIT.search(line):
            commits.add(line)
            continue
        if not line.startswith("Committing record"):
            made += _in_time(made, commits)
            commits.clear()
        made.append(line)
    return [*made, *_in_time(made, commits)]


def _in_time(before: Sequence[str], commits: set[str]) -> list[str]:
    """Java's timer is on another thread: a commit after a task's stop is none that was to come."""
    return [] if before and before[-1].startswith("Stopped ") else sorted(commits)


_ASKED = re.compile(r"Configured |Returning batch of |.* to commit 0 records ")
_COMMIT = re.compile(r" committing offsets$| to commit <some> records ")
_COUNTED = re.compile(r"( to commit )[1-9]\d*( records )")

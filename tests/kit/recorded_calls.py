"""A worker that runs connectors of tests/kit/java_sources/kit/Recorded*.java, and what they wrote down of its calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kit.mixed_cluster import Node
from kit.waiting import eventually

__all__ = ["Recorded", "comparable"]

_WITHIN_S = 90.0


@dataclass
class Recorded:
    """One connector at one worker; `journal` is the start of its files' names."""

    node: Node
    name: str
    journal: Path

    def create(self, **config: str) -> None:
        body = {"name": self.name, "config": {**config, "journal": str(self.journal)}}
        self.node.order("POST", "/connectors", body, expect=201)

    def configure(self, **config: str) -> None:
        self.node.order("PUT", f"/connectors/{self.name}/config", {**config, "journal": str(self.journal)}, expect=200)

    def order(self, method: str, path: str, body: Any = None, *, expect: int) -> Any:
        return self.node.order(method, f"/connectors/{self.name}{path}", body, expect=expect)

    def feed(self, *words: object) -> None:
        """What the plugin has to do next; in one step, for it reads at any time."""
        file = Path(f"{self.journal}-feed")
        draft = file.with_suffix(".draft")
        draft.write_text(" ".join(map(str, words)))
        draft.replace(file)

    def lines(self, actor: str) -> list[str]:
        """What an actor was called with: questions, connector, task-0."""
        file = Path(f"{self.journal}-{actor}")
        return file.read_text().splitlines() if file.exists() else []

    def await_lines(self, actor: str, check: Callable[[Sequence[str]], object], why: str) -> None:
        def seen() -> bool:
            lines = self.lines(actor)
            assert check(lines), f"{self.node.name}: {actor} was called: {lines[-8:]}"
            return True

        eventually(seen, _WITHIN_S, f"{why} at {self.node.name}")

    def await_count(self, actor: str, start: str, count: int) -> None:
        """Wait until so many lines begin with these words."""
        self.await_lines(
            actor, lambda lines: sum(line.startswith(start) for line in lines) >= count, f"{count} {start}"
        )

    def await_last(self, actor: str, start: str) -> None:
        self.await_lines(actor, lambda lines: lines and lines[-1].startswith(start), f"{start} comes last")

    def await_states(self, connector: str, *tasks: str) -> None:
        def seen() -> bool:
            code, status = self.node.request("GET", f"/connectors/{self.name}/status")
            assert code == 200, f"{self.node.name}: {code} {status}"
            states = [status["connector"]["state"], *(task["state"] for task in status["tasks"])]
            assert states == [connector, *tasks], f"{self.node.name}: {status}"
            return True

        eventually(seen, _WITHIN_S, f"{self.name} is {connector}, {tasks} at {self.node.name}")


def comparable(lines: Sequence[str], *own: str) -> list[str]:
    """Lines without what depends on time: how often is polled, put again and committed between two other calls.

    Of records that flow, what stays is that they were polled or put, each once, whether a call was made again, and the
    last commit. `own`: texts that are those of one side only, such as its folder.
    """
    made: list[str] = []
    flow: list[str] = []
    came: set[str] = set()
    for line in lines:
        for text in own:
            line = line.replace(text, "<own>")
        if _FLOW.match(line):
            flow.append(line)
            continue
        made += [
            *_between(made, flow, came),
            *([line] if made[-1:] != [line] else []),
        ]  # twice: a request that met a rebalance
        flow = []
        if line.startswith("start"):
            came.clear()
    return made + _between(made, flow, came)


def _between(made: Sequence[str], flow: Sequence[str], came: set[str]) -> list[str]:
    """What is kept of `flow`, behind `made`."""
    if made[-1:] in ([], ["stop"]) and set(flow) == {"commit"}:
        return []  # Java's timer is on another thread: it may come before the start, and after the stop
    return _settled(flow, came)


_FLOW = re.compile(r"poll|commit|put |preCommit|flush")
_PUT = re.compile(r"put \[(.*)\] ?(\w*)")


def _settled(flow: Sequence[str], came: set[str]) -> list[str]:
    """`came`: partitions of which the task has had records; what Java commits of others is left out."""
    puts = [found for line in flow if (found := _PUT.match(line))]
    put = {record for found in puts if found[2] not in ("retry", "fail") for record in found[1].split(", ")}
    again = sorted({f"put: {found[2]}" for found in puts if found[2] in ("retry", "fail")})
    polled = list(dict.fromkeys(line for line in flow if line.startswith("poll")))
    acknowledged = [line for line in flow if line.startswith("commitRecord")]
    committed = [line for line in flow if line == "commit"][-1:]
    came |= {record.partition("/")[0] for found in puts for record in found[1].split(", ")}
    flushed = [line for line in flow if line.startswith("preCommit")][-1:]
    places = [place for line in flushed for place in re.findall(r"-(\d+=\d+)", line) if place.split("=")[0] in came]
    return [*polled, *again, *sorted(put), *acknowledged, *committed, *([f"preCommit {places}"] if places else [])]

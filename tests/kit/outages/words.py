"""What everybody says of the tasks: each worker's REST, /health and /metrics, commands, the group, the status topic."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kconnect.client.outage import OUTAGE_HEADER
from kit.chaos.service import Service
from kit.cli import cli_run
from kit.outages.flow import Task
from kit.pace import pace

__all__ = ["COMMANDS", "Word", "command_word", "group_words", "worker_words"]

_ASK_S = 3.0
_STATUS = re.compile(
    r'^kafka_connect_connector_task_metrics_status\{connector="(.+)",task="(\d+)",value="(\w+)"\} 1', re.MULTILINE
)
_AVAILABLE = "kafka_connect_worker_kafka_metrics_available"
_AWAY = "Kafka has been away"


@dataclass(frozen=True, slots=True)
class Word:
    """What one source said at one moment. A connector itself is its task -1."""

    source: str
    at: float
    """Monotonic, before it was asked."""
    states: Mapping[Task, str] = field(default_factory=dict)
    workers: Mapping[Task, str] = field(default_factory=dict)
    """The id of the worker, where it says which."""
    note: str = ""
    """All else that it said, or why it said nothing."""
    says_away: bool = False
    """It says that Kafka is away, and so that its states are the last known."""
    says_well: bool = False
    """It says that the worker, or Kafka, is well."""
    is_answer: bool = True
    is_rare: bool = False
    """It is not asked often enough to see when it began to say what it says."""
    knows: Collection[Task] = ()
    """The tasks of which it should say something, when all is well."""


def worker_words(worker: Service, tasks: Collection[Task]) -> list[Word]:
    """Of one worker: REST status, health, metrics, and what its slots hold."""
    name, url = worker.name, worker.url
    return [
        replace(_asked(f"{name} REST", url + "/connectors?expand=status", _of_statuses), knows=tasks),
        _asked(f"{name} /health", url + "/health", _of_health),
        _asked(f"{name} /metrics", url + "/metrics", _of_metrics),
        _asked(f"{name} slots", url + "/admin/slots", _of_slots),
    ]


def command_word(name: str, worker: Service, tasks: Collection[Task], home: Path) -> Word:
    """What one of COMMANDS prints that is sent to one worker."""
    args, read = _COMMANDS[name]
    return replace(
        _printed(f"{worker.name} {name}", ["--url", worker.url, *args], home, read), knows=tasks, is_rare=True
    )


def group_words(worker: Service, tasks: Collection[Task], home: Path) -> list[Word]:
    """What commands print that read the cluster from the broker, with no worker."""
    of = ["--worker", str(worker.file)]
    words = [
        _printed("cluster members", ["cluster", "members", *of], home, _members),
        _printed("status --direct", ["connectors", "status", "--direct", *of], home, _rows),
    ]
    return [replace(word, knows=tasks, is_rare=True) for word in words]


Read = tuple[dict[Task, str], dict[Task, str]]


def _asked(source: str, url: str, read: Callable[[Word, int, str], Word]) -> Word:
    at = time.monotonic()
    try:
        with urllib.request.urlopen(url, timeout=_ASK_S * pace.slowness) as answer:
            code, headers, text = answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as err:
        with err:
            code, headers, text = err.code, err.headers, err.read().decode()
    except OSError as err:
        return Word(source, at, note=f"{err}", is_answer=False)
    says_away = OUTAGE_HEADER in {name.lower() for name in headers}
    return read(Word(source, at, note="" if code == 200 else f"{code} {text[:200]}", says_away=says_away), code, text)


def _of_statuses(word: Word, code: int, text: str) -> Word:
    if code != 200:
        return word
    states, workers = {}, {}
    for name, entry in json.loads(text).items():
        for part in (entry["status"]["connector"], *entry["status"]["tasks"]):
            task = (name, part.get("id", -1))
            states[task], workers[task] = part["state"], part["worker_id"]
    return replace(word, states=states, workers=workers)


def _of_health(word: Word, code: int, text: str) -> Word:
    reported = json.loads(text)
    note = f"{code} {reported['status']}: {reported['message'][:160]}"
    return replace(word, note=note, says_well=code == 200)


def _of_metrics(word: Word, code: int, text: str) -> Word:
    if code != 200:
        return word
    states = {(name, int(number)): value.upper() for name, number, value in _STATUS.findall(text)}
    available = re.search(rf"^{_AVAILABLE} (\d)", text, re.M)
    is_there = available is not None and available[1] == "1"
    note = f"available {available[1] if available else 'is not there'}"
    return replace(word, states=states, note=note, says_away=not is_there, says_well=is_there)


def _of_slots(word: Word, code: int, text: str) -> Word:
    if code != 200:
        return word
    slots = [slot for slot in json.loads(text) if slot["attached"]]
    held = [(task["connector"], task["task"]) for slot in slots for task in slot["tasks"]]
    return replace(word, states=dict.fromkeys(held, "HELD"))


def _printed(source: str, args: list[str], home: Path, read: Callable[[Any], Read]) -> Word:
    at = time.monotonic()
    done = cli_run(*args, "-o", "json", home=home)
    note = (
        f"exit {done.code} after {time.monotonic() - at:.1f} s; {done.stderr.strip()[:200]}"
        if done.code or done.stderr
        else ""
    )
    if done.code:
        return Word(source, at, note=note, is_answer=False, says_away=_AWAY in done.stderr)
    states, workers = read(done.json)
    return Word(source, at, states, workers, note, says_away=_AWAY in done.stderr)


def _rows(rows: Any) -> Read:
    keyed = {(row["name"], -1 if row["task"] is None else row["task"]): row for row in rows}
    return {task: row["state"] for task, row in keyed.items()}, {task: row["worker_id"] for task, row in keyed.items()}


def _listed(rows: Any) -> Read:
    states: dict[Task, str] = {(row["name"], -1): row["state"] for row in rows}
    workers: dict[Task, str] = {}
    for row in rows:
        states |= {(row["name"], task["id"]): task["state"] for task in row["tasks"]}
        workers |= {(row["name"], task["id"]): task["worker_id"] for task in row["tasks"]}
    return states, workers


def _members(rows: Any) -> Read:
    states: dict[Task, str] = {}
    workers: dict[Task, str] = {}
    for row in rows:
        worker = row["url"].removeprefix("http://").rstrip("/")
        pairs = [text.rpartition("-") for text in row["tasks"]]
        held = [(name, int(number)) for name, _, number in pairs] + [(name, -1) for name in row["connectors"]]
        states |= dict.fromkeys(held, "PLACED")
        workers |= dict.fromkeys(held, worker)
    return states, workers


_COMMANDS: dict[str, tuple[list[str], Callable[[Any], Read]]] = {
    "list": (["connectors", "list"], _listed),
    "status": (["connectors", "status"], _rows),
    "tasks": (["tasks", "list"], _rows),
}
COMMANDS = tuple(_COMMANDS)

"""A source connector for launcher tests: what it is asked, it writes to a file, since it may live in another process.

Settings: `journal` (file), `raise.in` / `hang.in` (start, poll, stop), `says` (text for standard output in start),
`eats` (bytes that are kept from start on), `busy.while` (a file: as long as it is there, a poll computes),
`print.offset` (a partition name whose committed offset goes to the journal).
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path

from kconnect.api import ConfigDef, SourceConnector, SourceTask

log = logging.getLogger(__name__)


class JournalTask(SourceTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._props = props
        log.info("journal task starts")
        if "says" in props:
            os.write(1, (props["says"] + "\n").encode())
        self._kept = b"x" * int(props.get("eats", "0"))
        if "print.offset" in props:
            offset = self.context.offset_storage_reader().offset({"name": props["print.offset"]})
            self._write(f"offset {offset}")
        self._enter("start")

    def poll(self) -> None:
        log.debug("journal task polls")
        self._enter("poll", quiet=True)
        if "busy.while" in self._props and Path(self._props["busy.while"]).exists():
            sum(range(500_000))
        else:
            self.context.wait(0.05)

    def stop(self) -> None:
        self._enter("stop")

    def _enter(self, call: str, *, quiet: bool = False) -> None:
        if not quiet:
            self._write(call)
        if self._props.get("hang.in") == call:
            threading.Event().wait()
        if self._props.get("raise.in") == call:
            raise RuntimeError(f"no {call} today")

    def _write(self, line: str) -> None:
        with Path(self._props["journal"]).open("a") as file:
            file.write(f"{os.getpid()} {line}\n")


class JournalSource(SourceConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = props

    def task_class(self) -> type[SourceTask]:
        return JournalTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._props)] * max_tasks

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return ConfigDef()

    def version(self) -> str:
        return "1"

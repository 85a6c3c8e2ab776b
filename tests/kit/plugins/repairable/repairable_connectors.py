"""A plugin folder whose source fails as often, and as, a test's file says.

Each line of `failures.file` is one failure that is still to come, of one task: `0 gone`, `1 config`, `0 rights`;
`connector gone` is of the connector itself. `*` behind it: for ever. A poll removes its line, so that the next run is
well.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from kconnect.api import ConfigDef, SourceConnector, SourceRecord, SourceTask
from kconnect.errors import ConfigError

_STRING, _HIGH = ConfigDef.Type.STRING, ConfigDef.Importance.HIGH
_LOCK = threading.Lock()  # tasks of one process take turns


def _suffer(file: Path, who: str) -> None:
    with _LOCK:
        lines = file.read_text().splitlines() if file.exists() else []
        for line in lines:
            name, _, how = line.partition(" ")
            if name != who:
                continue
            if not how.endswith("*"):
                lines.remove(line)
                file.write_text("".join(f"{each}\n" for each in lines))
            _fail(how.removesuffix("*"))


def _fail(how: str) -> None:
    if how == "config":
        raise ConfigError("the table orders does not exist")
    if how == "rights":
        raise PermissionError("user ann may not read table orders")
    raise RuntimeError("the shop has burnt down")


class RepairableSource(SourceConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)
        _suffer(Path(props["failures.file"]), "connector")

    def task_class(self) -> type[SourceTask]:
        return RepairableTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._props, "number": str(number)} for number in range(max_tasks)]

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        table = ConfigDef().define("failures.file", _STRING, importance=_HIGH, doc="Failures that are still to come.")
        return table.define("topic", _STRING, "repairable", importance=_HIGH, doc="Where its records go.")

    def version(self) -> str:
        return "1"


class RepairableTask(SourceTask):
    def version(self) -> str:
        return "1"

    def start(self, props: Mapping[str, str]) -> None:
        self._props, self._next = props, 0

    def poll(self) -> list[SourceRecord]:
        _suffer(Path(self._props["failures.file"]), self._props["number"])
        self.context.wait(0.05)
        self._next += 1
        return [
            SourceRecord({"task": self._props["number"]}, {"next": self._next}, self._props["topic"], str(self._next))
        ]

    def stop(self) -> None: ...

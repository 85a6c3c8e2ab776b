"""Transformations that fail on, or drop, the values `text` and `drop`; in record form only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kconnect.api import ConfigDef, ConnectRecord, Transformation


class FailsOnText(Transformation):
    def configure(self, configs: Mapping[str, Any]) -> None: ...

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if record.value == "text":
            raise ValueError("reported to fail on text")
        return record

    def config(self) -> ConfigDef:
        return ConfigDef()


class DropsText(Transformation):
    def configure(self, configs: Mapping[str, Any]) -> None: ...

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return None if record.value == "drop" else record

    def config(self) -> ConfigDef:
        return ConfigDef()


class NotesClose(DropsText):
    """Notes how often one of these was closed."""

    closed: ClassVar[list[bool]] = []

    def close(self) -> None:
        self.closed.append(True)

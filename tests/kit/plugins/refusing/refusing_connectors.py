"""A plugin folder whose source refuses every change of its offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kconnect.api import ConfigDef, SourceConnector, SourceTask
from kconnect.errors import ConfigError


class RefusingSource(SourceConnector):
    def start(self, props: Mapping[str, str]) -> None: ...

    def task_class(self) -> type[SourceTask]:
        raise NotImplementedError("it is never run")

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return ConfigDef()

    def version(self) -> str:
        return "1"

    def alter_offsets(self, connector_config: Mapping[str, str], offsets: Any) -> bool:
        raise ConfigError("not these")

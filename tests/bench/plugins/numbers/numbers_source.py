"""A custom source as people write them: plain lists of SourceRecord with dicts in them, up to a count."""

from __future__ import annotations

from collections.abc import Mapping

from kconnect.api import ConfigDef, SourceConnector, SourceRecord, SourceTask

CONFIG = (
    ConfigDef()
    .define("topic", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, None, ConfigDef.Importance.HIGH, "Where to.")
    .define("count", ConfigDef.Type.LONG, ConfigDef.NO_DEFAULT, None, ConfigDef.Importance.HIGH, "How many records.")
)
_LIST_SIZE = 1000


class NumbersSource(SourceConnector):
    def start(self, props: Mapping[str, str]) -> None:
        self._props = dict(props)

    def task_class(self) -> type[SourceTask]:
        return NumbersTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._props]

    def stop(self) -> None: ...

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return "1"


class NumbersTask(SourceTask):
    def start(self, props: Mapping[str, str]) -> None:
        config = CONFIG.parse(props)
        self._topic, self._count = config["topic"], config["count"]
        found = self.context.offset_storage_reader().offset({"source": "numbers"})
        self._next = 0 if found is None else int(found["next"])

    def poll(self) -> list[SourceRecord] | None:
        first, self._next = self._next, min(self._next + _LIST_SIZE, self._count)
        return [
            SourceRecord(
                {"source": "numbers"},
                {"next": number + 1},
                self._topic,
                {"id": number, "name": f"name {number}", "ok": number % 2 == 0, "price": number * 0.25},
            )
            for number in range(first, self._next)
        ] or None

    def stop(self) -> None: ...

    def version(self) -> str:
        return "1"

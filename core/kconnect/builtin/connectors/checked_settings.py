"""What connectors share whose settings a table describes and, beyond it, a check of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from kconnect.api import Config, ConfigDef, ConfigError, SinkConnector
from kconnect.builtin.version import KAFKA_VERSION


def with_problems(found: Config, look: Callable[[], Iterable[tuple[str, str]]]) -> Config:
    """A validation with what `look` finds, pairs of setting and message; called only if the table finds no error."""
    by_name = {value.name: value for value in found.config_values}
    if not any(value.error_messages for value in found.config_values):
        for name, message in look():
            by_name[name].add_error_message(message)
    return found


def raised_by(look: Callable[[], object], table: ConfigDef, otherwise: str) -> Iterator[tuple[str, str]]:
    """What `look` raises, as the problem of the setting that it names, or of `otherwise` if the table lacks it."""
    try:
        look()
    except ConfigError as err:
        name = err.problems[0].key if err.problems else otherwise
        yield name if name in table.config_keys else otherwise, said(err)


def said(error: ConfigError) -> str:
    """An error and what to do about it, as sentences."""
    text = str(error)
    if not error.hint:
        return text
    return f"{text} {error.hint}" if text.endswith((".", "?", "!", ":")) else f"{text}. {error.hint}"


class UniformSinkConnector(SinkConnector):
    """A sink whose tasks all have its settings. Subclasses name the table and the task, and may look for problems."""

    table: ClassVar[ConfigDef]
    _props: Mapping[str, str]

    def start(self, props: Mapping[str, str]) -> None:
        self.table.parse(props)
        self._props = props

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._props) for _ in range(max_tasks)]

    def stop(self) -> None:
        """Nothing runs besides the tasks."""

    def config(self) -> ConfigDef:
        return self.table

    def validate(self, configs: Mapping[str, str]) -> Config:
        """Also looks for problems that the table does not see."""
        return with_problems(super().validate(configs), lambda: self.problems(configs))

    def problems(self, props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """What is wrong although the table finds no error: pairs of setting and message."""
        return ()

    def version(self) -> str:
        return KAFKA_VERSION

    def alter_offsets(self, config: Mapping[str, str], offsets: dict[Any, int | None]) -> bool:
        """Any offset is fine: the sink does not record them."""
        return True

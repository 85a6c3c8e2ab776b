"""`schema.contract`: what becomes of a value that a table's columns have no place for, whole or by column. Pure."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from kconnect.api import ConfigDef, DataError, PluginMetrics
from kconnect.api.plugin_metrics import Sensor, Stat

log = logging.getLogger(__name__)

INFER: Final = "schema.infer"
CONTRACT: Final = "schema.contract"
OF_COLUMN: Final = "schema.contract."
VARIANT: Final = "__v_"
"""Between a column's name and the kind of values that it could not hold: `price__v_text`. As dlt names them."""
_T, _I = ConfigDef.Type, ConfigDef.Importance


class Contract(StrEnum):
    """What records may change in the columns that are there. The words are dlt's."""

    EVOLVE = "evolve"
    FREEZE = "freeze"
    DISCARD_ROW = "discard-row"
    DISCARD_VALUE = "discard-value"

    @classmethod
    def of(cls, text: str) -> Contract:
        """The contract that a setting names, with dlt's own spelling discard_row too. Errors: ValueError."""
        return cls(text.strip().lower().replace("_", "-"))


def with_contract(table: ConfigDef, *, infers: bool = True) -> ConfigDef:
    """The table with the settings `schema.infer` and `schema.contract`."""
    if infers:
        table.define(
            INFER,
            _T.BOOLEAN,
            True,
            None,
            _I.MEDIUM,
            "Whether values without schema have the types that are seen in them; false: such a record is an error.",
        )
    return table.define_prefix(OF_COLUMN).define(
        CONTRACT,
        _T.STRING,
        Contract.EVOLVE.value,
        ConfigDef.CaseInsensitiveValidString.in_(*Contract, "discard_row", "discard_value"),
        _I.MEDIUM,
        "What becomes of a new field, or a value that its column cannot hold: evolve (columns are added and "
        "widened; what has no common type goes to a second column, as price__v_text), freeze (the record is an "
        "error), discard-row, discard-value (null). For one column: schema.contract.NAME.",
    )


@dataclass(frozen=True, slots=True)
class Contracts:
    """The contract of each column; that of a struct's field is the struct's unless it has its own."""

    whole: Contract = Contract.EVOLVE
    columns: Mapping[str, Contract] = field(default_factory=dict)
    fixed: frozenset[str] | None = None
    """The columns of a table that nobody can add to or widen, in lower case: evolve is freeze there."""

    @classmethod
    def parse(cls, props: Mapping[str, str]) -> Contracts:
        """Errors: ValueError."""
        named = {key[len(OF_COLUMN) :]: Contract.of(text) for key, text in props.items() if key.startswith(OF_COLUMN)}
        return cls(Contract.of(props.get(CONTRACT) or Contract.EVOLVE), named)

    @property
    def is_open(self) -> bool:
        """Whether every column evolves."""
        evolve = all(contract is Contract.EVOLVE for contract in (self.whole, *self.columns.values()))
        return evolve and self.fixed is None

    def of(self, path: str) -> Contract:
        """That of a column, a field in it (`address.city`, `items[].price`), a second column (`price__v_text`)."""
        contract = self._of(path)
        is_there = self.fixed is None or path.lower() in self.fixed
        return contract if is_there or contract is not Contract.EVOLVE else Contract.FREEZE

    def _of(self, path: str) -> Contract:
        path = path.replace("[]", "").partition(VARIANT)[0]
        while path not in self.columns and "." in path:
            path = path.rpartition(".")[0]
        return self.columns.get(path, self.whole)


EVOLVES: Final = Contracts()


def contract_problems(props: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """What is wrong with contracts of single columns: pairs of setting and message."""
    for key, text in props.items():
        if key.startswith(OF_COLUMN):
            try:
                Contract.of(text)
            except ValueError:
                yield CONTRACT, f"{key}={text} is not one of {', '.join(Contract)}"


class DiscardedRowError(DataError):
    """A record that its contract leaves out."""


class Discards:
    """Counts what contracts leave out, in the metrics of the task; the first of each column is logged. Threads: one."""

    def __init__(self, metrics: Callable[[], PluginMetrics]) -> None:
        self._metrics = metrics
        self._sensors: dict[str, Sensor] = {}
        self._reported: set[str] = set()
        self.rows = self.values = 0

    def row(self, error: DataError, where: str) -> None:
        self.reached(self.rows + 1, self.values)
        self._tell(f"{error}", f"The record at {where} is left out by schema.contract=discard-row: {error}")

    def some(self, column: str, count: int, error: DataError) -> None:
        """Values of a column that became null."""
        self.reached(self.rows, self.values + count)
        self._tell(column, f"Values are left out by schema.contract=discard-value, of which this is the first: {error}")

    def reached(self, rows: int, values: int) -> None:
        """So many were left out so far, which whoever counted them has logged."""
        self._count("records-discarded", rows - self.rows, "Records that schema.contract=discard-row left out.")
        self._count("values-discarded", values - self.values, "Values that schema.contract=discard-value made null.")
        self.rows, self.values = rows, values

    def _count(self, name: str, count: int, description: str) -> None:
        if not count:
            return
        sensor = self._sensors.get(name)
        if sensor is None:
            metrics = self._metrics()
            sensor = self._sensors[name] = metrics.add_sensor(name)
            sensor.add(metrics.metric_name(f"{name}-total", description), Stat.TOTAL)
        sensor.record(count)

    def _tell(self, key: str, text: str) -> None:
        if key not in self._reported and len(self._reported) < _MOST_REPORTED:
            self._reported.add(key)
            log.warning("%s", text)


_MOST_REPORTED: Final = 100

"""SqlPredicate: a condition in Spark's dialect decides for which records a transformation applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kconnect.api import ConfigDef, ConfigError, ConnectRecord, Predicate, RecordBatch
from kconnect.builtin.sql.rows import BatchRows, RecordRows, have_schemas
from kconnect.builtin.version import KAFKA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from kconnect.builtin.sql.plan import ConditionPlan, Plans

CONDITION_CONFIG = "condition"


def _check(_: str, value: Any) -> None:
    from kconnect.builtin.sql.spark_query import parse_condition  # here: a list of plugins loads this module

    try:
        parse_condition(value)
    except ConfigError as err:
        raise ConfigError.invalid(CONDITION_CONFIG, value, str(err)) from err


CONFIG = ConfigDef().define(
    CONDITION_CONFIG,
    ConfigDef.Type.STRING,
    ConfigDef.NO_DEFAULT,
    ConfigDef.LambdaValidator.with_(_check, "a condition in Spark's dialect"),
    ConfigDef.Importance.HIGH,
    "What stands after WHERE, in Spark's dialect. Beside the fields of the value there are _key, _value, _topic, "
    "_partition, _offset, _timestamp and _headers.",
)


class SqlPredicate(Predicate):
    """True where the condition is: neither false nor unknown. Nothing like it is in Java."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        from kconnect.builtin.sql.engine import Engine
        from kconnect.builtin.sql.plan import ConditionPlan, Plans, paths_in
        from kconnect.builtin.sql.spark_query import parse_condition

        condition = parse_condition(CONFIG.parse(configs)[CONDITION_CONFIG])
        self._engine = Engine()
        self._plans: Plans[ConditionPlan] = Plans(
            lambda rows: ConditionPlan(condition, self._engine, rows), paths_in([condition])
        )

    def test(self, record: ConnectRecord) -> bool:
        rows = RecordRows(record)
        return self._plans.of(rows).holds_for(rows)

    def test_batch(self, batch: RecordBatch) -> pa.BooleanArray | Any:  # Any: mypy takes NotImplemented for it
        if not have_schemas(batch):
            return NotImplemented
        rows = BatchRows(batch)
        return self._plans.of(rows).holds(rows)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def close(self) -> None:
        self._engine.close()

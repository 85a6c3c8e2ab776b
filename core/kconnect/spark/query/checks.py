"""What validate finds in the settings of queries, beyond their types: SQL, formats, cores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kconnect.api.config_key import Config, ConfigValue
from kconnect.builtin.types.contracts import contract_problems
from kconnect.errors import ConfigError
from kconnect.runtime.config.slot_keys import SHARED_SLOTS, SLOT, SLOT_KEYS
from kconnect.spark.query.engine import QueryEngine, current_engine
from kconnect.spark.query.failures import root_cause
from kconnect.spark.query.formats import guarantee_of, known, missing
from kconnect.spark.query.sink_settings import AT_LEAST_ONCE, EXACTLY_ONCE, MERGE, SinkQuerySettings
from kconnect.spark.query.source_settings import SourceQuerySettings

# A worker that starts with its connectors validates them while Spark comes up
_WAIT_FOR_SPARK_S: Final = 20.0
_TASKS: Final = "tasks.max"


def check_sink(props: Mapping[str, str], config: Config) -> Config:
    """Adds problems of a SparkSink to the result of its table, and recommends the guarantee that its format has."""
    values = {value.name: value for value in config.config_values}
    _refuse_slots(props, config, "SparkSink")
    try:
        settings = SinkQuerySettings.parse(props)
    except ConfigError:
        return config  # the table has said so
    guarantee = guarantee_of(settings.format, settings.mode)
    values["delivery.guarantee"].recommended_values = [EXACTLY_ONCE if guarantee == "exactly once" else AT_LEAST_ONCE]
    _recommend_one_task(props, config)
    for key, problem in _problems(props, settings):
        values[key].add_error_message(problem)
    return config


def check_source(props: Mapping[str, str], config: Config) -> Config:
    """Works as check_sink, for a SparkSource."""
    values = {value.name: value for value in config.config_values}
    _refuse_slots(props, config, "SparkSource")
    try:
        settings = SourceQuerySettings.parse(props)
    except ConfigError:
        return config  # the table has said so
    values["delivery.guarantee"].recommended_values = [EXACTLY_ONCE, AT_LEAST_ONCE]
    _recommend_one_task(props, config)
    if settings.format.lower() == "jdbc" and not settings.cursor_column:
        values["cursor.column"].add_error_message(
            "Spark cannot stream jdbc: name a column that only grows, such as a number given by the database or the "
            "time of the last change"
        )
    for key, problem in _problems_in_spark(settings.format, settings.query, settings.schema):
        values[key].add_error_message(problem)
    return config


def _refuse_slots(props: Mapping[str, str], config: Config, connector: str) -> None:
    """A query has no slot that could be its own or have bounds; nobody shall believe that it has."""
    for key in SLOT_KEYS:
        if props.get(key) is not None and (key, props[key].strip()) != (SLOT, SHARED_SLOTS):
            why = f"{connector} runs as a query of Spark, in the worker's process and on executors, and in no slot"
            found = ConfigValue(key, props[key])
            found.add_error_message(f"{why}: leave {key} out, and see kconnect.query.cores")
            config.config_values.append(found)


def _recommend_one_task(props: Mapping[str, str], config: Config) -> None:
    """More are no error: a config that was made for other sinks works as it is. The table refuses other values."""
    given = props.get(_TASKS, "1").strip()
    if given.isascii() and given.isdecimal() and int(given) > 0:
        config.config_values.append(ConfigValue(_TASKS, int(given), recommended_values=[1]))


def _problems(props: Mapping[str, str], settings: SinkQuerySettings) -> Iterator[tuple[str, str]]:
    yield from contract_problems(props)
    exactly_once = guarantee_of(settings.format, settings.mode) == "exactly once"
    if props.get("delivery.guarantee") == EXACTLY_ONCE and not exactly_once:
        yield (
            "delivery.guarantee",
            f"SparkSink writes {settings.format} at least once: a batch that was cut off is written again. "
            "delta and iceberg are written exactly once, and so are all three formats of TableSink",
        )
    if settings.format.lower() == "iceberg" and not settings.table:
        yield "spark.table", "Iceberg tables are written by their name in a catalog, such as lake.shop.orders"
    if settings.mode == MERGE:
        if not known(settings.format).merges:
            yield "spark.mode", f"Spark cannot merge into {settings.format}: delta and iceberg can"
        if not settings.merge_keys:
            yield "merge.keys", "spark.mode=merge needs the columns that name a row"
    yield from _problems_in_spark(settings.format, settings.query)


def _problems_in_spark(format_name: str, query: str, schema: str = "") -> Iterator[tuple[str, str]]:
    """What this worker's Spark says; nothing in a process without one."""
    engine = current_engine()
    if engine is None:
        return
    if (no_core := engine.no_core()) is not None:
        yield "spark.format", no_core
        return
    jvm = engine.jvm(_WAIT_FOR_SPARK_S)
    if jvm is None:
        return
    if query and (problem := sql_problem(jvm, query)) is not None:
        yield "spark.query", problem
    if schema and (problem := schema_problem(jvm, schema)) is not None:
        yield "spark.schema", problem
    if (problem := format_problem(engine, jvm, format_name)) is not None:
        yield "spark.format", problem


def sql_problem(jvm: Any, query: str) -> str | None:
    """Why a query does not parse, with line and column; None if it does."""
    try:
        parser = getattr(jvm.org.apache.spark.sql.catalyst.parser, "CatalystSqlParser$")
        getattr(parser, "MODULE$").parsePlan(query)  # no name of Python's
    except Exception as error:  # py4j's and Spark's errors share no root
        return _parse_message(root_cause(error).message)
    return None


def schema_problem(jvm: Any, schema: str) -> str | None:
    """Why Spark cannot read these fields and types; None if it can."""
    try:
        jvm.org.apache.spark.sql.types.StructType.fromDDL(schema)
    except Exception as error:  # as above
        return _parse_message(root_cause(error).message)
    return None


def format_problem(engine: QueryEngine, jvm: Any, name: str) -> str | None:
    """Why this Spark does not know a format, and what would bring it; None if it does."""
    conf = jvm.org.apache.spark.sql.internal.SQLConf.get()
    try:
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, conf)
    except Exception as error:  # as above
        said = missing(name, str(engine.app.context.version))
        return said or f"Spark has no format {name}: {root_cause(error).message.splitlines()[0]}"
    return None


def _parse_message(text: str) -> str:
    """Spark's message on one line, with the place."""
    place = re.search(r"\(line (\d+), pos (\d+)\)", text)
    first = next((line.strip() for line in text.splitlines() if line.strip()), text)
    said = re.sub(r"\s*SQLSTATE: \w+", "", re.sub(r"^\[[\w.]+\]\s*", "", first)).replace("(line", "").strip()
    said = re.sub(r"\s*\d+, pos \d+\)$", "", said).rstrip(".")
    return f"{said}, at line {place[1]}, column {int(place[2]) + 1}" if place else said

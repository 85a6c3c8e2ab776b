"""What is known of Spark's formats, as validate tells it."""

from __future__ import annotations

import pytest

from kconnect.api.config_key import Config
from kconnect.spark import SparkSettings
from kconnect.spark.application import SparkApplication
from kconnect.spark.query.batch_writer import batch_in
from kconnect.spark.query.checks import check_sink, check_source
from kconnect.spark.query.engine import QueryEngine, set_current
from kconnect.spark.query.formats import guarantee_of, missing
from kconnect.spark.query.sink_settings import SINK_QUERY_CONFIG
from kconnect.spark.query.source_settings import SOURCE_QUERY_CONFIG
from kconnect.spark.query.tallies import Tallies


def test_a_missing_format_is_reported_with_its_jar_and_settings() -> None:
    said = missing("delta", "4.2.0")

    assert said is not None
    assert "spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0" in said
    assert "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension" in said


def test_where_no_jar_works_the_versions_that_have_one_are_reported_and_what_else_writes_it() -> None:
    said = missing("iceberg", "4.3.0")

    assert said is not None
    assert "there is one for Spark 4.1" in said
    assert "TableSink" in said
    assert missing("nobody.knows.it", "4.3.0") is None


def test_what_a_format_promises() -> None:
    assert guarantee_of("delta", "append") == "exactly once"
    assert guarantee_of("parquet", "append") == "at least once"


def errors(config: Config) -> dict[str, str]:
    return {value.name: value.error_messages[0] for value in config.config_values if value.error_messages}


def test_validate_recommends_the_guarantee_and_refuses_a_better_one() -> None:
    props = {"spark.format": "parquet", "delivery.guarantee": "exactly_once"}

    config = check_sink(props, Config(SINK_QUERY_CONFIG.validate(props)))

    assert errors(config).keys() == {"delivery.guarantee"}
    assert "written again" in errors(config)["delivery.guarantee"]
    found = next(value for value in config.config_values if value.name == "delivery.guarantee")
    assert found.recommended_values == ["at_least_once"]


@pytest.mark.parametrize(
    ("slot", "refused"),
    [
        ({"kconnect.slot": "own"}, {"kconnect.slot"}),
        ({"kconnect.slot": "own", "kconnect.slot.memory": "1g", "kconnect.slot.cores": "1"}, 3),
        ({"kconnect.slot": "shared"}, set()),
        ({"kconnect.slot": "shared", "kconnect.slot.cores": "1"}, {"kconnect.slot.cores"}),
        ({}, set()),
    ],
)
def test_a_query_is_refused_slots_of_its_own(slot: dict[str, str], refused: set[str] | int) -> None:
    sink = {"spark.format": "parquet", **slot}
    source = {"spark.format": "rate", "topic": "t", **slot}
    for name, found in (
        ("SparkSink", check_sink(sink, Config(SINK_QUERY_CONFIG.validate(sink)))),
        ("SparkSource", check_source(source, Config(SOURCE_QUERY_CONFIG.validate(source)))),
    ):
        said = {key: text for key, text in errors(found).items() if key.startswith("kconnect.")}
        assert said.keys() == (slot.keys() if refused == len(slot) else refused)
        for key, text in said.items():
            assert text == (
                f"{name} runs as a query of Spark, in the worker's process and on executors, and in no slot: "
                f"leave {key} out, and see kconnect.query.cores"
            )


def test_a_merge_needs_keys_and_a_format_that_merges() -> None:
    props = {"spark.format": "jdbc", "spark.mode": "merge"}

    assert errors(check_sink(props, Config(SINK_QUERY_CONFIG.validate(props)))).keys() == {"spark.mode", "merge.keys"}


def test_a_database_needs_a_cursor() -> None:
    props = {"spark.format": "jdbc", "topic": "t"}

    assert errors(check_source(props, Config(SOURCE_QUERY_CONFIG.validate(props)))).keys() == {"cursor.column"}


def test_an_iceberg_table_is_known_by_its_name_alone() -> None:
    props = {"spark.format": "iceberg", "spark.options.path": "/lake/t"}

    assert errors(check_sink(props, Config(SINK_QUERY_CONFIG.validate(props)))).keys() == {"spark.table"}


def test_a_batch_is_known_by_the_mark_of_its_query() -> None:
    assert batch_in("kconnect-abc-12", "abc") == 12
    assert batch_in("kconnect-a-b-c-3", "a-b-c") == 3
    for of_others in (None, "", "nightly", "kconnect-abd-12", "kconnect-abc-x"):
        assert batch_in(of_others, "abc") is None


def test_a_worker_without_a_core_for_queries_says_what_to_set() -> None:
    settings = SparkSettings.parse({"spark.master": "local[1]"})
    props = {"spark.format": "parquet"}
    set_current(QueryEngine(settings, SparkApplication(settings), Tallies(), lambda timeout_s: None))
    try:
        found = errors(check_sink(props, Config(SINK_QUERY_CONFIG.validate(props))))
    finally:
        set_current(None)

    assert found.keys() == {"spark.format"}
    assert found["spark.format"].startswith("No core of spark.master=local[1] is free for queries")
    assert "Set kconnect.query.cores=1" in found["spark.format"]


@pytest.mark.parametrize(("given", "recommended"), [("4", [1]), ("1", [1]), ("x", None)])
def test_one_task_is_recommended_and_more_are_no_error(given: str, recommended: list[int] | None) -> None:
    props = {"spark.format": "parquet", "tasks.max": given}

    config = check_sink(props, Config(SINK_QUERY_CONFIG.validate(props)))

    tasks = [value.recommended_values for value in config.config_values if value.name == "tasks.max"]
    assert tasks == ([] if recommended is None else [recommended])
    assert not errors(config)

"""What is known of Spark's formats, as validate tells it."""

from __future__ import annotations

from kconnect.api.config_key import Config
from kconnect.spark.query.checks import check_sink, check_source
from kconnect.spark.query.formats import guarantee_of, missing
from kconnect.spark.query.sink_settings import SINK_QUERY_CONFIG
from kconnect.spark.query.source_settings import SOURCE_QUERY_CONFIG


def test_a_missing_format_is_told_with_its_jar_and_settings() -> None:
    said = missing("delta", "4.2.0")

    assert said is not None
    assert "spark.jars.packages=io.delta:delta-spark_4.2_2.13:4.4.0" in said
    assert "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension" in said


def test_where_no_jar_works_the_versions_that_have_one_are_told_and_what_else_writes_it() -> None:
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


def test_a_merge_needs_keys_and_a_format_that_merges() -> None:
    props = {"spark.format": "jdbc", "spark.mode": "merge"}

    assert errors(check_sink(props, Config(SINK_QUERY_CONFIG.validate(props)))).keys() == {"spark.mode", "merge.keys"}


def test_a_database_needs_a_cursor() -> None:
    props = {"spark.format": "jdbc", "topic": "t"}

    assert errors(check_source(props, Config(SOURCE_QUERY_CONFIG.validate(props)))).keys() == {"cursor.column"}

"""Levels from log4j's files and variables, and which of our loggers they mean."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.config.log_files import OURS, LogConfig, log_config_of, our_levels, read_log_file

# Kafka's own connect-log4j2.yaml, shortened, with a level by a variable and JSON
YAML = """
Configuration:
  Properties:
    Property:
      - {name: kafka.logs.dir, value: "."}
      - {name: chatty, value: DEBUG}
  Appenders:
    Console:
      name: STDOUT
      PatternLayout: {pattern: "[%d] %p %X{connector.context}%m (%c:%L)%n"}
  Loggers:
    Root:
      level: "${env:ROOT_LEVEL:-WARN}"
      AppenderRef: [{ref: STDOUT}]
    Logger:
      - {name: org.apache.kafka.connect.runtime.WorkerSinkTask, level: "${chatty}"}
      - {name: org.reflections, level: error}
      - {name: broken, level: LOUD}
"""


def test_kafkas_log4j2_yaml(tmp_path: Path) -> None:
    file = tmp_path / "connect-log4j2.yaml"
    file.write_text(YAML)
    found = read_log_file(file, {})
    assert found.root == 30
    assert found.levels == {"org.apache.kafka.connect.runtime.WorkerSinkTask": 10, "org.reflections": 40}
    assert found.is_json is False
    assert found.notes[0].endswith("levels are taken; patterns, appenders and filters have no effect")
    assert "Unknown level: LOUD" in found.notes[1]
    assert read_log_file(file, {"ROOT_LEVEL": "TRACE"}).root == 5
    file.write_text(YAML.replace("PatternLayout: {pattern", "JsonTemplateLayout: {eventTemplateUri"))
    assert read_log_file(file, {}).is_json is True


def test_one_logger_alone_and_names_in_any_case(tmp_path: Path) -> None:
    file = tmp_path / "log4j2.yml"
    file.write_text("configuration:\n  loggers:\n    logger: {name: a.b, level: info}\n    asyncRoot: {level: OFF}\n")
    found = read_log_file(file, {})
    assert (found.root, found.levels) == (60, {"a.b": 20})


@pytest.mark.parametrize(
    "text",
    [
        "rootLogger.level = WARN\nlogger.sink.name = a.b\nlogger.sink.level = DEBUG\nlogger.sink.additivity=false\n",
        "rootLogger = WARN, stdout\nlogger.sink.name = a.b\nlogger.sink = DEBUG, stdout\n",
        "log4j.rootLogger=WARN, stdout\nlog4j.logger.a.b=DEBUG, stdout\nlog4j.appender.stdout=x.ConsoleAppender\n",
        "log4j.rootCategory=WARN\nlog4j.category.a.b=${chatty}\nchatty=DEBUG\n",
    ],
)
def test_properties_of_both_generations(tmp_path: Path, text: str) -> None:
    file = tmp_path / "log4j.properties"
    file.write_text(text)
    found = read_log_file(file, {})
    assert (found.root, found.levels, found.is_json) == (30, {"a.b": 10}, False)


def test_a_file_that_is_none_says_so(tmp_path: Path) -> None:
    for name, text, words in (
        ("x.xml", "<Configuration/>", "XML is not read"),
        ("x.yaml", "Configuration: [", "line 1 is not YAML"),
        ("x.yaml", "a: b", "has no Configuration"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ConfigError) as failed:
            read_log_file(tmp_path / name, {})
        assert words in f"{failed.value} {failed.value.hint}"


def test_variables_of_the_images_win_over_the_file_that_kafka_log4j_opts_names(tmp_path: Path) -> None:
    file = tmp_path / "log4j.properties"
    file.write_text("log4j.rootLogger=WARN\nlog4j.logger.a=WARN\nlog4j.logger.b=WARN\n")
    env = {
        "KAFKA_LOG4J_OPTS": f"-Xmx1g -Dlog4j.configuration=file:{file}",
        "CONNECT_LOG4J_LOGGERS": "a=DEBUG,c=ERROR",
        "CONNECT_LOG4J_LOGGER_ORG_APACHE_KAFKA": "TRACE, stdout",
    }
    found = log_config_of(env)
    assert (found.root, found.levels) == (30, {"a": 10, "b": 30, "c": 40, "org.apache.kafka": 5})
    assert log_config_of(env | {"CONNECT_LOG4J_ROOT_LOGLEVEL": "ERROR"}).root == 40
    assert log_config_of({"CONNECT_LOG4J_LOGGERS": "DEBUG, stdout"}) == LogConfig(root=10)
    assert log_config_of({"LOG_LEVEL": "DEBUG"}) == LogConfig()
    assert log_config_of({"LOG_LEVEL": "DEBUG", "CONFIG_STORAGE_TOPIC": "c"}).root == 10
    assert log_config_of({"CONNECT_LOG4J_ROOT_LOGLEVEL": "LOUD"}).notes != ()
    with pytest.raises(ConfigError, match="KAFKA_LOG4J_OPTS cannot be read"):
        log_config_of({"KAFKA_LOG4J_OPTS": "-Dlog4j2.configurationFile='/x"})


def test_a_java_logger_is_ours_that_says_the_same_and_what_is_meant_more_closely_wins() -> None:
    found = our_levels(
        {
            "org.apache.kafka.connect": 30,
            "org.apache.kafka.connect.runtime": 20,
            "org.apache.kafka.connect.runtime.rest": 10,
            "kconnect.runtime.storage": 40,
            "org.apache.kafka.connect.storage": 10,
            "org.reflections": 40,
            "my.plugin": 10,
        }
    )
    assert found.levels["kconnect"] == 30
    assert found.levels["kconnect.runtime.herder"] == 20
    assert found.levels["kconnect.runtime.rest"] == 10
    assert found.levels["kconnect.runtime.storage"] == 40
    assert found.levels["my.plugin"] == 10
    assert found.unknown == ("org.reflections",)


def test_every_logger_of_ours_that_a_java_name_means_exists() -> None:
    missing = [ours for names in OURS.values() for ours in names if importlib.util.find_spec(ours) is None]
    assert missing == []

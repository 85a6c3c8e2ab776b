"""Worker properties to Spark's settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.errors import ConfigError
from kconnect.java.door import DOOR
from kconnect.spark.settings import SparkSettings, own_cores, slots_share_jvm, spark_conf

FOLDER = Path("folder")


def test_defaults_stay_on_this_machine():
    settings = SparkSettings.parse({"bootstrap.servers": "b:9092"})

    assert (settings.link_bind_host, settings.link_advertised_host) == ("127.0.0.1", "127.0.0.1")
    assert settings.slot_count() == own_cores()
    conf = spark_conf(settings, FOLDER)
    assert conf["spark.master"] == f"local[{own_cores() + 1},1]"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.local.dir"] == "folder"


@pytest.mark.parametrize(
    ("worker", "count"),
    [
        ({"kconnect.slots": "3"}, 3),
        ({"spark.master": "local"}, 1),
        ({"spark.master": "local[5]"}, 5),
        ({"spark.master": "local[6,2]"}, 6),
        ({"spark.master": "local[*]"}, own_cores()),
        ({"spark.master": "local[6]", "kconnect.slots": "2"}, 2),
        ({"spark.master": "local[6, 2]"}, 6),
    ],
)
def test_slots_are_as_set_or_the_cores_spark_has(worker, count):
    assert SparkSettings.parse(worker).slot_count() == count


def test_a_cluster_is_reported_where_the_worker_is():
    settings = SparkSettings.parse({"spark.master": "spark://m:7077", "spark.driver.host": "worker-1"})
    named = SparkSettings.parse({"spark.master": "yarn", "kconnect.link.advertised.host": "worker-2"})

    assert (settings.link_bind_host, settings.link_advertised_host) == ("0.0.0.0", None)  # as Spark's driver chose
    assert named.link_advertised_host == "worker-2"
    assert "spark.driver.bindAddress" not in spark_conf(settings, FOLDER)


def test_executors_of_a_cluster_import_what_is_shipped_first():
    own = {"spark.master": "spark://m:7077", "spark.executorEnv.PYTHONPATH": "/opt/mine"}

    assert spark_conf(SparkSettings.parse(own), FOLDER)["spark.executorEnv.PYTHONPATH"] == "kconnect-lib:/opt/mine"
    assert "spark.executorEnv.PYTHONPATH" not in spark_conf(SparkSettings.parse({}), FOLDER)


def test_every_spark_setting_of_the_worker_file_reaches_the_session():
    given = {"spark.master": "k8s://https://k:6443", "spark.kubernetes.namespace": "n", "spark.executor.cores": "4"}

    assert given.items() <= spark_conf(SparkSettings.parse(given), FOLDER).items()


def test_what_the_user_sets_wins():
    conf = spark_conf(SparkSettings.parse({"spark.ui.enabled": "true", "spark.app.name": "mine"}), FOLDER)

    assert (conf["spark.ui.enabled"], conf["spark.app.name"]) == ("true", "mine")


def test_where_executors_are_excluded_spark_has_the_tries_it_asks_for():
    """With fewer it ends the application at the first job."""
    conf = spark_conf(SparkSettings.parse({"spark.excludeOnFailure.enabled": "true"}), FOLDER)

    assert conf["spark.master"] == f"local[{own_cores() + 1},4]"
    assert conf["spark.task.maxFailures"] == "4"
    assert conf["spark.excludeOnFailure.taskAndStage.enabled"] == "false"


def test_speculation_is_refused_with_a_warning(caplog):
    conf = spark_conf(SparkSettings.parse({"spark.speculation": "true"}), FOLDER)

    assert conf["spark.speculation"] == "false"
    assert "spark.speculation=true is ignored" in caplog.text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kconnect.slots", "many"),
        ("kconnect.slots", "0"),
        ("kconnect.link.port", "-1"),
        ("kconnect.slot.heartbeat.interval.ms", "1"),
        ("kconnect.slot.heartbeat.timeout.ms", "1500"),
    ],
)
def test_a_wrong_value_is_named(key, value):
    with pytest.raises(ConfigError) as failure:
        SparkSettings.parse({key: value})

    assert f"Invalid value {value} for configuration {key}" in str(failure.value)


def test_more_slots_than_a_local_spark_has_cores_are_refused():
    with pytest.raises(ConfigError, match=r"kconnect.slots: spark.master=local\[2\] has fewer cores"):
        SparkSettings.parse({"spark.master": "local[2]", "kconnect.slots": "3"})


def test_a_worker_begins_with_the_least_of_its_slots_and_knows_the_most():
    settings = SparkSettings.parse({"kconnect.slots": "2..8"})

    assert (settings.slot_count(), settings.most_slots, settings.query_room()) == (2, 8, 1)
    assert SparkSettings.parse({"kconnect.slots": "3"}).most_slots is None
    assert SparkSettings.parse({"kconnect.slots": "3..3"}).most_slots is None
    with pytest.raises(ConfigError, match=r"2..8 for configuration kconnect.slots: spark.master=local\[4\] has fewer"):
        SparkSettings.parse({"spark.master": "local[4]", "kconnect.slots": "2..8"})


def test_slots_between_bounds_need_executors_on_a_cluster_that_come_and_go():
    cluster = {"spark.master": "spark://one:7077", "kconnect.slots": "2..8"}
    with pytest.raises(ConfigError, match=r"keep their cores.*give one number, or set spark.dynamicAllocation.enabled"):
        SparkSettings.parse(cluster)
    allowed = SparkSettings.parse({**cluster, "spark.dynamicAllocation.enabled": "true"})
    assert (allowed.slots, allowed.most_slots) == (2, 8)
    assert SparkSettings.parse({**cluster, "kconnect.slots": "2"}).most_slots is None


def test_settings_of_spark_are_not_shown():
    assert "s3cret" not in repr(SparkSettings.parse({"spark.hadoop.fs.s3a.secret.key": "s3cret"}))


@pytest.mark.parametrize(
    ("worker", "slots", "for_queries"),
    [
        ({"kconnect.slots": "2"}, 2, 1),
        ({"kconnect.slots": "2", "kconnect.query.cores": "3"}, 2, 3),
        ({"kconnect.slots": "2", "kconnect.query.cores": "0"}, 2, 0),
        ({"spark.master": "local[*]"}, own_cores(), 1),
        ({"spark.master": "local[4]"}, 4, 0),
        ({"spark.master": "local[4]", "kconnect.slots": "2"}, 2, 2),
        ({"spark.master": "local[4]", "kconnect.query.cores": "1"}, 3, 1),
    ],
)
def test_queries_have_cores_that_slots_leave(worker, slots, for_queries):
    settings = SparkSettings.parse(worker)

    assert (settings.slot_count(), settings.query_room()) == (slots, for_queries)
    if "spark.master" not in worker or worker["spark.master"] == "local[*]":
        assert spark_conf(settings, FOLDER)["spark.master"] == f"local[{slots + for_queries},1]"


def test_a_core_for_queries_must_leave_one_for_a_slot():
    with pytest.raises(ConfigError, match=r"kconnect.query.cores.*no core left for slots"):
        SparkSettings.parse({"spark.master": "local[1]", "kconnect.query.cores": "1"})


def test_slots_come_first_where_queries_wait_for_cores_too(tmp_path):
    conf = spark_conf(SparkSettings.parse({"kconnect.slots": "2"}), tmp_path)

    assert conf["spark.scheduler.mode"] == "FAIR"
    assert conf["spark.scheduler.allocation.file"] == (tmp_path / "pools.xml").as_uri()
    assert '<pool name="slots">' in (tmp_path / "pools.xml").read_text()
    without = spark_conf(SparkSettings.parse({"kconnect.query.cores": "0"}), tmp_path)
    assert "spark.scheduler.mode" not in without


def test_slots_share_the_workers_jvm_where_they_are_asked_to_and_run_on_its_machine(caplog):
    caplog.set_level("INFO")
    asked = {"kconnect.java.host": "worker"}

    assert not slots_share_jvm({})
    assert not slots_share_jvm({"kconnect.java.host": "slot"})
    assert slots_share_jvm(asked)
    assert slots_share_jvm({**asked, "spark.master": "local[4]"})
    assert not caplog.messages

    assert not slots_share_jvm({**asked, "spark.master": "spark://far:7077"})
    assert caplog.messages == [
        "kconnect.java.host=worker is slot here: executors of spark.master=spark://far:7077 may be on other machines"
    ]


def test_where_slots_get_the_workers_jvm_is_a_secret_beside_its_settings_of_java():
    settings = SparkSettings.parse({"kconnect.java.heap": "1g", DOOR: "secret"})

    assert (settings.java, settings.shared_java) == ({"kconnect.java.heap": "1g"}, {DOOR: "secret"})
    assert "secret" not in repr(settings)

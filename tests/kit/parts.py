"""Parts of the tests: what is long and rare, in named parts that a run takes when a change can reach them, or in turn.

`make test` runs all that is in no part (`core`), the parts that the change reaches, and one more, whose turn it is by
the number of the commit; `make test-all` runs all, `make test-NAME` one part. The change is what differs from
where this branch left its upstream, or from the commit before when there is none (`make test BASE=REV` says another),
with what is not committed.

A change reaches a part when it is in one of the part's tests, in what of the kit these import, in one of the part's
own files, in the fixtures of all tests or the locks of what is installed, or in what its subjects import, over however
many steps. That whole workers start, run and end is held by `core`; a part of whole workers, such as flows under
kill -9, has as subjects the rooms that a fault would be in.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["CORE", "PARTS", "TURNS_KEPT", "Part", "chosen", "is_taken", "module_of", "part_of", "reached"]

CORE: Final = "core"
TURNS_KEPT: Final = 10
"""A part that has not run for so many commits runs. There are no more parts than that, so each has its turn in time."""


# What every test stands on: fixtures of all, and the versions of what is installed
_EVERYWHERE: Final = ("tests/conftest.py", "requirements*.lock", "pyproject.toml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`tests`: files and folders below tests/; `shared`: files of core that have more tests when the part runs.
    `subjects`: modules and packages of the product. `files`: patterns.
    """

    name: str
    about: str
    tests: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


PARTS: Final[tuple[Part, ...]] = (
    Part(
        name="browser",
        about="the console in a real Chromium, by keyboard, on a phone, with workers that die",
        tests=("system/admin/console",),
        subjects=("kconnect.admin.console",),
    ),
    Part(
        name="chaos",
        about="workers, slots, brokers and flows killed, frozen and cut off, and what everybody says meanwhile",
        tests=(
            "system/runtime/herder/test_chaos.py",
            "system/runtime/herder/test_degraded_tasks_cluster.py",
            "system/runtime/herder/test_frozen_worker.py",
            "system/runtime/herder/test_outages.py",
            "system/admin/dead_letters/test_dead_letter_replay.py",
            "system/builtin/test_flows_killed.py",
            "system/worker/test_degraded_tasks.py",
            "system/worker/test_kafka_away.py",
            "system/worker/test_killed_in_mid_stream.py",
            "system/worker/test_own_slots.py",
            "system/worker/test_rotated_secrets.py",
            "system/worker/test_slots_between_bounds.py",
            "integration/admin/cluster/test_frozen_broker.py",
            "integration/admin/cluster/test_frozen_worker.py",
            "integration/admin/direct/test_replica_repairs.py",
            "integration/runtime/herder/test_held_back.py",
            "integration/runtime/herder/test_membership_faults.py",
        ),
        subjects=(
            "kconnect.admin.cluster",
            "kconnect.admin.dead_letters",
            "kconnect.admin.direct",
            "kconnect.builtin.connectors",
            "kconnect.runtime.herder",
            "kconnect.runtime.kafka",
            "kconnect.runtime.pipeline",
            "kconnect.runtime.rest",
            "kconnect.runtime.storage",
            "kconnect.spark.launcher",
        ),
    ),
    Part(
        name="clusters",
        about="workers and their Spark application, by themselves, on a standalone cluster and on YARN",
        tests=(
            "system/spark/test_slots_on_cluster.py",
            "system/spark/test_spark_cluster.py",
            "system/spark/test_spark_yarn.py",
            "integration/spark/test_spark_application.py",
            "integration/spark/test_spark_master.py",
        ),
        subjects=("kconnect.spark",),
    ),
    Part(
        name="debezium",
        about="Debezium and others' plugins from Maven, and the JVM of plugins: killed, blocking, beside Java Connect",
        tests=(
            "system/java/plugins/test_debezium_killed.py",
            "system/java/plugins/test_iceberg_sink.py",
            "system/java/plugins/test_java_behind_the_api.py",
            "system/java/plugins/test_java_blame.py",
            "system/java/plugins/test_java_blame_beside_java.py",
            "system/java/plugins/test_java_faults.py",
            "system/java/plugins/test_java_mbeans_shown.py",
            "system/java/plugins/test_java_one_jvm.py",
            "system/java/plugins/test_java_parity.py",
            "system/java/plugins/test_java_plugins_that_block.py",
            "integration/java/plugins/test_java_mbeans.py",
            "integration/java/plugins/test_java_mixed_chains.py",
            "integration/java/plugins/test_java_plugins_rest.py",
            "integration/java/plugins/test_java_shared_jvm.py",
            "integration/java/plugins/test_java_sink_tasks.py",
            "integration/java/plugins/test_java_source_tasks.py",
            "integration/java/plugins/test_java_stages.py",
            "integration/java/plugins/test_java_tasks.py",
            "integration/java/plugins/test_java_third_party.py",
            "integration/java/plugins/test_java_typed_settings.py",
        ),
        subjects=("kconnect.java.plugins",),
        files=("java/*",),
    ),
    Part(
        name="fuzz",
        about="random requests, records, values and settings, beside Java's classes where it has them",
        tests=(
            "system/runtime/rest/test_rest_schema_fuzz.py",
            "integration/runtime/rest/test_rest_fuzz.py",
            "integration/builtin/test_columns_are_records.py",
            "integration/builtin/test_random_json_columns.py",
            "integration/builtin/test_random_plain_json_columns.py",
            "integration/builtin/test_random_transforms_java.py",
            "integration/builtin/test_random_json_java.py",
            "integration/builtin/test_random_spark_sql.py",
            "integration/builtin/test_round_trips_outside.py",
            "integration/runtime/herder/test_assignor_properties.py",
            "integration/runtime/herder/test_state_properties.py",
            "integration/runtime/herder/test_status_interleavings.py",
        ),
        subjects=(
            "kconnect.runtime.rest",
            "kconnect.runtime.herder.cluster",
            "kconnect.runtime.herder.decisions",
            "kconnect.builtin",
        ),
    ),
    Part(
        name="images",
        about="the container image, and class archives that new machines make",
        tests=("system/deploy", "integration/java/archives"),
        subjects=("kconnect.java.archives",),
        files=("Dockerfile", ".dockerignore", "deploy/*", "requirements.lock", "pyproject.toml", "hatch_build.py"),
    ),
    Part(
        name="interop",
        about="workers of Java's and ours in one group, on the same files, also bad ones, and topics; Kafka 2.8",
        tests=(
            "system/runtime/herder/test_cluster_bad_input.py",
            "system/runtime/herder/test_mixed_cluster.py",
            "system/runtime/herder/test_mixed_pair.py",
            "system/cli/test_cli_with_our_worker.py",
            "system/runtime/pipeline/test_order_of_calls.py",
            "system/worker/test_bad_input.py",
            "system/worker/test_older_kafka.py",
            "system/worker/test_takeover_java.py",
            "integration/admin/cluster/test_lag_on_java_workers.py",
            "integration/admin/direct/test_direct_java.py",
            "integration/admin/direct/test_direct_edits_java.py",
            "integration/admin/direct/test_doctor_java.py",
            "integration/admin/direct/test_topics_sweep_java.py",
            "integration/cli/test_cli_with_java_worker.py",
            "integration/cli/test_plugin_path_java.py",
            "integration/runtime/herder/test_assignor_java.py",
            "integration/runtime/herder/test_membership_java.py",
        ),
        subjects=(
            "kconnect_cli",
            "kconnect.admin.direct",
            "kconnect.admin.cluster",
            "kconnect.runtime.herder.group",
            "kconnect.runtime.herder.decisions",
            "kconnect.runtime.storage",
            "kconnect.runtime.config",
            "kconnect.worker",
        ),
    ),
    Part(
        name="mirror",
        about="MirrorMaker 2 between real clusters, and its settings beside Java's",
        tests=("system/worker/mirror", "integration/worker/mirror"),
        subjects=("kconnect.worker.mirror",),
    ),
    Part(
        name="pages",
        about="every page of docs/ run as its reader would, and the site made of them; the README runs always",
        tests=("system/docs/test_site.py",),
        shared=("system/docs/test_pages.py",),
        subjects=("kconnect_cli.screen", "kconnect.java.devbroker"),
        files=("docs/*", "connectors.d/*", "cli/kconnect_cli/commands/*"),
    ),
    Part(
        name="queries",
        about="tables, queries and formats of Spark: killed, joined, in other catalogs and stores; a pooler, killed",
        tests=(
            "system/spark/test_query_work.py",
            "system/spark/test_query_tables_killed.py",
            "system/spark/test_spark_cluster_queries.py",
            "system/spark/test_spark_queries.py",
            "system/spark/test_spark_sources_killed.py",
            "system/builtin/test_tables_killed.py",
            "system/builtin/test_pooled_sinks_killed.py",
            "integration/builtin/test_iceberg_catalog_killed.py",
            "integration/builtin/test_table_formats.py",
            "integration/builtin/test_tables_on_s3.py",
            "integration/spark/test_query_batches.py",
            "integration/spark/test_query_checkpoint.py",
            "integration/spark/test_query_real_plans.py",
            "integration/spark/test_spark_format.py",
        ),
        subjects=(
            "kconnect.spark.datasource",
            "kconnect.spark.query",
            "kconnect.builtin.connectors.tables",
            "kconnect.builtin.connectors.sql.sql_session",
        ),
    ),
)


def part_of(path: str, parts: Sequence[Part] = PARTS) -> str:
    """The part that a test file is in. Shape: `path` is below tests/."""
    for part in parts:
        if any(path == place or path.startswith(f"{place}/") for place in part.tests):
            return part.name
    return CORE


def is_taken(path: str, names: Collection[str], parts: Sequence[Part] = PARTS) -> bool:
    """Whether a run that takes these parts takes a test file."""
    return part_of(path, parts) in names or any(path in part.shared for part in parts if part.name in names)


def module_of(path: str) -> str | None:
    """The module that a file of the repository is, None for one that is none."""
    for folder in ("core/", "cli/", "tests/"):
        if path.startswith(folder) and path.endswith(".py"):
            return path.removeprefix(folder).removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    return None


def reached(
    changed: Iterable[str], imports_of: Callable[[Part], Collection[str]], parts: Sequence[Part] = PARTS
) -> dict[str, str]:
    """Parts that a change can reach, each with a file that shows it. `imports_of`: what a part's tests and subjects
    are and import, over however many steps.
    """
    found: dict[str, str] = {}
    for part in parts:
        modules = imports_of(part)
        for path in changed:
            is_own = path.startswith("tests/") and is_taken(path.removeprefix("tests/"), {part.name}, parts)
            is_file = any(fnmatch.fnmatch(path, pattern) for pattern in (*part.files, *_EVERYWHERE))
            if is_own or is_file or module_of(path) in modules:
                found[part.name] = path
                break
    return found


def chosen(
    why_reached: Mapping[str, str],
    commit_number: int,
    commits_since: Mapping[str, int],
    parts: Sequence[Part] = PARTS,
) -> dict[str, str]:
    """Which parts run, and why. `commits_since`: how long ago each ran here, as far as that is known."""
    why = {name: f"{path} was changed" for name, path in why_reached.items()}
    for part in parts:
        if part.name not in why and commits_since.get(part.name, 0) >= TURNS_KEPT:
            why[part.name] = f"it last ran {commits_since[part.name]} commits ago"
    if parts:
        turn = parts[commit_number % len(parts)]
        why.setdefault(turn.name, f"its turn at commit {commit_number}")
    return why


def missing(parts: Sequence[Part], tests: Path) -> list[str]:
    """Places of parts that do not exist."""
    return [
        f"{part.name}: {place}"
        for part in parts
        for place in (*part.tests, *part.shared)
        if not (tests / place).exists()
    ]

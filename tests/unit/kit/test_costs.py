"""What a run costs: kinds of processes by their command lines, and tables of what was measured."""

from __future__ import annotations

import pytest

from kit.costs import kind_of, tables


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("/usr/bin/java -Xmx512m -cp a.jar kafka.Kafka server.properties", "broker"),
        ("/usr/bin/java org.apache.kafka.connect.cli.ConnectDistributed worker.properties", "Java Connect"),
        ("/usr/bin/java -cp spark org.apache.spark.deploy.SparkSubmit pyspark-shell", "Spark JVM"),
        ("/venv/bin/python -m kconnect.spark.preload pyspark.worker", "slot"),
        ("/venv/bin/python /venv/bin/connect standalone w.properties", "connect"),
        ("/venv/bin/python .venv/bin/pytest -q tests", "pytest"),
        ("/venv/bin/python -u -c import sys;exec(eval(sys.stdin.readline()))", "pytest"),
        ("/usr/bin/java -jar other.jar", "other Java"),
        ("/bin/sleep 5", "other"),
    ],
)
def test_a_process_is_reported_by_its_command_line(command: str, kind: str) -> None:
    assert kind_of(command) == kind


def test_the_slowest_stand_first() -> None:
    found = {
        "wall": 61.4,
        "files": {"a.py": [1.0, 2.0], "b.py": [30.0, 12.6]},
        "fixtures": {"broker": [3, 9.0, 8.0]},
        "kinds": {"broker": [3, 20.0], "slot": [1, 40.0]},
    }
    lines = tables(found).splitlines()
    assert lines[0] == "Whole run: 61 s"
    assert [line for line in lines if line.startswith("| `")] == [
        "| `b.py` | 30 | 13 |",
        "| `a.py` | 1 | 2 |",
        "| `broker` | 3 | 9 | 8 |",
    ]
    assert lines[-2:] == ["| slot | 1 | 40 |", "| broker | 3 | 20 |"]

"""Why a query failed: the root cause out of Spark's traces."""

from __future__ import annotations

import pytest

from kconnect.spark.query.failures import root_cause

IN_A_READER = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage failure
org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 5.0 failed 1 times:
 Lost task 0.0 in stage 5.0: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/lib/pyspark/worker.py", line 10, in main
    process()
  File "/lib/kconnect/runtime/pipeline/tolerance.py", line 5, in give_up
    raise failure
kconnect.runtime.pipeline.stages.StageError: t-0@7 failed in VALUE_CONVERTER of JsonConverter: not JSON

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
\tat java.base/java.lang.Thread.run(Thread.java:1)
"""
IN_A_DRIVER = """An error occurred while calling o77.save.
: org.postgresql.util.PSQLException: Connection to 127.0.0.1:1 refused. Check that the hostname is correct.
\tat org.postgresql.core.v3.ConnectionFactoryImpl.openConnectionImpl(ConnectionFactoryImpl.java:1)
Caused by: java.net.ConnectException: Connection refused
\t... 2 more
"""
IN_A_TABLE = """An error occurred while calling o77.save.
: org.apache.spark.SparkException: Job aborted
Caused by: org.postgresql.util.PSQLException: relation missing does not exist
\t... 2 more
"""


class SparkError(Exception):
    """Like pyspark's: the JVM's trace is kept beside a short message."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self._stackTrace = trace


def test_the_error_of_a_reading_process_is_the_root_cause() -> None:
    cause = root_cause(SparkError("short", IN_A_READER))

    assert cause.message == "t-0@7 failed in VALUE_CONVERTER of JsonConverter: not JSON"
    error = cause.error("Query lake has ended")
    assert str(error) == "Query lake has ended: StageError: t-0@7 failed in VALUE_CONVERTER of JsonConverter: not JSON"
    assert "PythonRunner.scala" in error.__notes__[0]


def test_the_innermost_cause_of_java_is_the_root_cause() -> None:
    assert root_cause(Exception(IN_A_TABLE)).message == "relation missing does not exist"


def test_what_a_socket_says_names_no_address_so_the_error_above_it_is_reported() -> None:
    cause = root_cause(Exception(IN_A_DRIVER))

    assert cause.kind == "org.postgresql.util.PSQLException"
    assert cause.message == "Connection to 127.0.0.1:1 refused. Check that the hostname is correct."


def test_spark_s_description_of_the_query_is_no_part_of_the_message() -> None:
    cause = root_cause(Exception("batch 1 doesn't exist\n=== Streaming Query ===\nIdentifier: lake"))

    assert cause.message == "batch 1 doesn't exist"


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", True),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", True),
        (IN_A_READER.replace("kconnect.runtime.pipeline.stages.StageError", "kconnect.errors.RetriableError"), True),
        (IN_A_READER.replace("kconnect.runtime.pipeline.stages.StageError", "kconnect.errors.FencedError"), True),
        (IN_A_READER, False),
        (IN_A_DRIVER, True),
        (IN_A_TABLE, False),
    ],
)
def test_a_lost_process_and_a_silent_broker_may_pass(text: str, passes: bool) -> None:
    assert root_cause(Exception(text)).is_passing is passes


def test_what_another_writer_of_the_table_has_caused_passes() -> None:
    conflict = (
        "An error occurred while calling o1.sql.\n: io.delta.exceptions.ConcurrentAppendException: [DELTA_..] x\n\tat y"
    )

    assert root_cause(SparkError("short", conflict)).is_passing


def test_where_else_an_error_was_thrown_is_no_cause() -> None:
    trace = (
        "An error occurred while calling o1.save.\n"
        ": org.apache.spark.SparkException: Job aborted: ExecutorLostFailure x\n\tat y\n"
        "\tSuppressed: org.apache.spark.util.Utils$OriginalTryStackTraceException: Full stacktrace of caller\n\tat z"
    )

    cause = root_cause(SparkError("short", trace))

    assert cause.message == "Job aborted: ExecutorLostFailure x"
    assert cause.is_passing

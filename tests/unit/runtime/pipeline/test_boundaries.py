"""Where transactions end: what each boundary says to polls, requests, time and the end."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kconnect.api import RecordBatch, Schema, SourceRecord, TransactionBoundary
from kconnect.errors import ConnectError
from kconnect.runtime.pipeline.boundaries import (
    ConnectorBoundary,
    Ending,
    IntervalBoundary,
    PollBoundary,
    TransactionRequests,
    boundary_of,
)
from kconnect.runtime.pipeline.polled import PolledBatch, PolledRecords

COMMIT, ABORT = Ending.COMMIT, Ending.ABORT


def records(count: int) -> list[SourceRecord]:
    return [SourceRecord({"p": 1}, {"o": number}, "t", f"v{number}") for number in range(count)]


def sizes(boundary: ConnectorBoundary, polled: list[SourceRecord] | RecordBatch) -> list[tuple[int, Ending | None]]:
    form = PolledBatch(polled) if isinstance(polled, RecordBatch) else PolledRecords(polled)
    return [(part.size, ending) for part, ending in boundary.parts(form)]


def test_a_poll_with_records_is_a_transaction_and_one_without_is_none() -> None:
    boundary, polled = PollBoundary(), PolledRecords(records(3))
    assert boundary.parts(polled) == [(polled, None)]
    assert boundary.after_poll(0, gave_records=True) is COMMIT
    assert boundary.after_poll(0, gave_records=False) is None
    assert boundary.while_polling(99) is None
    assert boundary.at_end(0) is COMMIT


def test_an_interval_ends_with_the_first_look_after_it_whether_there_are_records_or_not() -> None:
    boundary = IntervalBoundary(10)
    boundary.begin(100)
    assert boundary.after_poll(109.9, gave_records=True) is None
    assert boundary.after_poll(110, gave_records=False) is COMMIT
    assert boundary.while_polling(119) is None, "the next one began with the look"
    assert boundary.while_polling(125) is COMMIT
    assert boundary.after_poll(134, gave_records=True) is None
    assert boundary.at_end(134) is COMMIT, "also before its time"


def test_a_connector_that_asks_for_nothing_never_commits() -> None:
    boundary = ConnectorBoundary(TransactionRequests())
    assert sizes(boundary, records(3)) == [(3, None)]
    assert boundary.after_poll(1e9, gave_records=True) is None
    assert boundary.while_polling(1e9) is None
    assert boundary.at_end(1e9) is None


def test_a_poll_is_taken_apart_behind_the_records_that_were_asked_for() -> None:
    requests, polled = TransactionRequests(), records(10)
    boundary = ConnectorBoundary(requests)
    requests.abort_transaction(polled[6])
    requests.commit_transaction(polled[2])
    parts = boundary.parts(PolledRecords(polled))
    assert [(part.size, ending) for part, ending in parts] == [(3, COMMIT), (4, ABORT), (3, None)]
    assert [record for part, _ in parts for record in part.records()] == polled
    assert sizes(boundary, polled) == [(10, None)], "each is asked once"


def test_a_request_behind_the_last_record_leaves_nothing_over() -> None:
    requests, polled = TransactionRequests(), records(2)
    requests.commit_transaction(polled[1])
    assert sizes(ConnectorBoundary(requests), polled) == [(2, COMMIT)]


def test_a_request_for_a_record_waits_for_the_poll_that_gives_it() -> None:
    requests, polled = TransactionRequests(), records(2)
    boundary = ConnectorBoundary(requests)
    requests.commit_transaction(polled[0])
    assert sizes(boundary, records(2)) == [(2, None)], "equal ones are not meant"
    assert sizes(boundary, polled) == [(1, COMMIT), (1, None)]


def test_a_record_of_a_batch_is_found_by_what_is_in_it() -> None:
    requests = TransactionRequests()
    batch = RecordBatch(
        "t",
        value=pa.array(["v0", "v1", "v2"]),
        value_schema=Schema.STRING_SCHEMA,
        source_partition={"p": 1},
        source_offsets={"o": pa.array([0, 1, 2])},
    )
    requests.commit_transaction(batch.to_records()[1])  # type: ignore[arg-type]  # a source's
    assert sizes(ConnectorBoundary(requests), batch) == [(2, COMMIT), (1, None)]


def test_requests_for_a_poll_are_heeded_once_behind_it_or_at_the_end() -> None:
    requests = TransactionRequests()
    boundary = ConnectorBoundary(requests)
    requests.commit_transaction()
    assert boundary.while_polling(0) is None, "poll may not have given the records yet"
    assert boundary.after_poll(0, gave_records=False) is COMMIT
    assert boundary.after_poll(0, gave_records=True) is None
    requests.abort_transaction()
    assert boundary.at_end(0) is ABORT


def test_requests_that_contradict_each_other_fail_the_task() -> None:
    requests, polled = TransactionRequests(), records(1)
    boundary = ConnectorBoundary(requests)
    requests.commit_transaction()
    requests.abort_transaction()
    with pytest.raises(ConnectError, match="both commit and abort of same transaction"):
        boundary.after_poll(0, gave_records=True)
    requests.commit_transaction(polled[0])
    requests.abort_transaction(polled[0])
    with pytest.raises(ConnectError, match="both commit and abort of same record against topic/partition t/None"):
        boundary.parts(PolledRecords(polled))


def test_a_boundary_is_made_of_its_setting() -> None:
    kinds = [type(boundary_of(kind, 1, TransactionRequests())) for kind in TransactionBoundary]
    assert kinds == [PollBoundary, IntervalBoundary, ConnectorBoundary]
    with pytest.raises(ValueError, match="needs the requests"):
        boundary_of(TransactionBoundary.CONNECTOR, 1, None)

"""Tables of each format on a disk that is full: a sentence, another try, and each record once when there is room."""

from __future__ import annotations

import resource

import pytest

from kconnect.api import ConnectError, RetriableError
from kconnect.builtin.connectors.tables.table_sink import TableSinkConnector
from kconnect.testing import SinkHarness
from kit.tables import FORMATS, read_table, table_settings


@pytest.fixture
def limit_files():
    """Makes this process unable to write files beyond a size, as a disk without room; undone behind the test."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(size):
        resource.setrlimit(resource.RLIMIT_FSIZE, (before[0] if size is None else size, before[1]))

    yield limit
    limit(None)


@pytest.mark.parametrize("kind", FORMATS)
def test_rows_wait_until_there_is_room(kind, tmp_path, limit_files):
    settings = {**table_settings(kind, tmp_path), "topics": "t", "flush.ms": "600000", "flush.rows": "1000"}
    with SinkHarness(TableSinkConnector, settings) as sink:
        sink.put(*[{"id": number, "text": f"{number**7:040d}"} for number in range(1000)])
        assert read_table(settings).num_rows == 1000
        limit_files(15_000)
        sink.put(*[{"id": number, "text": f"{number**7:040d}"} for number in range(1000, 2000)])
        with pytest.raises(RetriableError, match=r"Cannot write .*t-0 offsets 1000 to 1999 to table .*"):
            sink.put({"id": 2000, "text": "0"})
        limit_files(None)
        sink.deliver()
    found = read_table(settings).column("id").to_pylist()
    assert sorted(found) == list(range(2001))


@pytest.mark.parametrize("kind", FORMATS)
def test_a_folder_that_became_read_only_is_reported(kind, tmp_path, monkeypatch):
    """As root nothing is read-only, so a file stands where the folder should be."""
    settings = {**table_settings(kind, tmp_path), "topics": "t", "flush.ms": "0"}
    (tmp_path / ("warehouse" if kind == "iceberg" else "table")).write_text("in the way")
    sink = SinkHarness(TableSinkConnector, settings)

    def write():
        sink.start()
        sink.put({"id": 1})

    with pytest.raises(ConnectError, match="table") as error:
        write()
    assert "is not a folder" in str(error.value) or "Cannot create table default.t" in str(error.value)
    sink.crash()

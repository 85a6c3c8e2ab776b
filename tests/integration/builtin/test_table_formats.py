"""What every TableFormat keeps to: plain Parquet files, here and in a store of fsspec, Delta Lake, Iceberg."""

from __future__ import annotations

import itertools
import uuid
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyiceberg.io.pyarrow import ArrowScan

from kconnect.api import RetriableError, TopicPartition
from kconnect.builtin.connectors.tables.open_table import open_table
from kconnect.builtin.connectors.tables.table_config import TableConfig
from kconnect.builtin.connectors.tables.table_format import OffsetRange, StaleOffsetsError, TableWrite
from kconnect.builtin.types.iceberg_catalog import open_catalog
from kit.iceberg_rest import IcebergRestCatalog
from kit.tables import FORMATS, memory_settings, read_table, table_settings

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture(scope="module", autouse=True)
def catalog(tmp_path_factory):
    made = IcebergRestCatalog(tmp_path_factory.mktemp("catalog")).start()
    yield made
    made.stop()


@pytest.fixture(params=[*FORMATS, "parquet in memory", "iceberg over REST"])
def settings(request, tmp_path, catalog):
    if request.param == "iceberg over REST":
        name = f"default.t{uuid.uuid4().hex}"
        return {"name": "sink", "table.format": "iceberg", "table.name": name, **catalog.settings}
    return memory_settings() if request.param == "parquet in memory" else table_settings(request.param, tmp_path)


@pytest.fixture
def make(settings):
    """Opens the table as another process would; `changes` are other settings."""
    opened = []

    def make(**changes):
        table = open_table(TableConfig.parse({**settings, **changes}), "orders")
        opened.append(table)
        return table

    yield make
    for table in opened:
        table.close()


def rows(*ids):
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{one}" for one in ids]})


def write(table, base, *ids, at=A):
    """Commit rows whose ids are their offsets."""
    table.write(TableWrite(rows(*ids), (OffsetRange(at, base, ids[0], ids[-1] + 1),)))


def ids(settings):
    return sorted(read_table(settings).column("id").to_pylist())


def test_a_table_that_is_not_there_has_no_offsets(make):
    assert make().open([A, B]) == {}


def test_rows_and_offsets_are_there_together(make, settings):
    table = make()
    table.open([A])
    write(table, None, 5, 6, 7)
    write(table, 8, 8, 9)
    assert ids(settings) == [5, 6, 7, 8, 9]
    assert make().open([A, B]) == {A: 10}
    assert make().offsets([A]) == {A: 10}


def test_a_writer_that_lost_its_partition_writes_nothing_any_more(make, settings):
    zombie, owner = make(), make()
    zombie.open([A])
    write(zombie, None, 0, 1)
    assert owner.open([A]) == {A: 2}
    write(owner, 2, 2, 3)
    with pytest.raises(StaleOffsetsError, match=r"orders-0 offsets 2 to 4 were not written.*before offset 4") as error:
        write(zombie, 2, 2, 3, 4)
    assert error.value.found == {A: 4}
    assert ids(settings) == [0, 1, 2, 3]


def test_two_writers_that_open_a_partition_without_offsets_do_not_both_write(make, settings):
    first, second = make(), make()
    first.open([A])
    second.open([A])
    write(second, None, 0, 1)
    with pytest.raises(StaleOffsetsError):
        write(first, None, 0, 1, 2)
    assert ids(settings) == [0, 1]


def test_a_writer_goes_on_from_what_the_error_says(make, settings):
    first, second = make(), make()
    first.open([A])
    second.open([A])
    write(second, None, 0, 1)
    with pytest.raises(StaleOffsetsError) as error:
        write(first, None, 0)
    write(first, error.value.found[A], 2)
    assert ids(settings) == [0, 1, 2]


def test_tasks_that_share_a_table_do_not_disturb_each_other(make, settings):
    one, other = make(), make()
    one.open([A])
    other.open([B])
    write(one, None, 0)
    write(other, None, 100, at=B)
    write(one, 1, 1)
    write(other, 101, 101, at=B)
    assert ids(settings) == [0, 1, 100, 101]
    assert make().open([A, B]) == {A: 2, B: 102}


def test_two_connectors_keep_offsets_of_their_own_in_one_table(make, settings):
    one, other = make(), make(name="other")
    one.open([A])
    write(one, None, 0, 1)
    assert other.open([A]) == {}
    write(other, None, 7)
    write(one, 2, 2)
    assert ids(settings) == [0, 1, 2, 7]


def test_offsets_that_are_set_count_and_an_earlier_writer_is_refused(make, settings):
    table = make()
    table.open([A, B])
    write(table, None, 0, 1, 2)
    make().set_offsets({A: 1, B: 5})
    with pytest.raises(StaleOffsetsError) as error:
        write(table, 3, 3)
    assert error.value.found == {A: 1}
    other = make()
    assert other.open([A, B]) == {A: 1}, "B had no offset in the table, so the consumer group's counts"
    write(other, 1, 1, 2)
    assert ids(settings) == [0, 1, 1, 2, 2]


def test_offsets_that_are_reset_are_gone(make):
    table = make()
    table.open([A])
    write(table, None, 0, 1, 2)
    make().set_offsets({A: None})
    make().set_offsets({A: None})
    with pytest.raises(StaleOffsetsError, match="has no offset of it any more"):
        write(table, 3, 3)
    other = make()
    assert other.open([A]) == {}
    write(other, None, 0)
    assert make().offsets([A]) == {A: 1}


def test_columns_that_come_are_null_in_rows_before(make, settings):
    table = make()
    table.open([A])
    write(table, None, 0)
    wider = pa.table({"id": pa.array([1], pa.int64()), "name": ["n1"], "price": [1.5]})
    table.write(TableWrite(wider, (OffsetRange(A, 1, 1, 2),)))
    found = read_table(settings).select(["id", "name", "price"]).sort_by("id").to_pylist()
    assert found == [{"id": 0, "name": "n0", "price": None}, {"id": 1, "name": "n1", "price": 1.5}]


def test_types_come_back_as_they_were_or_as_the_format_keeps_them(make, settings):
    from decimal import Decimal

    kinds = pa.schema(
        [
            ("small", pa.int8()),
            ("flag", pa.bool_()),
            ("single", pa.float32()),
            ("amount", pa.decimal128(38, 2)),
            ("at", pa.timestamp("ms", "UTC")),
            ("day", pa.date32()),
            ("clock", pa.time32("ms")),
            ("raw", pa.binary()),
            ("tags", pa.list_(pa.string())),
            ("limits", pa.map_(pa.string(), pa.int64())),
            ("place", pa.struct([("city", pa.string())])),
        ]
    )
    table = make()
    table.open([A])
    stored = pa.schema([pa.field(field.name, table.stored_type(field.type)) for field in kinds])
    row = {
        "small": 1,
        "flag": True,
        "single": 0.5,
        "amount": Decimal("1.25"),
        "at": 1_700_000_000_000,
        "day": 19_000,
        "clock": 1000,
        "raw": b"\x00",
        "tags": ["a", None],
        "limits": [("x", 1)],
        "place": {"city": "Bern"},
    }
    given = pa.Table.from_pylist([row], kinds)
    columns = [
        column.cast(pa.int32()).cast(field.type)
        if pa.types.is_time(column.type) and pa.types.is_integer(field.type)
        else column.cast(field.type)
        for column, field in zip(given.columns, stored, strict=True)
    ]
    table.write(TableWrite(pa.Table.from_arrays(columns, schema=stored), (OffsetRange(A, None, 0, 1),)))
    (found,) = read_table(settings).to_pylist()
    assert (found["amount"], found["raw"], found["tags"]) == (Decimal("1.25"), b"\x00", ["a", None])
    assert (found["place"], dict(found["limits"])) == ({"city": "Bern"}, {"x": 1})
    assert found["at"].timestamp() == 1_700_000_000
    assert set(make().schema() or stored) == set(stored) or settings["table.format"] == "parquet"


def test_null_lists_and_maps_of_structs_stay_null(make, settings):
    """Read by pyarrow from the files, as pyiceberg's own reading makes null into []."""
    import fsspec
    import pyarrow.parquet as pq

    kinds = pa.schema([("l", pa.list_(pa.struct([("p", pa.int64())]))), ("m", pa.map_(pa.string(), kinds_of("x"))),
                       ("ll", pa.list_(pa.list_(kinds_of("y"))))])  # fmt: skip
    rows_ = [{"l": [{"p": 1}, None], "m": [("a", {"x": 1}), ("b", None)], "ll": [None, [{"y": 1}]]},
             {"l": [], "m": [], "ll": []}, {"l": None, "m": None, "ll": None}]  # fmt: skip
    table = make()
    table.open([A])
    # a slice: its offsets do not begin with 0
    given = pa.Table.from_pylist([*rows_, *rows_], kinds).slice(2, 4)
    table.write(TableWrite(given, (OffsetRange(A, None, 0, 4),)))
    if settings["table.format"] == "iceberg":
        (file,) = table._table.inspect.files()["file_path"].to_pylist()
        with fsspec.open(file) as content:
            assert pq.ParquetFile(content).read().to_pylist() == given.to_pylist()
        for number in range(4, 24, 4):
            table.write(TableWrite(given, (OffsetRange(A, number, number, number + 4),)))
        assert table.compact(1 << 30) == "6 files became 1"
    found = read_table(settings).select(["l", "m", "ll"])
    assert found.to_pylist()[:4] == given.to_pylist()


def kinds_of(name):
    return pa.struct([(name, pa.int64())])


def test_rows_are_divided_by_partition_columns(make, settings):
    table = make(**{"partition.by": "name"})
    table.open([A])
    given = pa.table({"id": [0, 1, 2, 3], "name": ["a/b", None, "a/b", "ü c"]})
    table.write(TableWrite(given, (OffsetRange(A, None, 0, 4),)))
    found = {row["id"]: row["name"] for row in read_table(settings).to_pylist()}
    assert found == {0: "a/b", 1: None, 2: "a/b", 3: "ü c"}


@pytest.mark.parametrize("settings", ["delta", "iceberg", "iceberg over REST"], indirect=True)
def test_rows_replace_and_remove_those_with_their_keys(make, settings):
    table = make()
    table.open([A])

    def merge(base, stop, given, gone=()):
        deletes = pa.table({"id": pa.array(gone, pa.int64())})
        table.write(TableWrite(given, (OffsetRange(A, base, base or 0, stop),), ("id",), deletes))

    merge(None, 3, rows(1, 2, 3), gone=[9])
    merge(3, 6, pa.table({"id": [2, 4], "name": ["new", None], "Größe in m": [1.5, None]}), gone=[3])
    merge(6, 7, rows(1).slice(0, 0), gone=[77])
    assert make().offsets([A]) == {A: 7}, "also where no row changed"
    found = read_table(settings).select(["id", "name", "Größe in m"]).sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, "n1", None), (2, "new", 1.5), (4, None, None)]
    zombie = make()
    zombie.open([A])
    merge(7, 8, rows(5))
    with pytest.raises(StaleOffsetsError):
        zombie.write(TableWrite(rows(5, 6), (OffsetRange(A, 7, 7, 9),), ("id",), None))
    assert ids(settings) == [1, 2, 4, 5]


@pytest.mark.parametrize("settings", ["delta", "iceberg", "iceberg over REST"], indirect=True)
def test_a_key_of_several_columns_is_one_key(make, settings):
    table = make()
    table.open([A])
    for base, names in ((None, ["a", "b"]), (2, ["b", "c"])):
        given = pa.table({"id": [1, 1], "name": names, "at": [base or 0] * 2})
        gone = pa.table({"id": [1], "name": ["z"]})
        table.write(TableWrite(given, (OffsetRange(A, base, base or 0, (base or 0) + 2),), ("id", "name"), gone))
    found = {row["name"]: row["at"] for row in read_table(settings).to_pylist()}
    assert found == {"a": 0, "b": 2, "c": 2}


def files_of(settings):
    if settings["table.format"] == "delta":
        from deltalake import DeltaTable

        return len(DeltaTable(settings["table.path"]).file_uris())
    with iceberg_catalog(settings) as catalog:
        return len(list(catalog.load_table(settings["table.name"]).scan().plan_files()))


@pytest.mark.parametrize("settings", ["delta", "iceberg", "iceberg over REST"], indirect=True)
def test_small_files_are_joined_while_a_writer_goes_on(make, settings):
    table = make(**{"partition.by": "name"})
    table.open([A])
    base = None
    for number in range(6):
        given = pa.table({"id": [2 * number, 2 * number + 1], "name": ["x", "y"]})
        table.write(TableWrite(given, (OffsetRange(A, base, 2 * number, 2 * number + 2),)))
        base = 2 * number + 2
    assert files_of(settings) == 12
    assert make().compact(64 * 1024 * 1024) == "12 files became 2"
    assert files_of(settings) == 2
    write(table, 12, 12, 13)
    assert ids(settings) == list(range(14))
    assert make().open([A]) == {A: 14}
    assert make().compact(64 * 1024 * 1024) is None or settings["table.format"] == "delta"


@pytest.mark.parametrize("settings", ["iceberg", "iceberg over REST"], indirect=True)
def test_files_are_joined_although_a_writer_commits_meanwhile(make, settings, monkeypatch):
    table, read = make(), ArrowScan.to_table
    table.open([A])
    for number in range(4):
        write(table, number or None, number)

    def slowly(scan, tasks):
        monkeypatch.setattr(ArrowScan, "to_table", read)
        write(table, 4, 4)
        return read(scan, tasks)

    monkeypatch.setattr(ArrowScan, "to_table", slowly)
    assert make().compact(64 * 1024 * 1024) == "5 files became 1"
    assert ids(settings) == [0, 1, 2, 3, 4]
    assert make().open([A]) == {A: 5}


@pytest.mark.parametrize("settings", ["iceberg"], indirect=True)
def test_joining_ends_where_others_commit_all_the_time(make, monkeypatch):
    table, read, number = make(), ArrowScan.to_table, itertools.count(1)
    table.open([A])
    write(table, None, 0)
    for _ in range(3):
        write(table, one := next(number), one)

    def slowly(scan, tasks):
        write(table, one := next(number), one)
        return read(scan, tasks)

    monkeypatch.setattr(ArrowScan, "to_table", slowly)
    with pytest.raises(RetriableError, match="was changed by others 3 times while files were joined"):
        make().compact(64 * 1024 * 1024)


@pytest.mark.parametrize("settings", ["iceberg"], indirect=True)
def test_offsets_outlive_the_snapshots_that_had_them(make, settings):
    table = make(**{"table.properties.history.expire.max-snapshot-age-ms": "0"})
    table.open([A, B])
    write(table, None, 0, 1)
    write(table, None, 7, at=B)
    other = make(name="other")
    other.open([A])
    write(other, None, 3)
    write(other, 4, 4)
    assert make().compact(1_048_576) == "4 files became 1"
    with iceberg_catalog(settings) as catalog:
        (snapshot,) = catalog.load_table(settings["table.name"]).snapshots()
    assert "kconnect.offsets.sink" not in snapshot.summary.additional_properties
    assert make().open([A, B]) == {A: 2, B: 8}
    again = make()
    again.open([A])
    write(again, 2, 2)
    assert ids(settings) == [0, 1, 2, 3, 4, 7]


@contextmanager
def iceberg_catalog(settings):
    from pyiceberg.catalog import load_catalog

    prefix = "table.catalog."
    catalog = load_catalog("default", **{k[len(prefix) :]: v for k, v in settings.items() if k.startswith(prefix)})
    try:
        yield catalog
    finally:
        catalog.close()


@pytest.mark.parametrize("settings", ["delta", "iceberg", "iceberg over REST"], indirect=True)
def test_commits_of_somebody_else_in_between_are_no_hindrance(make, settings):
    table = make()
    table.open([A])
    write(table, None, 0, 1)
    strangers = pa.table({"id": pa.array([100], pa.int64()), "name": ["stranger"], "more": ["x"]})
    if settings["table.format"] == "delta":
        from deltalake import DeltaTable, write_deltalake

        write_deltalake(settings["table.path"], strangers, mode="append", schema_mode="merge")
        DeltaTable(settings["table.path"]).delete("id = 0")
    else:
        with iceberg_catalog(settings) as catalog:
            other = catalog.load_table(settings["table.name"])
            with other.update_schema() as update:
                update.union_by_name(strangers.schema)
            other.append(strangers)
            other.delete("id == 0")
    write(table, 2, 2, 3)
    assert ids(settings) == [1, 2, 3, 100]
    assert make().open([A]) == {A: 4}
    assert make().schema().names == ["id", "name", "more"]


def test_the_server_of_an_iceberg_catalog_names_no_class_of_this_machine(catalog):
    """A property of a table, or of the server, by which pyiceberg would call anything that can be imported."""
    opened = open_catalog({"type": "rest", "uri": catalog.url}, 20.0)
    opened.create_namespace_if_not_exists("default")
    name = f"default.t{uuid.uuid4().hex}"
    opened.create_table(name, schema=pa.schema([("a", pa.int64())]), properties={"py-io-impl": "subprocess.Popen"})
    table = opened.load_table(name)
    assert table.properties["py-io-impl"] == "subprocess.Popen"
    assert type(table.io).__name__ == "PyArrowFileIO"
    own = open_catalog({"type": "rest", "uri": catalog.url, "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}, 20.0)
    assert type(own.load_table(name).io).__name__ == "FsspecFileIO"

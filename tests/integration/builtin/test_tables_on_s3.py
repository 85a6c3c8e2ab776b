"""Tables in a real S3 server: each record once there too, and of two writers one is refused."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from kconnect.api import TopicPartition
from kconnect.builtin.connectors.tables.open_table import open_table
from kconnect.builtin.connectors.tables.table_config import TableConfig
from kconnect.builtin.connectors.tables.table_format import OffsetRange, StaleOffsetsError, TableWrite
from kit.s3 import ACCESS_KEY, REGION, SECRET_KEY, S3Server

A = TopicPartition("orders", 0)


def settings_of(kind: str, s3: S3Server, folder) -> dict[str, str]:
    if kind == "iceberg":
        catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": "s3://tables/iceberg",
            "s3.endpoint": s3.url,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
        }
        return {"name": "sink", "table.format": kind, **{f"table.catalog.{k}": v for k, v in catalog.items()}}
    options = s3.options if kind == "parquet" else s3.storage_options
    place = {"name": "sink", "table.format": kind, "table.path": f"s3://tables/{kind}"}
    return {**place, **{f"table.storage.{name}": str(value) for name, value in options.items()}}


def ids(kind: str, s3: S3Server, settings: dict[str, str]) -> list[int]:
    """Read by pyarrow's own S3 client, deltalake or pyiceberg."""
    if kind == "parquet":
        from pyarrow.fs import S3FileSystem

        host = s3.url.removeprefix("http://")
        store = S3FileSystem(
            access_key=ACCESS_KEY, secret_key=SECRET_KEY, endpoint_override=host, scheme="http", region=REGION
        )
        found = ds.dataset("tables/parquet", format="parquet", filesystem=store).to_table()
    elif kind == "delta":
        from deltalake import DeltaTable

        found = pa.table(DeltaTable("s3://tables/delta", storage_options=s3.storage_options).to_pyarrow_table())
    else:
        from pyiceberg.catalog import load_catalog

        prefix = "table.catalog."
        catalog = load_catalog("default", **{k[len(prefix) :]: v for k, v in settings.items() if k.startswith(prefix)})
        found = catalog.load_table("default.orders").scan().to_arrow()
        catalog.close()
    return sorted(found.column("id").to_pylist())


@pytest.fixture(scope="module")
def bucket(s3):
    return s3.make_bucket("tables")


@pytest.mark.parametrize("kind", ["parquet", "delta", "iceberg"])
def test_a_table_in_s3_has_each_record_once_and_refuses_the_writer_that_lost_its_partition(kind, s3, bucket, tmp_path):
    settings = settings_of(kind, s3, tmp_path)
    config = TableConfig.parse(settings)
    owner, zombie = open_table(config, "orders"), open_table(config, "orders")

    def write(table, base, *numbers):
        rows = pa.table({"id": pa.array(numbers, pa.int64())})
        table.write(TableWrite(rows, (OffsetRange(A, base, numbers[0], numbers[-1] + 1),)))

    assert zombie.open([A]) == {}
    write(zombie, None, 0, 1)
    assert owner.open([A]) == {A: 2}
    write(owner, 2, 2, 3)
    with pytest.raises(StaleOffsetsError):
        write(zombie, 2, 2, 3, 4)
    owner.set_offsets({A: 3})
    assert ids(kind, s3, settings) == [0, 1, 2, 3]
    assert zombie.offsets([A]) == {A: 3}
    for table in (owner, zombie):
        table.close()

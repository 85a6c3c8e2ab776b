"""TableSink: topics as tables of Parquet files, Delta Lake or Iceberg, each record exactly once.

`table_sink.py` has the connector and its task. What is decided is pure: `partition_columns.py`, `upserts.py`; which
columns come or change, `types/evolution.py`; when rows are written, `stores/flush_plan.py`. The seam is
`table_format.py`.
"""

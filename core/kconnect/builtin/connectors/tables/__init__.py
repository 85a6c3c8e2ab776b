"""TableSink: topics as tables of Parquet files, Delta Lake or Iceberg, each record exactly once.

`table_sink.py` has the connector and its task. What is decided is pure: `table_schema.py` (columns that come
or change), `partition_columns.py`; when rows are written, `stores/flush_plan.py`. The seam is `table_format.py`.
"""

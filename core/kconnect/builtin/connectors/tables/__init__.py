"""TableSink: topics as tables of Parquet files, Delta Lake or Iceberg, each record exactly once.

`table_sink.py` has the connector and its task. What is decided is pure: `flush_plan.py` (when, and which
records), `table_schema.py` (columns that come or change), `partition_columns.py`. The seam is `table_format.py`.
"""

"""SQL over records: SqlTransform and SqlPredicate, found by name.

A query is written in Spark's dialect. spark_query.py reads and checks it, spark_expressions.py and spark_functions.py
say it in DuckDB's dialect, engine.py has DuckDB evaluate it on Arrow columns, rows.py makes those of records, and
results.py gives the schema of what comes back. duckdb and sqlglot are imported here alone, and only when a
plugin is configured or its settings are checked: lists of plugins load the classes.
"""

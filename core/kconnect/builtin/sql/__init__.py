"""SQL over records: SqlTransform and SqlPredicate, found by name.

A query is written in Spark's dialect. spark_query.py reads and checks it, spark_expressions.py and spark_functions.py
say it in DuckDB's dialect, by sqlglot where that gives what Spark gives. Of 679 recorded expressions sqlglot's own
translation gives 446 as Spark does, an error for 56, and for 177 another value or type in silence; so what is left to
it is listed, and what is ours has an expression or a reason in tests/integration/builtin/test_spark_sql_golden.py.
engine.py has DuckDB evaluate it on Arrow columns, with macros for the functions that it lacks, rows.py makes those of
records, and plan.py knows the schema of what comes back. duckdb and sqlglot are imported here alone, and only when a
plugin is configured or its settings are checked: lists of plugins load the classes.
"""

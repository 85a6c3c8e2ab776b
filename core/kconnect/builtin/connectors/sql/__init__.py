"""SqlSource and SqlSink: tables of a database into topics and topics into tables; jdbc.py has Confluent's names.

Settings: sql_source_config.py, sql_config.py (of the sink), sql_url.py (URLs of JDBC and SQLAlchemy). Databases
differ in sql_dialect.py, sql_describe.py and sql_postgres_types.py. SqlSource deals tables to tasks (sql_source.py,
sql_tables.py), which read them in rounds (sql_reader.py) from where their offsets are
((sql_cursor.py, pure) into columns (sql_columns.py, sql_values.py). SqlSink makes rows in sql_rows.py (pure) and
writes them by sql_writer.py, cast to the columns that are there (sql_targets.py), which sql_widening.py makes wider,
exactly once with the offsets of sql_offsets.py. Connections are opened in sql_connection.py and sql_sink_database.py;
sql_session.py knows what PostgreSQL's may keep, sql_errors.py what an error is about.
"""

"""Confluent's names: connectors of the JDBC plugin run as SqlSource and SqlSink."""

from __future__ import annotations

from kconnect.api import SinkTask, SourceTask
from kconnect.builtin.connectors.sql.sql_sink import SqlSinkConnector, SqlSinkTask
from kconnect.builtin.connectors.sql.sql_source import SqlSourceConnector, SqlSourceTask


class JdbcSourceTask(SqlSourceTask):
    """SqlSource's task under another name, with Confluent's Decimal for a NUMERIC without precision."""

    _keeps_unbounded = True


class JdbcSourceConnector(SqlSourceConnector):
    """SqlSource under the name of io.confluent.connect.jdbc.JdbcSourceConnector."""

    def task_class(self) -> type[SourceTask]:
        return JdbcSourceTask


class JdbcSinkTask(SqlSinkTask):
    """SqlSink's task under another name."""


class JdbcSinkConnector(SqlSinkConnector):
    """SqlSink under the name of io.confluent.connect.jdbc.JdbcSinkConnector."""

    def task_class(self) -> type[SinkTask]:
        return JdbcSinkTask

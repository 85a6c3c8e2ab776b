"""SqlSink and the way to PostgreSQL: TLS, logins, servers that are silent, and what validation finds of it."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest

from kconnect.api import ConnectError, RetriableError
from kconnect.api.config_key import MayPass
from kconnect.builtin.connectors.sql.sql_sink import SqlSinkConnector
from kconnect.builtin.connectors.sql.sql_source import SqlSourceConnector
from kit.postgres import Door, socket_of
from kit.postgres_sink import sink_into


@pytest.fixture
def server(postgres_uri: str) -> str:
    return postgres_uri


@pytest.mark.parametrize(
    ("where", "more"),
    [
        ("connection.sslmode", ""),
        ("url", "ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory"),
        ("driver", ""),
    ],
)
def test_tls_that_is_demanded_is_tls_or_an_error(server: str, where: str, more: str) -> None:
    """The server has none."""
    with Door(socket_of(server)) as door:
        settings = {
            "connection_driver": "",
            "connection_url": f"jdbc:postgresql://127.0.0.1:{door.port}/postgres?{more}",
        }
        if where == "driver":
            settings = {"connection_url": f"host=127.0.0.1 port={door.port} dbname=postgres"}
        if where != "url":
            settings["connection_sslmode"] = "require"
        words = "server does not support SSL, but SSL was required"
        # Where a URL tells the server, validation finds it
        with (
            pytest.raises(ConnectError, match=words) as caught,
            sink_into(server, "demanded", connection_user="postgres", **settings) as sink,
        ):
            sink.put({"id": 1})
        assert not isinstance(caught.value, RetriableError)


@pytest.mark.parametrize(
    ("connector", "settings"),
    [
        (SqlSinkConnector, {"topics": "t"}),
        (SqlSinkConnector, {"topics": "t", "connection.driver": "psycopg"}),
        (SqlSourceConnector, {"mode": "bulk", "topic.prefix": "t"}),
    ],
)
def test_a_database_that_cannot_be_used_is_found_when_the_settings_are_validated(
    server: str, connector: Any, settings: dict[str, str]
) -> None:
    elsewhere = urlunsplit(urlsplit(server)._replace(path="/no_such_database"))
    away = "postgresql://127.0.0.1:1/x"
    for url, begin, part in (
        (server, None, ""),
        (elsewhere, "The database refuses the connection: ", 'database "no_such_database" does not exist'),
        (away, "The database cannot be reached: ", "Connection refused"),
        ("postgresql://no-such-host.invalid/x", "The database cannot be reached: ", "no-such-host.invalid"),
    ):
        reported = problems_of(connector, {**settings, "connection.url": url})
        assert len(reported) == (begin is not None), reported
        for name, message in reported:
            assert name == ("connection.driver" if "connection.driver" in settings else "connection.url")
            assert message.startswith(begin or ""), message
            assert part in message, message
            assert isinstance(message, MayPass) == (begin or "").endswith("reached: "), message
    ((_, reported_away),) = problems_of(connector, {**settings, "connection.url": away})
    assert "127.0.0.1" in reported_away
    assert "port 1 " in reported_away or "127.0.0.1:1" in reported_away
    assert problems_of(connector, {**settings, "connection.url": away, "connection.check.timeout.ms": "0"}) == []


@pytest.mark.parametrize(
    "settings",
    [
        {"connection.url": "postgresql://u@127.0.0.1:{port}/x"},
        {"connection.url": "jdbc:mysql://127.0.0.1:{port}/x?user=u"},
        {"connection.driver": "pymysql", "connection.arg.host": "127.0.0.1", "connection.arg.port": "{port}"},
        {"connection.driver": "psycopg", "connection.url": "host=127.0.0.1 port={port}"},
    ],
)
def test_a_server_that_takes_connections_and_says_nothing_is_away(settings: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = {key: value.format(port=silent.getsockname()[1]) for key, value in settings.items()}
        found = problems_of(SqlSinkConnector, {"topics": "t", "connection.check.timeout.ms": "1000", **there})
    ((_, message),) = found
    assert message.startswith("The database cannot be reached: "), message
    assert isinstance(message, MayPass)


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({"connection.url": "postgresql://127.0.0.1:1/d?prepareThreshold=0"}, 'option "prepareThreshold"'),
        ({"connection.url": "mysql+pymysql://127.0.0.1:1/d?nonsense=1"}, "unexpected keyword argument 'nonsense'"),
        ({"connection.driver": "pymysql", "connection.arg.nonsense": "1"}, "unexpected keyword argument 'nonsense'"),
    ],
)
def test_parameters_that_a_driver_does_not_have_are_found_when_settings_are_validated(
    settings: dict[str, str], part: str
) -> None:
    for connector, more in ((SqlSinkConnector, {"topics": "t"}), (SqlSourceConnector, {"mode": "bulk"})):
        if connector is SqlSinkConnector or "connection.driver" not in settings:
            ((_, message),) = problems_of(connector, {"topic.prefix": "t", **more, **settings})
            assert message.startswith("The driver does not take these parameters: "), message
            assert part in message
            assert not isinstance(message, MayPass)


def problems_of(connector: Any, settings: dict[str, str]) -> list[tuple[str, str]]:
    found = connector().validate(settings)
    return [(value.name, message) for value in found.config_values for message in value.error_messages]

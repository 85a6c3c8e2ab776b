"""connection.url: JDBC URLs as SQLAlchemy's, without showing a password where one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import ConfigError, Password
from kconnect.builtin.connectors.sql.sql_url import address_of, kind_of_url


def url(text: str, user: str | None = None, password: str | None = None) -> Any:
    secret = None if password is None else Password(password)
    return address_of({"connection.url": text, "connection.user": user, "connection.password": secret}).url


@pytest.mark.parametrize(
    ("jdbc", "expected"),
    [
        ("jdbc:postgresql://db.example:5433/shop", "postgresql+psycopg://db.example:5433/shop"),
        ("jdbc:postgresql:shop", "postgresql+psycopg:///shop"),
        ("jdbc:postgresql://[::1]/shop?user=a&password=b%2Fc", "postgresql+psycopg://a:b%2Fc@[::1]/shop"),
        (
            "jdbc:postgresql://a:1,b/shop?targetServerType=primary",
            "postgresql+psycopg:///shop?host=a%3A1&host=b%3A5432&target_session_attrs=primary",
        ),
        ("jdbc:postgresql://h/d?ssl=true", "postgresql+psycopg://h/d?sslmode=verify-full"),
        ("jdbc:postgresql://h/d?ssl=true&sslmode=require", "postgresql+psycopg://h/d?sslmode=require"),
        (
            "jdbc:postgresql://h/d?currentSchema=a,b&ApplicationName=x&reWriteBatchedInserts=true&socketTimeout=5",
            "postgresql+psycopg://h/d?application_name=x&tcp_user_timeout=5000",
        ),
        ("jdbc:sqlite:/var/lib/shop.db", "sqlite:////var/lib/shop.db"),
        ("jdbc:sqlite:shop.db", "sqlite:///shop.db"),
        ("postgresql://h/d", "postgresql+psycopg://h/d"),
        ("postgresql+pg8000://h/d", "postgresql+pg8000://h/d"),
    ],
)
def test_a_url_of_jdbc_or_sqlalchemy_opens_the_same_database(jdbc: str, expected: str) -> None:
    assert url(jdbc).render_as_string(hide_password=False) == expected


@pytest.mark.parametrize(
    ("text", "threshold"),
    [
        ("jdbc:postgresql://h/d?prepareThreshold=0", None),
        ("jdbc:postgresql://h/d?prepareThreshold=3", 3),
        ("jdbc:postgresql://h/d?preferQueryMode=simple", None),
        ("jdbc:postgresql://h/d?preferQueryMode=simple&prepareThreshold=3", None),
        ("postgresql://h/d?prepare_threshold=0", 0),
        ("postgresql+psycopg://h/d?prepare_threshold=None", None),
    ],
)
def test_what_is_prepared_is_a_number_for_the_driver(text: str, threshold: int | None) -> None:
    """Java's 0 is never, psycopg's at once."""
    found = address_of({"connection.url": text, "connection.user": None, "connection.password": None})
    assert found.arguments == {"prepare_threshold": threshold}
    assert not found.url.query


def test_the_schema_of_a_url_is_a_setting_of_each_transaction() -> None:
    text = "jdbc:postgresql://h/d?currentSchema=a,b"
    found = address_of({"connection.url": text, "connection.user": None, "connection.password": None})
    assert found.session == {"search_path": "a,b"}


def test_user_and_password_of_the_settings_count_more_than_those_of_the_url() -> None:
    found = url("jdbc:postgresql://h/d?user=a&password=b", "ann", "s3cret")
    assert (found.username, found.password) == ("ann", "s3cret")
    assert "s3cret" not in repr(found)
    assert "s3cret" not in str(found)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("jdbc:derby:x", "JDBC URLs of derby are not translated"),
        ("jdbc:postgresql://h/d?password=s3cret&sslfactory=x", "the parameter sslfactory of the JDBC URL"),
        ("jdbc:postgresql://h/d?password=s3cret&prepareThreshold=few", "must be a whole number, not 'few'"),
        ("postgresql://h:s3cret@h/d?prepare_threshold=few", "must be a whole number or none, not few"),
        ("s3cret", "neither a JDBC URL nor one of SQLAlchemy"),
        ("jdbc:oracle:oci:@s3cret", "thin:@host:port:sid"),
        ("jdbc:oracle:thin:@//h:1521/s", "pip install 'oracledb'"),
        ("jdbc:sqlserver://h;databaseName=d;password=s3cret", "pip install 'pymssql'"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_a_sentence_and_without_the_url(wrong: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        url(wrong)
    assert told.lower() in str(caught.value).lower()
    assert "s3cret" not in str(caught.value)


def test_a_url_tells_its_database_without_a_driver() -> None:
    names = ("jdbc:mariadb://h/d", "jdbc:sqlserver://h", "postgresql+psycopg://h", "jdbc:sqlite:x")
    assert [kind_of_url(name) for name in names] == ["mysql", "mssql", "postgresql", "sqlite"]

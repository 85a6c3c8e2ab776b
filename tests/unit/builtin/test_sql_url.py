"""connection.url: JDBC URLs as SQLAlchemy's, without showing a password where one is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import ConfigError, Password
from kconnect.builtin.connectors.sql.sql_config import CONFIG
from kconnect.builtin.connectors.sql.sql_connection import engine_of
from kconnect.builtin.connectors.sql.sql_sink import SqlSinkConnector
from kconnect.builtin.connectors.sql.sql_source_config import settings_of
from kconnect.builtin.connectors.sql.sql_url import Address, address_of, is_url_of_engine, kind_of_url, reported_ignored


def address(text: str, **settings: str) -> Address:
    """With settings connection.NAME for the driver."""
    props = {"connection.url": text, **{f"connection.{name}": value for name, value in settings.items()}}
    return address_of(settings_of(CONFIG, props))


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
    ("wrong", "reported"),
    [
        ("jdbc:derby:x", "JDBC URLs of derby are not translated"),
        ("jdbc:postgresql://h/d?password=s3cret&sslfactory=x", "the parameter sslfactory names a class of Java"),
        ("jdbc:postgresql://h/d?password=s3cret&prepareThreshold=few", "must be a whole number, not 'few'"),
        ("postgresql://h:s3cret@h/d?prepare_threshold=few", "must be a whole number or none, not few"),
        ("s3cret", "neither a JDBC URL nor one of SQLAlchemy"),
        ("jdbc:oracle:oci:@s3cret", "thin:@host:port:sid"),
        ("jdbc:oracle:thin:@//h:1521/s", "pip install 'oracledb'"),
        ("jdbc:sqlserver://h;databaseName=d;password=s3cret", "pip install 'pymssql'"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_a_sentence_and_without_the_url(wrong: str, reported: str) -> None:
    with pytest.raises(ConfigError) as caught:
        url(wrong)
    assert reported.lower() in str(caught.value).lower()
    assert "s3cret" not in str(caught.value)


def test_a_login_for_a_file_has_no_effect() -> None:
    found = address("jdbc:sqlite:f.db", user="ann", password="s3cret")
    assert (found.url.username, found.url.password) == (None, None)
    assert found.ignored == ["user", "password"]


@pytest.mark.parametrize("wrong", ["sqlite://ann:s3cret@/f.db", "sqlite://h/f.db"])
@pytest.mark.parametrize("makes_file", [False, True])
def test_an_address_of_a_file_with_a_host_or_user_is_refused(wrong: str, makes_file: bool) -> None:
    with pytest.raises(ConfigError, match="An SQLite file has no host, port, user or password") as caught:
        engine_of(CONFIG.parse({"connection.url": wrong}), makes_file=makes_file)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("jdbc:postgresql://h/d", True),
        ("postgresql+psycopg2://h/d", True),
        ("mysql://h/d", True),
        ("postgresql://h/d", False),  # libpq takes it
        ("host=h dbname=d", False),
        ("sqlite", False),
        ("/data/a+b:c.db", False),
    ],
)
def test_a_driver_given_by_itself_takes_no_url_that_names_one(text: str, is_one: bool) -> None:
    assert is_url_of_engine(text) == is_one
    config = {"topics": "t", "connection.driver": "sqlite3", "connection.url": text}
    reported = [(one.name, one.error_messages) for one in SqlSinkConnector().validate(config).config_values]
    assert (("connection.url", ["It names its driver itself: leave connection.driver out"]) in reported) == is_one


def test_a_url_tells_its_database_without_a_driver() -> None:
    names = ("jdbc:mariadb://h/d", "jdbc:sqlserver://h", "postgresql+psycopg://h", "jdbc:sqlite:x")
    assert [kind_of_url(name) for name in names] == ["mysql", "mssql", "postgresql", "sqlite"]


PG, MY, MA = "jdbc:postgresql://h/d?user=u&", "jdbc:mysql://h/d?user=u&", "jdbc:mariadb://h/d?user=u&"
NOT_VERIFIED = {"ssl": {"check_hostname": False, "verify_mode": "none"}}
VERIFIED = {"ssl": {"check_hostname": True, "verify_mode": "required"}}
LIGHT = {"charset": "utf8mb4"}


@pytest.mark.parametrize(
    ("text", "query", "arguments"),
    [
        (PG + "ssl=true&sslfactory=org.postgresql.ssl.NonValidatingFactory", {"sslmode": "require"}, {}),
        (PG + "sslfactory=org.postgresql.ssl.NonValidatingFactory", {}, {}),
        (PG + "ssl&sslmode=verify-ca&sslrootcert=/ca.pem", {"sslmode": "verify-ca", "sslrootcert": "/ca.pem"}, {}),
        (PG + "ssl=false", {}, {}),
        (
            PG + "ssl=true&sslfactory=org.postgresql.ssl.DefaultJavaSSLFactory",
            {"sslmode": "verify-full", "sslrootcert": "system"},
            {},
        ),
        (
            PG + "ssl=true&sslfactory=org.postgresql.ssl.SingleCertValidatingFactory&sslfactoryarg=file:///c.pem",
            {"sslmode": "verify-full", "sslrootcert": "/c.pem"},
            {},
        ),
        (PG + "SSLMODE=require", {"sslmode": "require"}, {}),
        (PG + "tcpKeepAlive=true", {"keepalives": "1"}, {}),
        (PG + "targetServerType=preferSecondary", {"target_session_attrs": "prefer-standby"}, {}),
        (PG + "connectTimeout=0&loginTimeout=7", {"connect_timeout": "7"}, {}),
        (PG + "options=-Xsomething", {"options": "-Xsomething"}, {}),
        (MY + "verifyServerCertificate=false&useSSL=true&requireSSL=true", LIGHT, NOT_VERIFIED),
        (MY + "useSSL=false", LIGHT, {"ssl_disabled": True}),
        (MY + "sslMode=PREFERRED", LIGHT, {}),
        (MY + "sslMode=REQUIRED&useSSL=false", LIGHT, NOT_VERIFIED),
        (MY + "useSSL=true&verifyServerCertificate=true", LIGHT, {"ssl": {**VERIFIED["ssl"], "check_hostname": False}}),
        (MY + "sslmode=verify_identity", LIGHT, VERIFIED),
        (MA + "useSsl=true", LIGHT, VERIFIED),
        (MA + "useSsl=true&trustServerCertificate=true", LIGHT, NOT_VERIFIED),
        (
            MA + "sslMode=verify-full&serverSslCert=/ca.pem",
            LIGHT,
            {"ssl": {"check_hostname": True, "verify_mode": "required", "ca": "/ca.pem"}},
        ),
        (MA + "localSocket=/run/s", {**LIGHT, "unix_socket": "/run/s"}, {}),
        (MY + "connectTimeout=1500", {**LIGHT, "connect_timeout": "1"}, {}),
        (MY + "socketTimeout=60000", {**LIGHT, "read_timeout": "60", "write_timeout": "60"}, {}),
        ("jdbc:sqlite:t.db?busy_timeout=1500", {}, {"timeout": 1.5}),
    ],
)
def test_a_parameter_of_java_means_here_what_it_means_there(
    text: str, query: dict[str, str], arguments: dict[str, Any]
) -> None:
    found = address(text)
    assert (dict(found.url.query), found.arguments, found.ignored) == (query, arguments, [])


@pytest.mark.parametrize(
    "text",
    [
        PG + "reWriteBatchedInserts=true",
        PG + "stringtype=unspecified",
        PG + "autosave=conservative&tcpNoDelay=true",
        MY + "useUnicode=true&characterEncoding=UTF-8&rewriteBatchedStatements=true&allowPublicKeyRetrieval=true",
    ],
)
def test_what_is_so_anyway_is_not_reported(text: str) -> None:
    found = address(text)
    assert not found.ignored
    assert not {*found.url.query} - {"charset"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (PG + "useSSL=false", "useSSL"),
        (PG + "characterEncoding=UTF-8", "characterEncoding"),
        (PG + "allowEncodingChanges=true", "allowEncodingChanges"),
        (PG + "serverTimezone=UTC", "serverTimezone"),
        (PG + "autoReconnect=true", "autoReconnect"),
        (PG + "escapeSyntaxCallMode=call", "escapeSyntaxCallMode"),
        (PG + "foo=bar&stringtype=varchar", "foo stringtype"),
        (MY + "useLegacyDatetimeCode=false", "useLegacyDatetimeCode"),
        (MY + "noDatetimeStringSync=true", "noDatetimeStringSync"),
        (MY + "foo=bar&serverTimezone=UTC", "foo serverTimezone"),
        (MY + "characterEncoding=latin1&allowPublicKeyRetrieval=false", "characterEncoding allowPublicKeyRetrieval"),
        ("jdbc:sqlite:t.db?date_class=TEXT", "date_class"),
    ],
)
def test_what_has_no_effect_is_named(text: str, names: str) -> None:
    assert address(text).ignored == names.split()
    sentence = reported_ignored(address(text).ignored)
    assert sentence is not None
    assert sentence.endswith(f"no effect here: {', '.join(names.split())}")


def test_settings_of_the_server_are_kept_for_each_transaction() -> None:
    found = address(PG + "options=-c statement_timeout=5min -csearch_path=a&readOnly=true&queryTimeout=7")
    assert found.session == {"statement_timeout": "7s", "search_path": "a", "default_transaction_read_only": "on"}
    assert not found.url.query
    assert not address(PG + "readOnly=true&readOnlyMode=ignore").session


def test_statements_for_a_new_connection() -> None:
    assert address(MY + "sessionVariables=sql_mode='ANSI,NO_ENGINE',@x=1").opening == [
        "SET SESSION sql_mode='ANSI,NO_ENGINE', @x=1"
    ]
    assert address("jdbc:sqlite:t.db?journal_mode=WAL&foreign_keys=on").opening == [
        "PRAGMA journal_mode = WAL",
        "PRAGMA foreign_keys = on",
    ]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("jdbc:postgresql://h/d", {"sslmode": "require", "application_name": "a"}),
        ("postgresql://h/d", {"sslmode": "require", "application_name": "a"}),
        ("jdbc:postgresql://h/d?sslmode=verify-full", {"sslmode": "verify-full", "application_name": "a"}),
        ("postgresql://h/d?sslmode=verify-full", {"sslmode": "verify-full", "application_name": "a"}),
    ],
)
def test_settings_of_the_connection_go_to_the_driver_and_the_url_counts_more(text: str, query: dict[str, str]) -> None:
    assert dict(address(text, sslmode="require", ApplicationName="a").url.query) == query


def test_settings_that_mean_nothing_to_a_jdbc_url_are_named_and_are_the_drivers_own_of_sqlalchemys() -> None:
    assert address("jdbc:postgresql://h/d", usr="x").ignored == ["usr"]
    assert dict(address("postgresql://h/d", krbsrvname="x").url.query) == {"krbsrvname": "x"}
    assert address("mysql://h/d?ssl_verify_identity=false&ssl_disabled=true").arguments == {
        "ssl_disabled": True,
        "ssl_verify_identity": False,
    }


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (PG + "sslfactory=com.example.Factory", "sslfactory names a class of Java"),
        (PG + "socketFactory=com.google.cloud.sql.postgres.SocketFactory", "leads to another server"),
        (PG + "targetServerType=any1", "The parameter targetServerType is 'any1'"),
        (PG + "socketTimeout=soon", "socketTimeout of the JDBC URL must be a whole number, not 'soon'"),
        (MY + "sslMode=maybe", "takes DISABLED, PREFERRED"),
        (MY + "sslMode=VERIFY_CA&trustCertificateKeyStoreUrl=file:/x.jks", "not from a Java keystore"),
        ("jdbc:mysql://a,b/d", "Several hosts of MySQL"),
        ("jdbc:mysql:loadbalance://a,b/d", "no other form"),
        ("jdbc:sqlite:t.db?journal_mode=WAL;DROP", "must be a word or a number"),
    ],
)
def test_what_would_lead_elsewhere_or_cannot_be_done_is_refused(text: str, reported: str) -> None:
    with pytest.raises(ConfigError, match=reported):
        address(text)

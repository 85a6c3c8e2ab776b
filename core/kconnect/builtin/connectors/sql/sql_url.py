"""connection.url to what SQLAlchemy opens: URLs of SQLAlchemy as they are, JDBC URLs translated."""

from __future__ import annotations

import importlib.util
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConfigError

if TYPE_CHECKING:
    import sqlalchemy as sa

URL: Final = "connection.url"

# Drivers by the database's name in URLs, the preferred one first: module, SQLAlchemy's name, package of PyPI.
_DRIVERS: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "postgresql": (
        ("psycopg", "postgresql+psycopg", "psycopg[binary]"),
        ("psycopg2", "postgresql+psycopg2", "psycopg2-binary"),
        ("pg8000", "postgresql+pg8000", "pg8000"),
    ),
    "mysql": (("pymysql", "mysql+pymysql", "pymysql"), ("MySQLdb", "mysql+mysqldb", "mysqlclient")),
    "mariadb": (("pymysql", "mariadb+pymysql", "pymysql"), ("MySQLdb", "mariadb+mysqldb", "mysqlclient")),
    "mssql": (("pymssql", "mssql+pymssql", "pymssql"), ("pyodbc", "mssql+pyodbc", "pyodbc")),
    "oracle": (("oracledb", "oracle+oracledb", "oracledb"),),
    "sqlite": (("sqlite3", "sqlite", ""),),
}
_JDBC_NAMES: Final = {"sqlserver": "mssql"}

# Parameters of JDBC URLs: the driver's name for each, or "" for those that only tune Java's driver.
_POSTGRES: Final = {
    "host": "host",  # a folder with the server's socket, which Java's driver cannot use
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "loginTimeout": "connect_timeout",
    "options": "options",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
}
# fmt: off
_POSTGRES_TUNING: Final = (
    "preparedStatementCacheQueries", "preparedStatementCacheSizeMiB", "defaultRowFetchSize",
    "adaptiveFetch", "reWriteBatchedInserts", "stringtype", "binaryTransfer", "loggerLevel", "loggerFile",
    "assumeMinServerVersion", "autosave", "cleanupSavepoints", "readOnly", "logUnclosedConnections",
    "disableColumnSanitiser", "unknownLength", "protocolVersion", "hostRecheckSeconds",
)
_MYSQL_TUNING: Final = (
    "useUnicode", "characterEncoding", "serverTimezone", "connectionTimeZone", "zeroDateTimeBehavior",
    "rewriteBatchedStatements", "allowPublicKeyRetrieval", "tinyInt1isBit", "autoReconnect", "useCursorFetch",
    "defaultFetchSize", "cachePrepStmts", "useServerPrepStmts", "nullCatalogMeansCurrent",
)
# fmt: on
_SERVER_TYPES: Final = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is, and how it is opened."""

    url: sa.URL
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of the driver's connect(), beside those of the URL: what is not text."""
    session: Mapping[str, str] = field(default_factory=dict)
    """Settings of PostgreSQL that each transaction needs."""


@dataclass(slots=True)
class _Parts:
    """What a JDBC URL says."""

    database: str
    """The database's kind, as in `_DRIVERS`."""
    host: str | None = None
    port: int | None = None
    name: str | None = None
    query: dict[str, Any] | None = None
    user: str | None = None
    password: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    session: dict[str, str] = field(default_factory=dict)


def address_of(config: Mapping[str, Any]) -> Address:
    """Where connection.url leads, with user and password. Errors: ConfigError with what to change or install."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    text: str = config[URL].strip()
    if text.startswith("jdbc:"):
        found = _of_jdbc(text)
    else:
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            raise _invalid("it is neither a JDBC URL nor one of SQLAlchemy, such as postgresql://host/db") from None
        if "+" not in url.drivername:
            url = url.set(drivername=_driver(url.drivername))
        found = _typed(url)
    url = found.url
    if config["connection.user"]:
        url = url.set(username=config["connection.user"])
    if config["connection.password"] is not None:
        url = url.set(password=config["connection.password"].value)
    return replace(found, url=url)


def _typed(url: sa.URL) -> Address:
    """SQLAlchemy's URL without what the driver takes as a number, which is beside it then."""
    text = url.query.get("prepare_threshold")
    if text is None or not url.drivername.endswith("+psycopg"):
        return Address(url)
    if not isinstance(text, str) or not (text.isdecimal() or text.lower() == "none"):
        raise _invalid(f"prepare_threshold must be a whole number or none, not {text}")
    threshold = int(text) if text.isdecimal() else None
    return Address(url.difference_update_query(["prepare_threshold"]), {"prepare_threshold": threshold})


def kind_of_url(text: str) -> str:
    """The database a URL names: postgresql, mysql, sqlite ..; empty if it names none."""
    name = text.strip().removeprefix("jdbc:").partition(":")[0].partition("+")[0]
    return {"mariadb": "mysql", "postgres": "postgresql", **_JDBC_NAMES}.get(name, name)


def _of_jdbc(text: str) -> Address:
    from sqlalchemy.engine import URL as SaUrl

    sub, _, rest = text.removeprefix("jdbc:").partition(":")
    kind = _JDBC_NAMES.get(sub, sub)
    readers = {
        "postgresql": _postgres,
        "mysql": _mysql,
        "mariadb": _mysql,
        "sqlite": _sqlite,
        "mssql": _sqlserver,
        "oracle": _oracle,
    }
    if kind not in readers:
        raise _invalid(
            f"JDBC URLs of {sub} are not translated; give the URL that SQLAlchemy has for this database. "
            f"Translated are those of {', '.join(_JDBC_NAMES.get(name, name) for name in readers)}"
        )
    parts = readers[kind](kind, rest)
    name = _driver(parts.database)
    url = SaUrl.create(name, parts.user, parts.password, parts.host, parts.port, parts.name, parts.query or {})
    # The other drivers of PostgreSQL prepare nothing by name
    arguments = parts.arguments if kind != "postgresql" or name.endswith("+psycopg") else {}
    return Address(url, arguments, parts.session)


def _driver(kind: str) -> str:
    """SQLAlchemy's name of the installed driver. Errors: ConfigError that says which package to install."""
    known = _DRIVERS.get({"postgres": "postgresql"}.get(kind, kind))
    if known is None:
        return kind
    for module, name, _ in known:
        if importlib.util.find_spec(module) is not None:
            return name
    raise _invalid(f"no driver for {kind} is installed: pip install '{known[0][2]}'")


def _postgres(kind: str, rest: str) -> _Parts:
    hosts, name, given = _authority(rest)
    query: dict[str, Any] = {}
    parts = _Parts(kind, None, None, name, query, given.pop("user", None), given.pop("password", None))
    if len(hosts) == 1 and hosts[0][0]:
        parts.host, parts.port = hosts[0][0], hosts[0][1]
    elif len(hosts) > 1:
        query["host"] = tuple(f"{host}:{port or 5432}" for host, port in hosts)
    for key, value in given.items():
        if key in _POSTGRES:
            query[_POSTGRES[key]] = value
        elif key == "ssl":
            if value.lower() in ("true", ""):
                query.setdefault("sslmode", given.get("sslmode", "verify-full"))  # as Java's driver takes it
        elif key == "currentSchema":
            parts.session["search_path"] = value
        elif key == "prepareThreshold":
            # Java's 0 is never, psycopg's at once
            parts.arguments.setdefault("prepare_threshold", _whole(key, value) or None)
        elif key == "preferQueryMode":
            if value == "simple":
                parts.arguments["prepare_threshold"] = None
        elif key == "socketTimeout":
            query["tcp_user_timeout"] = str(int(value) * 1000)
        elif key == "tcpKeepAlive":
            query["keepalives"] = "1" if value.lower() == "true" else "0"
        elif key == "loadBalanceHosts":
            query["load_balance_hosts"] = "random" if value.lower() == "true" else "disable"
        elif key == "targetServerType" and value in _SERVER_TYPES:
            query["target_session_attrs"] = _SERVER_TYPES[value]
        elif key not in _POSTGRES_TUNING:
            raise _unknown(key, (*_POSTGRES, "ssl", "currentSchema", "socketTimeout", "targetServerType"))
    return parts


def _mysql(kind: str, rest: str) -> _Parts:
    hosts, name, given = _authority(rest)
    query: dict[str, Any] = {"charset": "utf8mb4"}
    parts = _Parts(kind, hosts[0][0] or None, hosts[0][1], name, query, given.pop("user", None))
    parts.password = given.pop("password", None)
    for key, value in given.items():
        if key == "connectTimeout":
            query["connect_timeout"] = str(max(1, int(value) // 1000))
        elif key == "socketTimeout":
            query["read_timeout"] = query["write_timeout"] = str(max(1, int(value) // 1000))
        elif key == "useSSL" or (key == "sslMode" and value.upper() in ("DISABLED", "PREFERRED")):
            if value.lower() == "true":
                query["ssl_verify_cert"] = "false"
        elif key == "sslMode" and value.upper() in ("REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY"):
            query["ssl_verify_cert"] = "false" if value.upper() == "REQUIRED" else "true"
            query["ssl_verify_identity"] = "true" if value.upper() == "VERIFY_IDENTITY" else "false"
        elif key not in _MYSQL_TUNING:
            raise _unknown(key, ("user", "password", "connectTimeout", "socketTimeout", "useSSL", "sslMode"))
    return parts


def _sqlite(kind: str, rest: str) -> _Parts:
    return _Parts(kind, name=rest.partition("?")[0] or ":memory:")


def _sqlserver(kind: str, rest: str) -> _Parts:
    address, *properties = rest.removeprefix("//").split(";")
    host, port = _host(address.partition("\\")[0])
    parts = _Parts(kind, host or None, port, query={})
    for item in filter(None, properties):
        key, _, value = item.partition("=")
        if key in ("databaseName", "database"):
            parts.name = value
        elif key in ("user", "userName"):
            parts.user = value
        elif key == "password":
            parts.password = value
        elif key not in ("encrypt", "trustServerCertificate", "applicationName", "loginTimeout", "instance"):
            raise _unknown(key, ("databaseName", "user", "password"))
    return parts


def _oracle(kind: str, rest: str) -> _Parts:
    found = re.fullmatch(r"thin:@(?://)?([^:/]+)(?::(\d+))?(?:(:|/)(.+))?", rest)
    if found is None:
        raise _invalid("of Oracle's JDBC URLs thin:@host:port:sid and thin:@//host:port/service are translated")
    host, port, sign, name = found.groups()
    if sign == ":":
        return _Parts(kind, host, int(port or 1521), name)
    return _Parts(kind, host, int(port or 1521), None, {"service_name": name} if name else {})


def _authority(rest: str) -> tuple[list[tuple[str, int | None]], str | None, dict[str, str]]:
    """Hosts with ports, the database, and the parameters of //host:port,host:port/database?key=value."""
    rest, _, tail = rest.partition("?")
    given = {key: value for key, value in urllib.parse.parse_qsl(tail, keep_blank_values=True)}
    if not rest.startswith("//"):
        return [("", None)], urllib.parse.unquote(rest) or None, given
    address, _, name = rest.removeprefix("//").partition("/")
    return [_host(one) for one in address.split(",")], urllib.parse.unquote(name) or None, given


def _host(text: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\[[^\]]+\]|[^:]*)(?::(\d+))?", text)
    if found is None:
        raise _invalid(f"{text!r} is not a host with a port")
    return found[1].strip("[]"), int(found[2]) if found[2] else None


def _whole(key: str, value: str) -> int:
    if not value.isdecimal():
        raise _invalid(f"the parameter {key} of the JDBC URL must be a whole number, not {value!r}")
    return int(value)


def _unknown(key: str, known: tuple[str, ...]) -> ConfigError:
    return _invalid(f"the parameter {key} of the JDBC URL is not supported; supported are {', '.join(known)}")


def _invalid(message: str) -> ConfigError:
    """The URL itself is not shown: it may have a password."""
    return ConfigError.invalid(URL, "[hidden]", message[0].upper() + message[1:])

"""connection.url to what SQLAlchemy opens: URLs of SQLAlchemy as they are, JDBC URLs translated."""

from __future__ import annotations

import importlib.util
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from kconnect.api import ConfigDef
from kconnect.builtin.connectors.sql.sql_parameters import invalid, parameters_of

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

# Settings of SqlSource and SqlSink that begin so and are not their own are of the driver, as Confluent's are
DRIVER_PREFIX: Final = "connection."
_OF_DRIVER: Final = "connection.*"
_NOT_OF_DRIVER: Final = ("connection.arg.", "connection.ds.")
# What SQLAlchemy hands to a driver as text, and the driver takes for true whatever it says
_TRUTH: Final = {"pymysql": ("ssl_disabled", "ssl_verify_cert", "ssl_verify_identity")}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is, and how it is opened."""

    url: sa.URL
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Belongs to the driver's connect(), beside those of the URL: what is not text."""
    session: Mapping[str, str] = field(default_factory=dict)
    """Settings of PostgreSQL that each transaction needs."""
    opening: Sequence[str] = ()
    """Statements for a new connection."""
    ignored: Sequence[str] = ()
    """Parameters that have no effect here."""


@dataclass(slots=True)
class _Parts:
    """What a JDBC URL says."""

    database: str
    """The database's kind, as in `_DRIVERS`."""
    host: str | None = None
    port: int | None = None
    name: str | None = None
    query: dict[str, Any] = field(default_factory=dict)
    user: str | None = None
    password: str | None = None
    given: dict[str, str] = field(default_factory=dict)
    """Parameters of the driver."""


def with_driver_settings(table: ConfigDef, props: Mapping[str, str]) -> dict[str, Any]:
    """Parsed settings, with those for the driver beside them. Errors: ConfigError."""
    own = table.config_keys
    of_driver = {
        key.removeprefix(DRIVER_PREFIX): value
        for key, value in props.items()
        if key.startswith(DRIVER_PREFIX) and key not in own and not key.startswith(_NOT_OF_DRIVER)
    }
    return {**table.parse(props), _OF_DRIVER: of_driver}


def driver_settings(config: Mapping[str, Any]) -> Mapping[str, str]:
    """Gives the settings for the driver, without the prefix, from what `with_driver_settings` gave."""
    found: Mapping[str, str] = config.get(_OF_DRIVER) or {}
    return found


_LOGIN: Final = ("connection.user", "connection.password")


def address_of(config: Mapping[str, Any]) -> Address:
    """Where connection.url leads, with user and password; a file has neither, and ignores them as in Java.

    Errors: ConfigError with what to change or install.
    """
    text: str = config[URL].strip()
    given = driver_settings(config)
    found = _of_jdbc(text, given) if text.startswith("jdbc:") else _of_sqlalchemy(text, given)
    url = found.url
    if kind_of_url(text) == "sqlite":
        useless = [key.removeprefix(DRIVER_PREFIX) for key in _LOGIN if config[key]]
        return replace(found, ignored=[*found.ignored, *useless])
    if config["connection.user"]:
        url = url.set(username=config["connection.user"])
    if config["connection.password"] is not None:
        url = url.set(password=config["connection.password"].value)
    return replace(found, url=url)


def reported_ignored(names: Sequence[str]) -> str | None:
    """A sentence about parameters without effect; None if there are none."""
    if not names:
        return None
    return f"Of connection.url and the settings connection.*, these have no effect here: {', '.join(names)}"


def _of_sqlalchemy(text: str, given: Mapping[str, str]) -> Address:
    """Its parameters are the driver's own, and so are settings of names that are not of Java's drivers."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise invalid("it is neither a JDBC URL nor one of SQLAlchemy, such as postgresql://host/db") from None
    if "+" not in url.drivername:
        url = url.set(drivername=_driver(url.drivername))
    driver = _module(url.drivername)
    arguments: dict[str, Any] = {}
    threshold = url.query.get("prepare_threshold")
    if threshold is not None and driver == "psycopg":
        if not isinstance(threshold, str) or not (threshold.isdecimal() or threshold.lower() == "none"):
            raise invalid(f"prepare_threshold must be a whole number or none, not {threshold}")
        arguments["prepare_threshold"] = int(threshold) if threshold.isdecimal() else None
    for key in _TRUTH.get(driver, ()):
        if key in url.query:
            arguments[key] = str(url.query[key]).lower() in ("true", "yes", "on", "1")
    url = url.difference_update_query(list(arguments))
    kind = {"postgres": "postgresql"}.get(url.drivername.partition("+")[0], url.drivername.partition("+")[0])
    found = parameters_of(kind, driver, given)
    own = {key: given[key] for key in found.ignored}
    # Only what was asked for: a charset is one of JDBC URLs
    query = {**found.query, **own} if given else {}
    url = url.set(query={**query, **url.query})
    return Address(url, {**found.arguments, **arguments}, found.session, found.opening if given else ())


def kind_of_url(text: str) -> str:
    """The database a URL names: postgresql, mysql, sqlite ..; empty if it names none."""
    name = text.strip().removeprefix("jdbc:").partition(":")[0].partition("+")[0]
    return {"mariadb": "mysql", "postgres": "postgresql", **_JDBC_NAMES}.get(name, name)


def is_url_of_engine(text: str) -> bool:
    """Whether it is one of JDBC or of SQLAlchemy, which no driver takes."""
    return re.match(r"jdbc:|\w+\+\w+:|(mysql|mariadb|mssql|oracle|sqlite):", text.strip()) is not None


def _of_jdbc(text: str, settings: Mapping[str, str]) -> Address:
    """Parameters of the URL count more than settings, as in Java's drivers."""
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
        raise invalid(
            f"JDBC URLs of {sub} are not translated; give the URL that SQLAlchemy has for this database. "
            f"Translated are those of {', '.join(_JDBC_NAMES.get(name, name) for name in readers)}"
        )
    parts = readers[kind](kind, rest)
    name = _driver(parts.database)
    found = parameters_of(kind, _module(name), {**settings, **parts.given})
    query = {**found.query, **parts.query}
    url = SaUrl.create(name, parts.user, parts.password, parts.host, parts.port, parts.name, query)
    return Address(url, found.arguments, found.session, found.opening, found.ignored)


def package_of(drivername: str) -> str:
    """The package of PyPI that has the driver, by SQLAlchemy's name; empty if it is not known."""
    return next((pip for known in _DRIVERS.values() for _, name, pip in known if name == drivername), "")


def _module(drivername: str) -> str:
    """The driver's module by SQLAlchemy's name."""
    names = {name: module for known in _DRIVERS.values() for module, name, _ in known}
    return names.get(drivername, drivername.rpartition("+")[2])


def _driver(kind: str) -> str:
    """SQLAlchemy's name of the installed driver. Errors: ConfigError that says which package to install."""
    known = _DRIVERS.get({"postgres": "postgresql"}.get(kind, kind))
    if known is None:
        return kind
    for module, name, _ in known:
        if importlib.util.find_spec(module) is not None:
            return name
    raise invalid(f"no driver for {kind} is installed: pip install '{known[0][2]}'")


def _postgres(kind: str, rest: str) -> _Parts:
    hosts, name, given = _authority(rest)
    parts = _Parts(kind, name=name, user=given.pop("user", None), password=given.pop("password", None), given=given)
    if len(hosts) == 1 and hosts[0][0]:
        parts.host, parts.port = hosts[0][0], hosts[0][1]
    elif len(hosts) > 1:
        parts.query["host"] = tuple(f"{host}:{port or 5432}" for host, port in hosts)
    return parts


def _mysql(kind: str, rest: str) -> _Parts:
    if not rest.startswith("//"):
        raise invalid(f"jdbc:{kind}://HOST:PORT/DATABASE is taken, and no other form of it")
    hosts, name, given = _authority(rest)
    if len(hosts) > 1:
        raise invalid("several hosts of MySQL are not tried in turn: name one, such as that of a proxy before them")
    user, password = given.pop("user", None), given.pop("password", None)
    return _Parts(kind, hosts[0][0] or None, hosts[0][1], name, user=user, password=password, given=given)


def _sqlite(kind: str, rest: str) -> _Parts:
    name, _, tail = rest.partition("?")
    return _Parts(kind, name=name or ":memory:", given=_parameters(tail))


def _sqlserver(kind: str, rest: str) -> _Parts:
    address, *properties = rest.removeprefix("//").split(";")
    server, _, instance = address.partition("\\")
    host, port = _host(server)
    parts = _Parts(kind, host or None, port)
    for item in filter(None, properties):
        key, _, value = item.partition("=")
        name = key.lower()
        if name in ("databasename", "database"):
            parts.name = value
        elif name in ("user", "username"):
            parts.user = value
        elif name == "password":
            parts.password = value
        elif name in ("instancename", "instance"):
            instance = value
        else:
            parts.given[key] = value
    if instance and parts.host:
        parts.host += f"\\{instance}"
    return parts


def _oracle(kind: str, rest: str) -> _Parts:
    found = re.fullmatch(r"thin:@(?://)?([^:/]+)(?::(\d+))?(?:(:|/)(.+))?", rest)
    if found is None:
        raise invalid("of Oracle's JDBC URLs thin:@host:port:sid and thin:@//host:port/service are translated")
    host, port, sign, name = found.groups()
    if sign == ":":
        return _Parts(kind, host, int(port or 1521), name)
    return _Parts(kind, host, int(port or 1521), None, {"service_name": name} if name else {})


def _authority(rest: str) -> tuple[list[tuple[str, int | None]], str | None, dict[str, str]]:
    """Hosts with ports, the database, and the parameters of //host:port,host:port/database?key=value."""
    rest, _, tail = rest.partition("?")
    given = _parameters(tail)
    if not rest.startswith("//"):
        return [("", None)], urllib.parse.unquote(rest) or None, given
    address, _, name = rest.removeprefix("//").partition("/")
    return [_host(one) for one in address.split(",")], urllib.parse.unquote(name) or None, given


def _parameters(tail: str) -> dict[str, str]:
    return {key: value for key, value in urllib.parse.parse_qsl(tail, keep_blank_values=True)}


def _host(text: str) -> tuple[str, int | None]:
    found = re.fullmatch(r"(\[[^\]]+\]|[^:]*)(?::(\d+))?", text)
    if found is None:
        raise invalid(f"{text!r} is not a host with a port")
    return found[1].strip("[]"), int(found[2]) if found[2] else None

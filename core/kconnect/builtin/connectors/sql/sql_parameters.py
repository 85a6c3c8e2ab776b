"""Parameters of Java's drivers, as JDBC URLs and settings `connection.*` have them, for the drivers of Python. Pure.

Each has its effect, or says how it is here anyway, or is among `ignored`, which is reported. Java's drivers ignore
names that they do not know, and so is done here. What would lead elsewhere, or make TLS less than was asked for, is
refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.api import ConfigError
from kconnect.builtin.connectors.sql.sql_session import READ_ONLY


@dataclass(slots=True)
class Parameters:
    """What parameters come to."""

    query: dict[str, str] = field(default_factory=dict)
    """Belongs to SQLAlchemy's URL: text for the driver."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Belongs to the driver's connect(): what is not text."""
    session: dict[str, str] = field(default_factory=dict)
    """Settings of PostgreSQL's server that each transaction needs."""
    opening: list[str] = field(default_factory=list)
    """Statements for a new connection."""
    ignored: list[str] = field(default_factory=list)


def parameters_of(kind: str, driver: str, given: Mapping[str, str]) -> Parameters:
    """Translate parameters of Java's drivers for one of Python. Errors: ConfigError.

    `kind`: as in URLs, where mariadb is its own; `driver`: the module.
    """
    found = Parameters()
    translate = _BY_KIND.get(kind)
    if translate is None:
        found.ignored = list(given)
    else:
        translate(found, given, driver)
    return found


def invalid(message: str) -> ConfigError:
    """The URL itself is not shown: it may have a password."""
    return ConfigError.invalid("connection.url", "[hidden]", message[0].upper() + message[1:])


def _number(key: str, value: str) -> int:
    if not value.strip().isdecimal():
        raise invalid(f"the parameter {key} of the JDBC URL must be a whole number, not {value!r}")
    return int(value)


def _is_true(value: str) -> bool:
    return value.strip().lower() in ("true", "yes", "on", "1", "")


# --- PostgreSQL. Source: org.postgresql.PGProperty 42.7 ---

# The name in libpq
_POSTGRES: Final[Mapping[str, str]] = {
    "host": "host",  # a folder with the server's socket, which Java's driver cannot use
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "sslNegotiation": "sslnegotiation",
    "ApplicationName": "application_name",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
    "requireAuth": "require_auth",
    "kerberosServerName": "krbsrvname",
    "service": "service",
}
# How it is here anyway, by the value for which it is
_POSTGRES_ANYWAY: Final[Mapping[str, tuple[str, ...]]] = {
    "reWriteBatchedInserts": ("true", "false"),  # rows of one shape go together
    "stringtype": ("unspecified",),  # text is of the type of its column
    "tcpNoDelay": ("true",),
    "autosave": ("never", "always", "conservative"),  # a savepoint for each row once one was refused
    "preparedStatementCacheQueries": (),
    "readOnlyMode": ("transaction", "always", "ignore"),
    "sslfactoryarg": (),
    "sslfactory": (),
    "ssl": (),
}
SERVER_TYPES: Final = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "preferSecondary": "prefer-standby",
    "preferSlave": "prefer-standby",
    "preferPrimary": "any",
}
_SET: Final = re.compile(r"\s*(?:-c\s*|--)([A-Za-z_][\w.]*)=(\S+)")


def _postgres(found: Parameters, given: Mapping[str, str], driver: str) -> None:
    prepares: dict[str, Any] = {}
    # However it is spelled: what demands TLS is never passed over
    given = {key.lower() if key.lower() in _POSTGRES else key: value for key, value in given.items()}
    for key, value in given.items():
        if key in _POSTGRES:
            found.query[_POSTGRES[key]] = value
        elif key in ("connectTimeout", "loginTimeout"):
            if _number(key, value):  # 0 is endlessly: our own deadline is better
                found.query["connect_timeout"] = value
        elif key == "socketTimeout":
            if _number(key, value):
                found.query["tcp_user_timeout"] = str(_number(key, value) * 1000)
        elif key == "queryTimeout":
            found.session["statement_timeout"] = f"{_number(key, value)}s"
        elif key == "currentSchema":
            found.session["search_path"] = value
        elif key == "options":
            _options(found, value)
        elif key == "readOnly":
            if _is_true(value) and given.get("readOnlyMode") != "ignore":
                found.session[READ_ONLY] = "on"
        elif key == "prepareThreshold":  # Java's 0 is never, psycopg's at once
            prepares.setdefault("prepare_threshold", _number(key, value) or None)
        elif key == "preferQueryMode":
            if value == "simple":
                prepares["prepare_threshold"] = None
        elif key == "tcpKeepAlive":
            found.query["keepalives"] = "1" if _is_true(value) else "0"
        elif key == "loadBalanceHosts":
            found.query["load_balance_hosts"] = "random" if _is_true(value) else "disable"
        elif key == "targetServerType":
            if value not in SERVER_TYPES:
                raise invalid(f"the parameter targetServerType is {value!r}, and takes {', '.join(SERVER_TYPES)}")
            found.query["target_session_attrs"] = SERVER_TYPES[value]
        elif key in ("socketFactory", "PGHOST", "PGPORT", "PGDBNAME"):
            raise invalid(f"the parameter {key} leads to another server than the URL: write host and port into it")
        elif key not in _POSTGRES_ANYWAY or (_POSTGRES_ANYWAY[key] and value not in _POSTGRES_ANYWAY[key]):
            found.ignored.append(key)
    _postgres_tls(found, given)
    if driver == "psycopg":  # other drivers prepare nothing by name
        found.arguments.update(prepares)


def _options(found: Parameters, text: str) -> None:
    """Takes settings of the server's command line for each transaction, so that a pooler that drops them does
    no harm.
    """
    settings = _SET.findall(text)
    if settings and not _SET.sub("", text).strip() and "\\" not in text:
        found.session.update({name: value for name, value in settings if name not in found.session})
    else:
        found.query["options"] = text


def _postgres_tls(found: Parameters, given: Mapping[str, str]) -> None:
    """What demands TLS without a sslmode, and by which certificates. Source: SslMode, org.postgresql.ssl."""
    factory = given.get("sslfactory", "").rpartition(".")[2]
    demands = "ssl" in given and _is_true(given["ssl"])
    if factory == "NonValidatingFactory":
        if demands:
            found.query.setdefault("sslmode", "require")
        return
    if demands:
        found.query.setdefault("sslmode", "verify-full")
    if factory == "DefaultJavaSSLFactory":
        found.query.setdefault("sslrootcert", "system")
    elif factory == "SingleCertValidatingFactory" and given.get("sslfactoryarg", "").startswith("file:"):
        found.query.setdefault("sslrootcert", given["sslfactoryarg"].removeprefix("file://").removeprefix("file:"))
    elif factory not in ("", "LibPQFactory"):
        raise invalid("the parameter sslfactory names a class of Java: write sslmode and sslrootcert=FILE instead")


# --- MySQL and MariaDB. Source: PropertyDefinitions of Connector/J 9, DefaultOptions of MariaDB Connector/J 3 ---

_MYSQL_ANYWAY: Final[Mapping[str, tuple[str, ...]]] = {
    "useunicode": ("true",),
    "characterencoding": ("utf8", "utf-8", "utf8mb4"),
    "rewritebatchedstatements": ("true", "false"),
    "usebulkstmts": ("true", "false"),
    "allowpublickeyretrieval": ("true",),
    "tcpkeepalive": ("true",),
    "tcpnodelay": ("true",),
    "jdbccomplianttruncation": ("true",),
    "usecursorfetch": ("true",),
    "useserverprepstmts": ("false",),
    **dict.fromkeys(("usessl", "requiressl", "verifyservercertificate", "sslmode", "trustservercertificate"), ()),
    **dict.fromkeys(("disablesslhostnameverification", "serversslcert", "trustcertificatekeystoreurl"), ()),
}
_NO_TLS, _PREFERRED, _REQUIRED, _VERIFY_CA, _VERIFY_IDENTITY = range(5)
_TLS: Final = {
    **dict.fromkeys(("disabled", "disable", "false"), _NO_TLS),
    "preferred": _PREFERRED,
    **dict.fromkeys(("required", "trust"), _REQUIRED),
    **dict.fromkeys(("verify_ca", "verify-ca"), _VERIFY_CA),
    **dict.fromkeys(("verify_identity", "verify-full", "true"), _VERIFY_IDENTITY),
}


def _mysql(found: Parameters, given: Mapping[str, str], driver: str, *, is_mariadb: bool = False) -> None:
    found.query["charset"] = "utf8mb4"
    by_name = {key.lower(): value for key, value in given.items()}
    for key, value in given.items():
        name = key.lower()
        if name == "connecttimeout":
            if _number(key, value):
                found.query["connect_timeout"] = str(max(1, int(value) // 1000))
        elif name == "sockettimeout":
            if _number(key, value):
                found.query["read_timeout"] = found.query["write_timeout"] = str(max(1, int(value) // 1000))
        elif name == "sessionvariables":
            found.opening.append(f"SET {', '.join(_session_variables(value))}")
        elif name == "localsocket":
            found.query["unix_socket"] = value
        elif name == "connectioncollation":
            found.opening.append(f"SET NAMES utf8mb4 COLLATE {_word(key, value)}")
        elif name in ("socketfactory", "cloudsqlinstance"):
            raise invalid(f"the parameter {key} leads to another server than the URL: write host and port into it")
        elif name not in _MYSQL_ANYWAY or (_MYSQL_ANYWAY[name] and value.lower() not in _MYSQL_ANYWAY[name]):
            found.ignored.append(key)
    _mysql_tls(found, by_name, driver, is_mariadb)


def _session_variables(text: str) -> list[str]:
    """Parts `a=b,@c=d`; commas in quotes and brackets are values'."""
    parts = re.findall(r"""(?:[^,;'"(]|'[^']*'|"[^"]*"|\([^)]*\))+""", text)
    return [part.strip() if part.strip().startswith("@") else f"SESSION {part.strip()}" for part in parts]


def _mysql_tls(found: Parameters, given: Mapping[str, str], driver: str, is_mariadb: bool) -> None:
    mode = _tls_mode(given, is_mariadb)
    authorities = given.get("serversslcert") or given.get("trustcertificatekeystoreurl", "")
    authorities = authorities.removeprefix("file://").removeprefix("file:")
    if mode in (_VERIFY_CA, _VERIFY_IDENTITY) and authorities and not authorities.lower().endswith((".pem", ".crt")):
        raise invalid("certificates are read from PEM files, not from a Java keystore: write serverSslCert=FILE.pem")
    if mode is None or mode == _PREFERRED:
        return
    if driver == "pymysql":
        if mode == _NO_TLS:
            found.arguments["ssl_disabled"] = True
            return
        tls: dict[str, Any] = {"check_hostname": mode == _VERIFY_IDENTITY}
        tls["verify_mode"] = "required" if mode > _REQUIRED else "none"
        found.arguments["ssl"] = {**tls, "ca": authorities} if authorities and mode > _REQUIRED else tls
        return
    found.arguments["ssl_mode"] = ("DISABLED", "PREFERRED", "REQUIRED", "VERIFY_CA", "VERIFY_IDENTITY")[mode]
    if authorities and mode > _REQUIRED:
        found.arguments["ssl"] = {"ca": authorities}


def _tls_mode(given: Mapping[str, str], is_mariadb: bool) -> int | None:
    """Returns None if nothing is said. Differs: useSSL=true of MySQL's driver goes on without TLS where the server has
    none.
    """
    if "sslmode" in given:
        text = given["sslmode"].strip().lower()
        if text not in _TLS:
            names = "DISABLED, PREFERRED, REQUIRED, VERIFY_CA and VERIFY_IDENTITY"
            raise invalid(f"the parameter sslMode is {given['sslmode']!r}, and takes {names}")
        return _TLS[text]
    said = {name: _is_true(given[name]) for name in given if name in _MYSQL_ANYWAY}
    if said.get("usessl") is False:
        return _NO_TLS
    if is_mariadb and said.get("usessl"):
        if said.get("trustservercertificate"):
            return _REQUIRED
        return _VERIFY_CA if said.get("disablesslhostnameverification") else _VERIFY_IDENTITY
    if said.get("verifyservercertificate"):
        return _VERIFY_CA
    return _REQUIRED if said.get("requiressl") or said.get("usessl") else None


def _mariadb(found: Parameters, given: Mapping[str, str], driver: str) -> None:
    _mysql(found, given, driver, is_mariadb=True)


# --- SQLite. Source: org.sqlite.SQLiteConfig ---

# fmt: off
_PRAGMAS: Final = frozenset({
    "auto_vacuum", "automatic_index", "cache_size", "case_sensitive_like", "foreign_keys", "journal_mode",
    "journal_size_limit", "locking_mode", "mmap_size", "read_uncommitted", "recursive_triggers", "secure_delete",
    "synchronous", "temp_store",
})
# fmt: on


def _sqlite(found: Parameters, given: Mapping[str, str], driver: str) -> None:
    for key, value in given.items():
        name = key.lower()
        if name == "busy_timeout":
            found.arguments["timeout"] = _number(key, value) / 1000
        elif name in _PRAGMAS:
            found.opening.append(f"PRAGMA {name} = {_word(key, value)}")
        else:
            found.ignored.append(key)


def _word(key: str, value: str) -> str:
    if not re.fullmatch(r"-?\w+", value):
        raise invalid(f"the parameter {key} of the JDBC URL must be a word or a number, not {value!r}")
    return value


# --- SQL Server. Source: SQLServerDriver of mssql-jdbc 12 ---


def _sqlserver(found: Parameters, given: Mapping[str, str], driver: str) -> None:
    is_odbc = driver == "pyodbc"
    for key, value in given.items():
        name = key.lower()
        if name == "encrypt":
            if value.lower() in ("true", "mandatory", "strict"):
                found.query["Encrypt" if is_odbc else "encryption"] = "yes" if is_odbc else "require"
        elif name == "trustservercertificate" and is_odbc:
            found.query["TrustServerCertificate"] = "yes" if _is_true(value) else "no"
        elif name == "applicationname":
            found.query["APP" if is_odbc else "appname"] = value
        elif name == "logintimeout":
            found.arguments["timeout" if is_odbc else "login_timeout"] = _number(key, value)
        else:
            found.ignored.append(key)


_BY_KIND: Final[Mapping[str, Callable[[Parameters, Mapping[str, str], str], None]]] = {
    "postgresql": _postgres,
    "mysql": _mysql,
    "mariadb": _mariadb,
    "sqlite": _sqlite,
    "mssql": _sqlserver,
}

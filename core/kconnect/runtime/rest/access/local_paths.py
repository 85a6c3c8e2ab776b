"""Which settings of a config name files or folders of the worker's machine, and which folders hold them. No I/O but a
look at names of files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import unquote

# Settings whose value is a path of this machine wherever it is not a URL of a store
_PATH_KEY: Final = re.compile(
    r"(?:^|[._])(?:file|files|filename|dir|directory|folder|keytab|checkpoint)$|"
    r"^(?:object\.(?:move\.)?url|table\.path|spark\.options\.path|table\.catalog\.(?:uri|warehouse))$",
    re.IGNORECASE,
)
# Keys, certificates and passwords that a driver or a client reads, in Java's names and in those of drivers
_KEYS_KEY: Final = re.compile(
    r"(?:^|[._-])(?:ssl|tls)[._-]?(?:root|ca|client)?[._-]?(?:key|cert|certificate|ca|capath|crl|crldir)"
    r"(?:[._-]?(?:location|path))?$|"
    r"(?:passfile|servicefile|keyfile|key[._-]?store|trust[._-]?store|keytab)(?:[._-]?(?:location|path|url))?$|"
    r"(?:credentials|certificate|private[._-]?key)[._-]?(?:location|path)$",
    re.IGNORECASE,
)
# Some take the key itself, and libpq the authorities of the system
_NO_KEYS: Final = re.compile(r"-----BEGIN |\{|system$")
# Stores of keys, but also regions of a cloud: a path if it looks like one
_PLACE_KEY: Final = re.compile(r"(?:^|[._])location$", re.IGNORECASE)
# JSON pointers, fields and SQL begin as they like
_NO_PATH_KEY: Final = re.compile(r"(?:pointer|field|fields|query|param)$|^object\.(?:path|pattern)$")
_IN_QUERY: Final = re.compile(r"`([^`]*/[^`]*)`")
# Of a connector, of one of its topics, and of WithSchema
_SCHEMA_KEY: Final = re.compile(r"(?:^|\.)(?:value|table|spark)\.schema(?:\.|$)|^transforms\..+\.schema(?:\.|$)")
_SCHEMA_FILE: Final = re.compile(r"(?:like|file):|[^{<,\n]*\.(?:avsc|json|sql|ddl)$")
_REMOTE: Final = re.compile(
    r"^(?:s3[an]?|gcs?|gs|abfss?|adl|az|wasbs?|hdfs|https?|s?ftp|oss|postgresql\S*|mysql\S*):", re.I
)
_DATABASE_FILE: Final = re.compile(
    r"^(?:jdbc:(?:sqlite|duckdb|h2|hsqldb|derby):|(?:sqlite|duckdb)[^:/]*:///)(.*)$", re.IGNORECASE
)
_SQLITE_KEYS: Final = ("connection.database", "connection.url", "connection.arg.database")
_IN_JAAS: Final = re.compile(r"\b(?:keyTab|ticketCache|file)\s*=\s*\"?([^\"\s;]+)", re.IGNORECASE)
_DATABASE_URL: Final = re.compile(r"^(?:jdbc:|(?!https?:)[\w+.-]+://)", re.IGNORECASE)
_PARAMETERS: Final = re.compile(r"[?&;]([^=&;?]+)=([^&;]*)")
# As libpq takes them, which is a driver's first argument
_WORDS: Final = re.compile(r"(\w+)\s*=\s*'?((?<=')[^']*|[^\s']+)")
# Files of this machine whatever the driver's parameter is called
_FILE: Final = re.compile(r"(?:file:|[/~]|\.\.?/)|[^/]*\.(?:pgpass|cnf|pem|key|jks|p12)$")


def local_paths(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Settings that name files or folders of this machine, with the path as it stands there.

    A setting with the name of one does, unless its value is a URL of a store; any other does where its value is a
    path that begins with a folder of this machine.
    """
    for key, value in config.items():
        if key == "name" or key.endswith((".class", ".classes")):
            continue
        path = _local_path(key, value.strip())
        paths = [path, *(_listed_path(key, part.strip()) for part in value.split(",") if part != value)]
        yield from ((key, path) for path in dict.fromkeys(paths) if path is not None)
        if key.endswith("sasl.jaas.config"):
            yield from ((key, path) for path in _IN_JAAS.findall(value))
    if "sqlite3" in config.get("connection.driver", ""):
        files = ((key, _sqlite_file(config.get(key, "").strip())) for key in _SQLITE_KEYS)
        yield from ((key, file) for key, file in files if file not in ("", ":memory:"))
    for path in _IN_QUERY.findall(config.get("spark.query", "")):
        if not _REMOTE.match(path):
            yield "spark.query", path
    if ".." in config.get("object.path", "").split("/"):
        yield "object.path", config["object.path"]


def _local_path(key: str, text: str) -> str | None:
    if (is_url := _DATABASE_URL.match(text) is not None) or key == "connection.url":
        for name, named in _PARAMETERS.findall(unquote(text)) if is_url else _WORDS.findall(text):
            if _FILE.match(named) or (named and _is_path_key(name, named)):
                return str(named)
    if not text or (_REMOTE.match(text) and "::" not in text):
        return None
    if found := _DATABASE_FILE.match(text):
        return _sqlite_file(found[1].partition("?")[0]) or None
    if "::" in text and "://" in text:
        return text
    if _SCHEMA_KEY.search(key) and _SCHEMA_FILE.match(text):
        path = re.sub(r"^(?:like|file):\s*(?://)?", "", text)
        return None if _REMOTE.match(path) else path
    if text.lower().startswith(("file:", "local:")):
        return "/" + text.partition(":")[2].lstrip("/")
    if _is_path_key(key, text) or (_PLACE_KEY.search(key) and ("/" in text or "." in text)):
        return text
    if _NO_PATH_KEY.search(key):
        return None
    if text.startswith(("~", "./", "../")):
        return text
    first = text[1:].partition("/")[0]
    return text if text.startswith("/") and first and os.path.isdir(f"/{first}") else None


def _is_path_key(key: str, text: str) -> bool:
    return bool(_PATH_KEY.search(key) or (_KEYS_KEY.search(key) and not _NO_KEYS.match(text)))


def _listed_path(key: str, part: str) -> str | None:
    """One of several in a setting's value: a path if it looks like one, as a name may have commas."""
    if ".." in part.split("/") and not _NO_PATH_KEY.search(key) and not _REMOTE.match(part):
        return part
    found = _local_path(key, part)
    return None if found == part and not part.startswith(("/", "~", ".")) else found


def _sqlite_file(name: str) -> str:
    return unquote(name[len("file:") :].partition("?")[0]) if name.lower().startswith("file:") else name


def holds(pattern: str, path: str) -> bool:
    """Whether a folder or pattern of a grant holds a path, also where links lead.

    Of a path with `${..}`, which becomes something else for each record, its fixed folder counts.
    """
    fixed, reference, rest = path.partition("${")
    if reference:
        if not fixed or ".." in rest:
            return False
        path = fixed if fixed.endswith("/") else os.path.dirname(fixed)
    if "::" in path:
        return False
    spelled, wanted = (os.path.abspath(os.path.expanduser(one)) for one in (path, pattern))
    folder, sign, wild = re.match(r"([^*?]*)([*?]?)(.*)", wanted, re.DOTALL).groups()  # type: ignore[union-attr]  # any text matches
    if not sign:
        pairs = ((spelled, wanted), (os.path.realpath(spelled), os.path.realpath(wanted)))
        return all(os.path.commonpath([one, holder]) == holder for one, holder in pairs)
    real = os.path.join(os.path.realpath(os.path.dirname(folder)), os.path.basename(folder)) + sign + wild
    return fnmatchcase(spelled, wanted) and fnmatchcase(os.path.realpath(spelled), real)

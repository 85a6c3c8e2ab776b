"""Catalogs of Iceberg, as `table.catalog.*` name them: opened, each request with a deadline, and held to the config.

pyiceberg's REST client waits endlessly, and follows whatever a catalog answers. Here its answers name no class and no
folder that the config does not: who runs a catalog need not have rights on the worker, the limits of roles are held
against the connector's config, and the catalog's answers come later.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ServerError, ServiceUnavailableError, TooManyRequestsError
from pyiceberg.io import PY_IO_IMPL, load_file_io
from pyiceberg.table import TableProperties

LOCATION_CLASS = TableProperties.WRITE_PY_LOCATION_PROVIDER_IMPL
_TIMEOUT_S: Final = "kconnect.timeout.s"


class RestCatalogWithDeadline(RestCatalog):
    """pyiceberg's own, but a server that takes a connection and does not answer is an error in time."""

    def _config_headers(self, session: Any) -> None:
        """Called for each session before its first request, which may be for a token."""
        session.request = partial(session.request, timeout=float(self.properties[_TIMEOUT_S]))
        super()._config_headers(session)


def open_catalog(properties: Mapping[str, str], timeout_s: float, location_class: str | None = None) -> Catalog:
    """The catalog that pyiceberg makes of `table.catalog.*`, without that prefix. Errors: pyiceberg's, of many kinds.

    Units: seconds for each request to a REST catalog; other catalogs have settings of their own. Tasks that begin
    together each make the tables of a new SQL catalog: who comes second finds those of the first. `location_class`: as
    of `limit`, within whose bounds its answers are followed.
    """
    given = {key: value for key, value in properties.items() if key != "name"}
    is_rest = given.get("type", "rest" if given.get("uri", "").startswith("http") else "") == "rest"
    if is_rest and "py-catalog-impl" not in given:
        given.pop("type", None)
        given["py-catalog-impl"] = f"{__name__}.{RestCatalogWithDeadline.__name__}"
        given[_TIMEOUT_S] = str(timeout_s)
    name = properties.get("name", "default")
    try:
        catalog = load_catalog(name, **given)
    except Exception as err:  # SQLAlchemy's, which need not be there, in the words of the database
        if "already exists" not in str(err):
            raise
        catalog = load_catalog(name, **given)
    return limit(catalog, properties, location_class)


def close_catalog(catalog: Catalog) -> None:
    """End its connections; a class of somebody else's may have no such method."""
    if hasattr(catalog, "close"):
        catalog.close()


def catalog_problem(error: Exception, properties: Mapping[str, str], timeout_s: float) -> Exception:
    """An OSError, which is tried again, for what passes by itself of a REST catalog; any other error as it is."""
    where = f"Its catalog at {urlsplit(properties.get('uri', '')).netloc.rpartition('@')[2]}"
    if isinstance(error, requests.Timeout):
        return OSError(
            errno.ETIMEDOUT,
            f"{where} did not answer within {timeout_s:g} s, the deadline that table.catalog.timeout.ms sets",
        )
    if isinstance(error, requests.ConnectionError):
        return OSError(errno.ECONNREFUSED, f"{where} cannot be reached, or ended the connection")
    if isinstance(error, ServerError | ServiceUnavailableError | TooManyRequestsError):
        return OSError(errno.EAGAIN, f"{where} answers {type(error).__name__}: {error}")
    return error


def limit(catalog: Catalog, own: Mapping[str, str], location_class: str | None = None) -> Catalog:
    """Hold what the catalog answers to the config's own settings, `table.catalog.*` without that prefix.

    `location_class`: the one of `table.properties.*` that says where files of a table are. Files of this machine are
    read, written and deleted only below a local `warehouse` or `folder`; a catalog in a SQLite file is this machine's
    own. What goes beyond is a PermissionError.
    """
    if own.get("uri", "").startswith("sqlite") or own.get("type") == "in-memory":
        return catalog
    load, commit = catalog.load_table, catalog.commit_table
    folders = [path for name in ("warehouse", "folder") if (path := _local(own.get(name, ""), is_url=False))]
    own_class = {PY_IO_IMPL: own[PY_IO_IMPL]} if PY_IO_IMPL in own else {}

    def load_io(properties: Mapping[str, str] = MappingProxyType({}), location: str | None = None) -> Any:
        said = {key: value for key, value in {**catalog.properties, **properties}.items() if key != PY_IO_IMPL}
        files = load_file_io({**said, **own_class}, location)
        for name in ("new_input", "new_output", "delete"):
            setattr(files, name, _within(folders, getattr(files, name)))
        return files

    def known(answer: Any) -> Any:
        named = answer.metadata.properties.get(LOCATION_CLASS)
        if named not in (None, location_class):
            raise _refused(
                f"the table has the property {LOCATION_CLASS}={named}, a class that only the connector's config may "
                f"name: table.properties.{LOCATION_CLASS}"
            )
        return answer

    for name, method in (
        ("_load_file_io", load_io),
        ("load_table", lambda *given, **named: known(load(*given, **named))),
        ("commit_table", lambda *given, **named: known(commit(*given, **named))),
    ):
        setattr(catalog, name, method)
    return catalog


def _within(folders: list[str], method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(given: Any) -> Any:
        location = given if isinstance(given, str) else given.location
        path = _local(location, is_url=True)
        if path is not None and not any(os.path.commonpath([path, folder]) == folder for folder in folders):
            raise _refused(
                f"its catalog names {path}, a path of this machine; table.catalog.folder says in which folder of it "
                "the tables may be"
            )
        if path is not None and ("?" in location or "#" in location):  # each library has its own end of such a path
            raise _refused(f"its catalog names {location}, a path of this machine that is not plain")
        return method(given)

    return checked


def _local(location: str, *, is_url: bool) -> str | None:
    """The file or folder of this machine that a location is, as pyiceberg's libraries read it; None if elsewhere.

    `is_url`: whether what has no scheme is a path; the warehouse of a server may be any name.
    """
    found = urlsplit(location)
    if found.scheme in ("file", "local"):
        return os.path.realpath(f"{found.netloc}{found.path}")
    if found.scheme and not os.path.splitdrive(location)[0]:
        return None
    return os.path.realpath(location) if is_url or location.startswith("/") else None


def _refused(sentence: str) -> PermissionError:
    return PermissionError(errno.EACCES, sentence)

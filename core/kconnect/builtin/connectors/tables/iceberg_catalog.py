"""Iceberg's catalogs by pyiceberg, whose REST client waits endlessly: here each of its requests has a deadline."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import requests
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import ServerError, ServiceUnavailableError, TooManyRequestsError

__all__ = ["RestCatalogWithDeadline", "catalog_problem", "keep_null_lists", "open_catalog"]

_TIMEOUT_S = "kconnect.timeout.s"


def keep_null_lists() -> None:
    """Have pyiceberg write and read null lists and maps of structs as null, where it makes empty ones of them.

    Differs: from pyiceberg 0.12, whose ArrowProjectionVisitor makes such lists again without what is null in them.
    """
    from pyiceberg.io.pyarrow import ArrowProjectionVisitor as Visitor

    if getattr(Visitor, "keeps_nulls", False):
        return
    for name in ("list", "map"):
        setattr(Visitor, name, _with_nulls(getattr(Visitor, name)))
    setattr(Visitor, "keeps_nulls", True)  # noqa: B010 - mypy knows no such attribute


def _with_nulls(method: Callable[..., Any]) -> Callable[..., Any]:
    def with_nulls(self: Any, kind: Any, given: Any, *parts: Any) -> Any:
        made = method(self, kind, given, *parts)
        if made is None or made.null_count == given.null_count:
            return made
        import pyarrow as pa
        import pyarrow.compute as pc

        # Not if_else, whose type lacks the field ids by which the table finds columns in its files
        inner = [made.keys, made.items] if pa.types.is_map(made.type) else [made.values]
        offsets = pc.add(made.offsets, pa.scalar(0, made.offsets.type))  # a mask goes with offsets of their own only
        return type(made).from_arrays(offsets, *inner, type=made.type, mask=given.is_null())

    return with_nulls


class RestCatalogWithDeadline(RestCatalog):
    """pyiceberg's own, but a server that takes a connection and does not answer is an error in time."""

    def _config_headers(self, session: Any) -> None:
        """Called for each session before its first request, which may be for a token."""
        session.request = partial(session.request, timeout=float(self.properties[_TIMEOUT_S]))
        super()._config_headers(session)


def open_catalog(properties: Mapping[str, str], timeout_s: float) -> Catalog:
    """The catalog that pyiceberg makes of `table.catalog.*`, without that prefix. Errors: pyiceberg's, of many kinds.

    Units: seconds for each request to a REST catalog; other catalogs have settings of their own.
    """
    given = {key: value for key, value in properties.items() if key != "name"}
    is_rest = given.get("type", "rest" if given.get("uri", "").startswith("http") else "") == "rest"
    if is_rest and "py-catalog-impl" not in given:
        given.pop("type", None)
        given["py-catalog-impl"] = f"{__name__}.{RestCatalogWithDeadline.__name__}"
        given[_TIMEOUT_S] = str(timeout_s)
    return load_catalog(properties.get("name", "default"), **given)


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

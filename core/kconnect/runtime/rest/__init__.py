"""HTTP server of a worker: Java Connect's REST API over `herder.interface.Herder`.

Imported by `kconnect.worker` only; imports Starlette and uvicorn, which no other package may.
"""

from __future__ import annotations

from kconnect.runtime.rest.app import AppSettings
from kconnect.runtime.rest.listeners import (
    BoundListener,
    Listeners,
    advertised_address,
    advertised_url,
    bind_listeners,
    worker_id,
)
from kconnect.runtime.rest.options import RestOptions
from kconnect.runtime.rest.server import RestServer

__all__ = [
    "AppSettings",
    "BoundListener",
    "Listeners",
    "RestOptions",
    "RestServer",
    "advertised_address",
    "advertised_url",
    "bind_listeners",
    "worker_id",
]

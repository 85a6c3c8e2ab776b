"""Where the worker will listen, and under which name others will look for it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import replace

from kconnect.admin.preflight.probe import Probe
from kconnect.admin.preflight.results import Result, Verdict
from kconnect.admin.preflight.settings import WorkerStart
from kconnect.errors import ConnectError
from kconnect.runtime.rest.listeners import advertised_address, bind_listeners
from kconnect.runtime.rest.options import RestOptions
from kconnect.runtime.rest.security import is_basic_auth

_LISTENERS = "listeners"
_OWN_ONLY = ("127.0.0.1", "::1", "localhost")


def listening_probes(start: WorkerStart) -> list[Probe]:
    """Of each kind of listener, of their certificates, and of the advertised name."""
    config = start.config
    if config is None:
        return []
    probes = [Probe("listener", f"{_LISTENERS}={','.join(config.listeners)}", lambda _: _rest(start))]
    probes.append(Probe("rest", "users, roles, https, headers", lambda _: _rest_options(start)))
    if config.kconnect.link_port:
        probes.append(Probe("listener", f"kconnect.link.port={config.kconnect.link_port}", lambda _: _link(start)))
    return probes


def _rest(start: WorkerStart) -> Iterator[Result]:
    """Bind them all at once, as a start does, and let go of them."""
    config = start.config
    assert config is not None
    listeners = bind_listeners([*config.listeners, *(config.admin_listeners or ())])
    try:
        host, port = advertised_address(start.properties, listeners.bound)
    finally:
        listeners.close()
    for listener in listeners.bound:
        yield Result(check="listener", verdict=Verdict.OK, where=listener.url, message="the port is free")
    yield _advertised(host, port, start)


def _rest_options(start: WorkerStart) -> Iterator[Result]:
    """What else REST reads at its start: files of users and roles, its key store, rules for headers and origins.

    The audit log is left out, as it would make its file; extensions in Python too, as they may do anything.
    """
    config = start.config
    assert config is not None
    known = [name for name in config.values["rest.extension.classes"] if is_basic_auth(name)]
    own = replace(config.kconnect, audit_log_file=None, audit_log_topic=None, audit_log_required=False)
    looked_at = replace(config, kconnect=own, values={**config.values, "rest.extension.classes": known})
    options = RestOptions.parse(looked_at, os.environ)
    said = ["users must log in" if options.login is not None else "open to everybody who reaches it"]
    said += ["https"] if options.tls is not None else []
    yield Result(check="rest", verdict=Verdict.OK, where="users, roles, https, headers", message=", ".join(said))


def _advertised(host: str, port: int, start: WorkerStart) -> Result:
    where = f"{host}:{port}"

    def result(verdict: Verdict, message: str, hint: str | None = None) -> Result:
        return Result(check="advertised address", verdict=verdict, where=where, message=message, hint=hint)

    try:
        found = sorted({str(place[0]) for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)})
    except OSError as err:
        message = f"{host} is not known to the name service: {err.strerror or err}"
        return result(Verdict.FAILED, message, "Set rest.advertised.host.name to a name that other workers know.")
    if start.is_distributed and (host in _OWN_ONLY or all(one.startswith("127.") or one == "::1" for one in found)):
        message = f"is {', '.join(found)}: workers on other machines do not reach this one there"
        return result(Verdict.WARNING, message, "Set rest.advertised.host.name to a name that other workers know.")
    return result(Verdict.OK, f"is {', '.join(found)}")


def _link(start: WorkerStart) -> Iterator[Result]:
    """The port that slots connect to."""
    config = start.config
    assert config is not None
    port, host = config.kconnect.link_port, config.kconnect.link_bind_host or ""
    try:
        socket.create_server((host, port)).close()
    except OSError as err:
        raise ConnectError(
            f"slots cannot be listened for: {err.strerror or err}",
            hint="Choose another kconnect.link.port, or 0 for any free one.",
        ) from err
    yield Result(check="listener", verdict=Verdict.OK, where=f"kconnect.link.port={port}", message="the port is free")

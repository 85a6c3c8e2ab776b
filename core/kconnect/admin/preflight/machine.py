"""The machine below the worker: Java, disk, memory, the Spark master that tasks are given to, where the worker will
listen, and under which name others will look for it.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kconnect.admin.preflight.probe import Probe
from kconnect.admin.preflight.results import Result, Verdict
from kconnect.admin.preflight.settings import WorkerStart
from kconnect.errors import ConnectError
from kconnect.java.installed import find_java
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.reach import unresolved
from kconnect.runtime.rest.listeners import advertised_address, bind_listeners
from kconnect.runtime.rest.options import RestOptions
from kconnect.runtime.rest.security import is_basic_auth
from kconnect.runtime.storage import FileOffsetStore
from kconnect.spark.master import master_addresses
from kconnect.spark.settings import MORE_FILES, SparkSettings, own_cores, too_few_files

# Spark's JVM, worker and one slot take 362 MB at the first record; less leaves no room for records
_LEAST_MEMORY: Final = 512 << 20
# Spark unpacks 20 MB for each application, and a sink's batches may be spilled
_LEAST_DISK: Final = 200 << 20
_CGROUP: Final = Path("/sys/fs/cgroup")


def machine_probes(properties: Mapping[str, str]) -> list[Probe]:
    """Gives the probes of Java, Spark, memory and the folders that a worker writes to."""
    return [
        Probe("java", os.environ.get("JAVA_HOME", "") or "PATH", _java),
        Probe("spark", properties.get("spark.master", "local[*]"), partial(_spark, properties)),
        Probe("memory", "this machine", _memory),
        Probe("disk", "folders", partial(_disk, properties)),
    ]


def _java(_within_s: float) -> Iterator[Result]:
    java = find_java("Spark")
    yield Result(check="java", verdict=Verdict.OK, where=str(java.executable), message=f"Java {java.version}")


def _spark(properties: Mapping[str, str], within_s: float) -> Iterator[Result]:

    settings = SparkSettings.parse(properties)
    master = settings.spark.get("spark.master", "local[*]")
    version = _pyspark_version()
    python = f"Python {platform.python_version()}"
    if settings.is_local and (few := too_few_files()) is not None:
        yield Result(check="spark", verdict=Verdict.FAILED, where=master, message=few, hint=MORE_FILES)
        return
    if settings.is_local:
        up_to = f"{settings.slots} to " if settings.most_slots else ""
        size = f"{up_to}{pluralize(settings.most_slots or settings.slot_count(), 'slot')} on "
        size += pluralize(own_cores(), "core")
        message = f"Spark {version} in this process's JVM, {size}, {python}"
        yield Result(check="spark", verdict=Verdict.OK, where=master, message=message)
        return
    addresses = master_addresses(master) or _kubernetes_address(master)
    if not addresses:
        yield Result(
            check="spark",
            verdict=Verdict.UNKNOWN,
            where=master,
            message=f"Spark {version} asks this cluster itself at the start; its nodes need {python}",
        )
        return
    problems = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), within_s / (len(addresses) + 1)).close()
        except OSError as err:
            problems.append(f"{host}:{port}: {err.strerror or err}")
    if len(problems) == len(addresses):
        hint = "Check spark.master, and that the master is up."
        yield Result(
            check="spark",
            verdict=Verdict.FAILED,
            where=master,
            message=f"no Spark master answers: {'; '.join(problems)}",
            hint=hint,
        )
        return
    message = f"the master answers; its nodes need Spark {version} and {python}"
    yield Result(check="spark", verdict=Verdict.OK, where=master, message=message)
    for problem in problems:
        yield Result(check="spark", verdict=Verdict.WARNING, where=master, message=f"a master is away: {problem}")


def _kubernetes_address(master: str) -> list[tuple[str, int]]:
    """The API server of `k8s://https://HOST:PORT`; without a scheme Spark takes https."""
    if not master.startswith("k8s://"):
        return []
    rest = master.removeprefix("k8s://")
    parts = urlsplit(rest if "://" in rest else f"https://{rest}")
    try:
        return [(parts.hostname, parts.port or (80 if parts.scheme == "http" else 443))] if parts.hostname else []
    except ValueError:  # a port that is not a number: Spark reports it
        return []


def _pyspark_version() -> str:
    from importlib.metadata import version

    return version("pyspark")


def _memory(_within_s: float) -> Iterator[Result]:
    import psutil

    free = psutil.virtual_memory().available
    where = "this machine"
    limit = _limit_of_container()
    if limit is not None and limit[1] < free:
        where, free = f"this container, limit {_size(limit[0])}", limit[1]
    if free < _LEAST_MEMORY:
        yield Result(
            check="memory",
            verdict=Verdict.WARNING,
            where=where,
            message=f"{_size(free)} are free, and a worker with one slot takes about {_size(_LEAST_MEMORY)}",
            hint="Give it more memory, or fewer slots (kconnect.slots).",
        )
        return
    yield Result(check="memory", verdict=Verdict.OK, where=where, message=f"{_size(free)} are free")


def _limit_of_container(root: Path = _CGROUP) -> tuple[int, int] | None:
    """The memory limit of this control group and what is left of it; None without a limit."""
    try:
        limit = (root / "memory.max").read_text().strip()
        used = int((root / "memory.current").read_text())
    except (OSError, ValueError):
        return None
    return (int(limit), max(0, int(limit) - used)) if limit.isdecimal() else None


def _disk(properties: Mapping[str, str], _within_s: float) -> Iterator[Result]:
    """Folders that a worker writes to: they must be writable, and not full."""
    folders = {"temporary files": Path(tempfile.gettempdir())}
    if "spark.local.dir" in properties:
        folders["spark.local.dir"] = Path(properties["spark.local.dir"].split(",")[0])
    for what, folder in folders.items():
        yield _folder(what, folder)
    offsets = properties.get("offset.storage.file.filename", "").strip()
    if offsets and "group.id" not in properties:
        FileOffsetStore(offsets).look()
        yield _folder("offset.storage.file.filename", Path(offsets).absolute().parent)


def _folder(what: str, folder: Path) -> Result:
    def result(verdict: Verdict, message: str, hint: str | None = None) -> Result:
        return Result(check="disk", verdict=verdict, where=str(folder), message=f"{message} ({what})", hint=hint)

    if not folder.is_dir():
        return result(Verdict.FAILED, "the folder does not exist", f"Create it: mkdir -p {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        return result(Verdict.FAILED, "this user may not write there", "Change its owner, or name another folder.")
    try:
        free = shutil.disk_usage(folder).free
    except OSError as err:
        raise ConnectError(f"{folder}: {err.strerror or err}") from err
    if free < _LEAST_DISK:
        return result(Verdict.WARNING, f"{_size(free)} are free", "Make room, or name another folder.")
    return result(Verdict.OK, f"writable, {_size(free)} are free")


def _size(number: int) -> str:
    return f"{number / 2**30:.1f} GiB" if number >= 2**30 else f"{number / 2**20:.0f} MiB"


_LISTENERS = "listeners"
_OWN_ONLY = ("127.0.0.1", "::1", "localhost")


def listening_probes(start: WorkerStart) -> list[Probe]:
    """Gives the probes of each kind of listener, of their certificates, and of the advertised name."""
    config = start.config
    if config is None:
        return []
    probes = [Probe("listener", f"{_LISTENERS}={','.join(config.listeners)}", lambda _: _rest(start))]
    probes.append(Probe("rest", "users, roles, https, headers", lambda _: _rest_options(start)))
    if config.kconnect.link_port:
        probes.append(Probe("listener", f"kconnect.link.port={config.kconnect.link_port}", lambda _: _link(start)))
    return probes


def _rest(start: WorkerStart) -> Iterator[Result]:
    """Bind them all at once, as a start does, and release them."""
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

    The audit log is left out, as it would make its file, which was looked at with the settings. Extensions in Python
    are left out, too, as they may do anything.
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
        return result(
            Verdict.FAILED, unresolved(host, err), "Set rest.advertised.host.name to a name that other workers know."
        )
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

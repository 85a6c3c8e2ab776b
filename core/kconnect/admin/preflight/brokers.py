"""Whether the brokers can be reached: name, port, TLS, login, versions; those of bootstrap.servers, and all others.

ClientIdentity is as whom: Kafka clients of a worker, by what they are to the brokers.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from kconnect.admin.preflight.probe import Probe
from kconnect.admin.preflight.results import Result, Verdict
from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.config.addresses import Address, address_text
from kconnect.runtime.config.client_config import admin_settings
from kconnect.runtime.config.client_security import SECURITY_KEYS
from kconnect.runtime.config.reach import unknown_host
from kconnect.runtime.herder.group.connection import BrokerConnection
from kconnect.runtime.herder.group.errors import Unanswered
from kconnect.runtime.herder.group.frames import KnownBrokers
from kconnect.runtime.herder.group.security import Access, access

# The rest is for what the broker reports of the others
_SHARE: Final = 0.6
_BROKERS: Final = "bootstrap.servers"


def broker_probes(identities: Iterable[ClientIdentity]) -> list[Probe]:
    """One for each address and identity, and one for the security settings of an identity that cannot be used."""
    probes = []
    for identity in identities:
        try:
            way = access(identity.java, "connect-check")
        except ConfigError as err:
            probes.append(Probe("security", _setting(identity), partial(_raised, err), identity.title))
            continue
        for address in way.bootstrap:
            look = partial(_look, identity, way, address)
            probes.append(Probe("broker", address_text(address), look, identity.title))
    return probes


def only_with_brokers(brokers: Sequence[Probe], others: Iterable[Probe]) -> tuple[list[Probe], list[Probe]]:
    """Both kinds of probes, such that the others look once a broker has answered clients with their identity.

    Without this a wrong password is reported for each thing that was not looked at, and by clients that try for long.
    """
    gates = {title: _Gate(sum(probe.clients == title for probe in brokers)) for title in {p.clients for p in brokers}}
    first = [replace(probe, look=partial(_reporting, probe, gates[probe.clients])) for probe in brokers]
    behind = [
        replace(probe, look=partial(_waiting, probe, gates[probe.clients])) if probe.clients in gates else probe
        for probe in others
    ]
    return first, behind


class _Gate:
    """Opens with the first broker that answers, closes with the last that does not. Threads: any."""

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()  # guards the count
        self._count = count
        self._settled = threading.Event()
        self.is_open = False

    def report(self, answers: bool) -> None:
        with self._lock:
            self._count -= 1
            self.is_open |= answers
            if self.is_open or not self._count:
                self._settled.set()

    def wait(self, within_s: float) -> bool:
        self._settled.wait(within_s)
        return self.is_open


def _reporting(probe: Probe, gate: _Gate, within_s: float) -> Iterator[Result]:
    is_reported = False
    try:
        for result in probe.look(within_s):
            if not is_reported:
                is_reported = True
                gate.report(result.verdict is Verdict.OK)
            yield result
    finally:
        if not is_reported:
            gate.report(False)


def _waiting(probe: Probe, gate: _Gate, within_s: float) -> Iterable[Result]:
    deadline = time.monotonic() + within_s
    if gate.wait(within_s * _SHARE):
        return probe.look(max(deadline - time.monotonic(), 0.1))
    return [
        Result(
            check=probe.check,
            verdict=Verdict.UNKNOWN,
            where=probe.where,
            message="no broker answers these clients",
            clients=probe.clients,
        )
    ]


def _setting(identity: ClientIdentity) -> str:
    """How the settings of these clients begin in the worker's file."""
    return "ssl.*, sasl.*" if identity.names[0] in ("worker", "admin") else f"{identity.names[0]}.*"


def _raised(error: ConnectError, _within_s: float) -> Iterable[Result]:
    raise error


def _look(identity: ClientIdentity, way: Access, address: Address, within_s: float) -> Iterator[Result]:
    began = time.monotonic()
    where = address_text(address)

    def result(verdict: Verdict, message: str, hint: str | None = None) -> Result:
        return Result(check="broker", verdict=verdict, where=where, message=message, hint=hint, clients=identity.title)

    if (why := unknown_host(address[0])) is not None:
        yield result(Verdict.FAILED, why, _correct(identity))
        return
    try:
        connection = BrokerConnection(address, way, within_s * _SHARE)
    except Unanswered as err:
        message, hint = _explained(str(err).removeprefix(f"the broker at {address[0]}:{address[1]}: "), way, identity)
        yield result(Verdict.FAILED, message, hint)
        return
    except ConnectError as err:
        yield result(Verdict.FAILED, str(err).rstrip("."), _of_client(err.hint, identity))
        return
    try:
        known = connection.ask(KnownBrokers(), max(within_s * _SHARE, 0.1))
    except Unanswered as err:
        yield result(Verdict.FAILED, *_explained(str(err), way, identity))
        return
    finally:
        connection.close()
    took_ms = (time.monotonic() - began) * 1000
    yield result(Verdict.OK, f"answers in {took_ms:.0f} ms ({_manner(identity, way)})")
    yield from _advertised(identity, [one for one in known if one not in way.bootstrap], began + within_s)


def _explained(text: str, way: Access, identity: ClientIdentity) -> tuple[str, str]:
    """What broke the connection off, and the setting to look at."""
    doubt = way.doubt(text)
    if doubt is not None:
        prefix = "" if identity.names[0] in ("worker", "admin") else f"{identity.names[0]}."
        return f"{text}: {doubt}", f"Set {prefix}security.protocol to what the listener has."
    return text, f"Is Kafka running there? {_correct(identity)}"


def _of_client(hint: str | None, identity: ClientIdentity) -> str | None:
    """The hint of an error names settings without a prefix."""
    if hint is None or identity.names[0] in ("worker", "admin"):
        return hint
    return f"{hint} These clients read {' and '.join(f'{name}.*' for name in identity.names)}."


def _correct(identity: ClientIdentity) -> str:
    own = [name for name in identity.names if name not in ("worker", "admin")]
    return f"Correct {_BROKERS}{f' (or {own[0]}.{_BROKERS})' if own == list(identity.names) else ''}."


def _manner(identity: ClientIdentity, way: Access) -> str:
    mechanism = identity.java.get("sasl.mechanism", "").strip().upper()
    return f"{way.protocol}, login by {mechanism}" if way.login is not None else way.protocol


def _advertised(identity: ClientIdentity, known: Sequence[Address], deadline: float) -> Iterator[Result]:
    """Clients go on to the addresses that the brokers advertise: in containers often names that only those know."""
    for host, port in known:
        where = address_text((host, port))
        problem = unknown_host(host)
        if problem is None:
            try:
                socket.create_connection((host, port), max(deadline - time.monotonic(), 0.1)).close()
            except OSError as err:
                problem = "no answer in time" if isinstance(err, TimeoutError) else err.strerror or str(err)
        if problem is not None:
            yield Result(
                check="advertised broker",
                verdict=Verdict.FAILED,
                where=where,
                message=f"a broker says that it is there, and it cannot be reached from here: {problem}",
                hint="Is that broker down? Else correct advertised.listeners of the broker, or the network between.",
                clients=identity.title,
            )


_IDENTITY: Final = frozenset({*SECURITY_KEYS, "security.protocol", "bootstrap.servers"})
WORKER: Final = "worker"


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """Clients of the worker that are one and the same to the brokers."""

    names: tuple[str, ...]
    """Names some of `worker` (its topics and its group), `admin`, `producer`, `consumer`."""
    java: Mapping[str, str] = field(repr=False)
    """Their settings in Java's names; secrets live here."""

    @property
    def title(self) -> str:
        return ", ".join(self.names)


def client_identities(worker: Mapping[str, str], *, is_distributed: bool) -> Sequence[ClientIdentity]:
    """Who the worker is to the brokers, the worker itself first; clients with equal settings are one.

    Tasks' clients do not take their security from the settings without a prefix.
    Source: Worker.baseProducerConfigs, baseConsumerConfigs, adminConfigs (Kafka 4.3).
    """
    own = {key: value for key, value in worker.items() if key in _IDENTITY}
    found: list[tuple[str, Mapping[str, str]]] = [(WORKER, own)] if is_distributed else []
    found.append(("admin", admin_settings(worker, {}, client_id="check")))
    for name in ("producer", "consumer"):
        prefix = f"{name}."
        given = {key.removeprefix(prefix): value for key, value in worker.items() if key.startswith(prefix)}
        found.append((name, {"bootstrap.servers": worker.get("bootstrap.servers", ""), **given}))
    names: dict[tuple[tuple[str, str], ...], list[str]] = {}
    settings: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
    for name, java in found:
        relevant = {key: value for key, value in java.items() if key in _IDENTITY}
        if relevant.get("security.protocol", "PLAINTEXT").strip().upper() == "PLAINTEXT":
            relevant = {"bootstrap.servers": relevant.get("bootstrap.servers", "")}
        key = tuple(sorted(relevant.items()))
        names.setdefault(key, []).append(name)
        settings.setdefault(key, java)
    return [ClientIdentity(tuple(names[key]), settings[key]) for key in names]

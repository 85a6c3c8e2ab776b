"""All checks of a start, put together: first the settings, then everything they name, side by side.

Those of what is beside Kafka are here: certificates of key stores, by their dates, and schema registries, by an answer.
"""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import partial
from typing import Final

from kconnect.admin.preflight.brokers import ClientIdentity, broker_probes, client_identities, only_with_brokers
from kconnect.admin.preflight.cluster import clock_probe, cluster_probes, sink_group_probes
from kconnect.admin.preflight.machine import listening_probes, machine_probes
from kconnect.admin.preflight.probe import Probe, run
from kconnect.admin.preflight.results import Result, Verdict, settled
from kconnect.admin.preflight.settings import WorkerStart, connector_probes, plugin_path_probe
from kconnect.admin.preflight.topics import topic_probes
from kconnect.client.http_exchange import HttpExchange, Request, Terms
from kconnect.client.http_failures import Advice, HttpFailure
from kconnect.errors import ConfigError
from kconnect.java.compat.key_stores import key_store, trust_store
from kconnect.java.compat.tls_contexts import client_context
from kconnect.runtime.config import ConnectorFile
from kconnect.runtime.config.worker_config import DistributedConfig

# Settings are read in some 0.2 s; a config provider may ask a server
_SHARE_OF_SETTINGS = 0.5


def check_start(
    properties: Mapping[str, str], source: str, within_s: float, connectors: Sequence[ConnectorFile] = ()
) -> list[Result]:
    """What a start with these properties will meet, within `within_s`. `source`: the file they come from, for messages.

    Nothing is written or joined; ports are bound for a moment. Errors: none, they are results.
    """
    deadline = time.monotonic() + within_s
    start = WorkerStart(properties, source)
    found = run([Probe("settings", source, start.read)], within_s * _SHARE_OF_SETTINGS)
    found += run(_probes(start, connectors), max(deadline - time.monotonic(), 0.1))
    return settled(found)


def _probes(start: WorkerStart, connectors: Sequence[ConnectorFile]) -> Sequence[Probe]:
    """Gives the probes of what the settings name; those that could not be parsed still name brokers."""
    probes = [
        *plugin_path_probe(start),
        *machine_probes(start.properties),
        *listening_probes(start),
        *registry_probes([start.properties, *(file.config for file in connectors)]),
    ]
    try:
        identities = client_identities(start.properties, is_distributed=start.is_distributed)
    except ConfigError:
        return probes  # settings of a client that cannot be read are a result already
    own = identities[0]
    cluster = [clock_probe(own)]
    if isinstance(start.config, DistributedConfig):
        cluster = [*topic_probes(start.config, own), *cluster_probes(start.config, own), *cluster]
    of_connectors = [*connector_probes(start, connectors, identities), *sink_group_probes(connectors, identities)]
    brokers, others = only_with_brokers(broker_probes(identities), [*cluster, *of_connectors])
    return [
        *brokers,
        *others,
        *certificate_probes(start.properties, identities),
        *probes,
    ]


# Time enough to get another certificate made
_SOON_DAYS: Final = 14
_REGISTRY: Final = "schema.registry.url"
_MOST_BYTES: Final = 4096
_ADVICE: Final = Advice(
    nobody=f"Is it running? Correct {_REGISTRY}.",
    late=f"Is it a schema registry? Correct {_REGISTRY}.",
    broken=f"Is it a schema registry? Correct {_REGISTRY}.",
    url=f"Correct {_REGISTRY}.",
    trust="Correct schema.registry.ssl.truststore.location of the converter.",
    own_certificate="Set schema.registry.ssl.keystore.location of the converter.",
)


def certificate_probes(properties: Mapping[str, str], identities: Sequence[ClientIdentity]) -> list[Probe]:
    """Gives a probe of each client that speaks TLS, and of https listeners."""
    found: dict[str, Mapping[str, str]] = {}
    for identity in identities:
        if identity.java.get("security.protocol", "").strip().upper().endswith("SSL"):
            prefix = "" if identity.names[0] in ("worker", "admin") else f"{identity.names[0]}."
            found.setdefault(prefix, identity.java)
    for prefix, listeners in (("listeners.https.", "listeners"), ("admin.listeners.https.", "admin.listeners")):
        if "https://" in properties.get(listeners, "").lower():
            own = {key[len(prefix) :]: value for key, value in properties.items() if key.startswith(prefix)}
            found.setdefault(prefix if own else "", own or properties)
    return [
        Probe("certificate", f"{prefix}ssl.*", partial(_certificates, prefix, settings))
        for prefix, settings in found.items()
    ]


def _certificates(prefix: str, settings: Mapping[str, str], _within_s: float) -> Iterator[Result]:
    own, trusted = key_store(settings, prefix), trust_store(settings, prefix)
    if own is not None:
        yield from _dates(f"{prefix}ssl.keystore", own.chain)
    if trusted is not None:
        yield from _dates(f"{prefix}ssl.truststore", trusted)


def _dates(where: str, certificates: Sequence[bytes]) -> Iterator[Result]:
    """One line for each certificate: the first to end decides how long a store is worth something."""
    from cryptography.x509 import load_pem_x509_certificate

    for pem in certificates:
        certificate = load_pem_x509_certificate(pem)
        name, end = certificate.subject.rfc4514_string(), certificate.not_valid_after_utc
        yield certificate_result(where, name, certificate.not_valid_before_utc, end, datetime.now(UTC))


def certificate_result(where: str, name: str, begin: datetime, end: datetime, now: datetime) -> Result:
    def result(verdict: Verdict, message: str, hint: str | None = None) -> Result:
        return Result(check="certificate", verdict=verdict, where=where, message=f"{name} {message}", hint=hint)

    renew = "Put a renewed certificate in its place."
    if end < now:
        return result(Verdict.FAILED, f"expired on {end:%Y-%m-%d}", renew)
    if begin > now:
        return result(
            Verdict.FAILED, f"is not valid before {begin:%Y-%m-%d %H:%M} UTC", "Is this machine's clock right?"
        )
    if (end - now).days < _SOON_DAYS:
        return result(Verdict.WARNING, f"expires on {end:%Y-%m-%d}", renew)
    return result(Verdict.OK, f"is valid until {end:%Y-%m-%d}")


def registry_probes(settings: Sequence[Mapping[str, str]]) -> list[Probe]:
    """Gives a probe of each URL of a schema registry that a converter of the worker or of a connector names."""
    found: dict[str, Mapping[str, str]] = {}
    for config in settings:
        for key, value in config.items():
            if key.endswith(_REGISTRY):
                prefix = key.removesuffix(_REGISTRY)
                own = {name.removeprefix(prefix): text for name, text in config.items() if name.startswith(prefix)}
                for url in (part.strip() for part in value.split(",")):
                    if url:
                        found.setdefault(url.rstrip("/"), own)
    return [Probe("schema registry", _shown(url), partial(_registry, url, own)) for url, own in found.items()]


def _shown(url: str) -> str:
    """Without user and password."""
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _registry(url: str, settings: Mapping[str, str], within_s: float) -> Iterator[Result]:
    shown = _shown(url)

    def result(verdict: Verdict, message: str, hint: str | None = None) -> Result:
        return Result(check="schema registry", verdict=verdict, where=shown, message=message, hint=hint)

    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        yield result(Verdict.FAILED, "is not a URL of http or https", f"Correct {_REGISTRY}.")
        return
    store = {key.removeprefix("schema.registry."): value for key, value in settings.items()}
    tls = partial(client_context, store, "schema.registry.")
    terms = Terms(timeout_s=within_s * 0.9, most_bytes=_MOST_BYTES, cuts=True, tls=tls, advice=_ADVICE)
    try:
        with closing(HttpExchange(terms, shown)) as exchange:
            status = exchange.send(Request("GET", "/schemas/types")).status
    except HttpFailure as err:
        yield result(Verdict.FAILED, f"cannot be asked: {err.why}", err.hint)
        return
    # The check shows no credentials to it: that it wants some is as good as an answer
    wants = status in (401, 403)
    has = any("basic.auth" in key or "bearer.auth" in key for key in settings) or "@" in url
    if wants and not has:
        hint = "Set basic.auth.credentials.source and basic.auth.user.info of the converter."
        yield result(Verdict.WARNING, f"wants a login ({status}), and the converter has none", hint)
    elif 300 <= status < 400:
        yield result(Verdict.FAILED, f"answers {status}, which leads elsewhere", f"Correct {_REGISTRY}.")
    else:
        yield result(Verdict.OK, f"answers ({status}{', it wants a login' if wants else ''})")

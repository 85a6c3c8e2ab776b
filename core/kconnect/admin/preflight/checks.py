"""All checks of a start, put together: first the settings, then everything they name, side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from kconnect.admin.preflight.brokers import broker_probes, client_identities, only_with_brokers
from kconnect.admin.preflight.cluster import clock_probe, cluster_probes
from kconnect.admin.preflight.connectors import connector_probes, plugin_path_probe
from kconnect.admin.preflight.machine import listening_probes, machine_probes
from kconnect.admin.preflight.outside import certificate_probes, registry_probes
from kconnect.admin.preflight.probe import Probe, run
from kconnect.admin.preflight.results import Result, settled
from kconnect.admin.preflight.settings import WorkerStart
from kconnect.admin.preflight.topics import topic_probes
from kconnect.errors import ConfigError
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
    brokers, others = only_with_brokers(
        broker_probes(identities), [*cluster, *connector_probes(start, connectors, identities)]
    )
    return [
        *brokers,
        *others,
        *certificate_probes(start.properties, identities),
        *probes,
    ]

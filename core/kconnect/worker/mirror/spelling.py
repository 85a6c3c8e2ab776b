"""Misspelt settings in mm2.properties: those that Java takes in silence, and that have no effect. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from kconnect.runtime.config.client_keys import ADMIN, CONSUMER, PRODUCER
from kconnect.runtime.config.misspelt import misspelt_settings
from kconnect.runtime.config.worker_config import DISTRIBUTED_CONFIG, KCONNECT_CONFIG
from kconnect.worker.mirror.setting_names import CLIENT, CONNECTOR

# Its clients tell what they do not know of these, and a plugin has names of its own
_OF_OTHERS: Final = ("admin.", "consumer.", "producer.", "source.", "target.", "transforms.", "predicates.")
_OF_THE_FILE: Final = ("clusters", "dedicated.mode.enable.internal.rest")


def misspelt(properties: Iterable[str], clusters: Collection[str], flows: Collection[str]) -> Mapping[str, str]:
    """Keys that resemble a known one of their place (the top, a cluster, a flow): as written -> as probably meant."""
    clients = {*CLIENT, *ADMIN, *CONSUMER, *PRODUCER}
    workers = {*DISTRIBUTED_CONFIG.names(), *clients}
    top = {*_OF_THE_FILE, *CONNECTOR, *workers, *KCONNECT_CONFIG.names()}
    places = {f"{flow}.": {*CONNECTOR, *clients} for flow in flows} | {f"{alias}.": workers for alias in clusters}
    found: dict[str, str] = {}
    for key in properties:
        # The longest that fits: an alias may be the beginning of another
        place = max((place for place in places if key.startswith(place)), key=len, default="")
        name = key.removeprefix(place)
        if not name.startswith(_OF_OTHERS):
            meant = misspelt_settings([name], places.get(place, top)).get(name)
            found |= {key: place + meant} if meant else {}
    return found

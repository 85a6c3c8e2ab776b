"""The dev broker: real Kafka from its Maven artifacts, for development, quickstart and tests.

jars.py fetches and checks, java.py finds a JVM, broker.py starts and stops; folder.py knows the data folder,
archive.py the class archive that halves the start, wire.py asks a broker whether it is ready. Imported by the CLI and
the tests; imports nothing of ours but errors.
"""

from __future__ import annotations

from kconnect.devbroker.broker import DEFAULT_PORT, BrokerStatus, DevBroker, default_data_folder
from kconnect.devbroker.jars import KAFKA_VERSION, JarSet
from kconnect.folders import cache_folder
from kconnect.java import Java, find_java

__all__ = [
    "DEFAULT_PORT",
    "KAFKA_VERSION",
    "BrokerStatus",
    "DevBroker",
    "JarSet",
    "Java",
    "cache_folder",
    "default_data_folder",
    "find_java",
]

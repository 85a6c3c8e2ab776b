"""The dev broker and the dev registry: real servers from their Maven artifacts, for development, quickstart and tests.

dev_broker.py starts and stops a node and asks whether it is ready, server_folder.py looks after its data.
dev_registry.py starts and stops a schema registry, whose program it fetches. What both share is in
dev_server.py and server_folder.py. Imported by the CLI and the tests; imports nothing of ours but the ground
rooms.
"""

from __future__ import annotations

from kconnect.files.folders import cache_folder
from kconnect.java.devbroker.dev_broker import DEFAULT_PORT, DevBroker, default_data_folder, free_port
from kconnect.java.installed import Java, find_java
from kconnect.java.kafka_jars import KAFKA_VERSION, JarSet

__all__ = [
    "DEFAULT_PORT",
    "KAFKA_VERSION",
    "DevBroker",
    "JarSet",
    "Java",
    "cache_folder",
    "default_data_folder",
    "find_java",
    "free_port",
]

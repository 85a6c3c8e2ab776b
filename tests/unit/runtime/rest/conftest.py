"""A worker as the limits of a grant know it."""

from __future__ import annotations

import pytest

from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.rest.access.limits import Host

TOPICS = frozenset({"connect-configs", "connect-offsets", "connect-status"})
PROVIDERS = frozenset({"file", "env"})


@pytest.fixture(scope="module")
def host() -> Host:
    return Host(PluginRegistry.load(None).known_as, TOPICS, PROVIDERS, "workers")

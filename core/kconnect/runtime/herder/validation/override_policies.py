"""A worker's override policy: one that is included or the class that it names, and what it refuses."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol, TypeVar

from kconnect.api import ConnectorClientConfigOverridePolicy, ConnectorClientConfigRequest
from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.logs.redaction import redact
from kconnect.runtime.config.client_config import ALLOWLIST, POLICY, override_error

log = logging.getLogger(__name__)

P = TypeVar("P")


class ClassFinder(Protocol):
    """What finds a class: the plugin registry."""

    def python_class(self, name: str, base: type[P]) -> type[P] | None: ...
    def java_class(self, name: str, base: type[P]) -> type[P] | None: ...


def load_policy(plugins: ClassFinder, worker: Mapping[str, str]) -> ConnectorClientConfigOverridePolicy | None:
    """The policy of a worker, configured; None for one that is included, which `override_error` knows.

    Errors: ConfigError for a name that is neither, or a class that cannot be configured.
    """
    name = worker.get(POLICY, "All")
    try:
        override_error(name, "client.id")
    except ConfigError as unknown:
        found = plugins.python_class(name, ConnectorClientConfigOverridePolicy)  # type: ignore[type-abstract]  # looks for a subclass
        found = found or plugins.java_class(name, ConnectorClientConfigOverridePolicy)  # type: ignore[type-abstract]  # likewise
        if found is None:
            raise unknown
    else:
        return None
    try:
        policy = found()
        policy.configure(worker)
    except Exception as error:  # a plugin call
        raise ConfigError(f"{POLICY}={name} cannot be set up: {type(error).__name__}: {error}") from error
    return policy


def refused_overrides(
    policy: ConnectorClientConfigOverridePolicy | None,
    worker: Mapping[str, str],
    request: ConnectorClientConfigRequest,
) -> dict[str, str]:
    """Why overrides are refused, by their names without prefix. `policy`: as `load_policy` gives it.

    A policy that fails refuses all of them.
    """
    if policy is None:
        name = worker.get(POLICY, "All")
        allowlist = parse_type(ALLOWLIST, worker.get(ALLOWLIST, ""), ConfigDef.Type.LIST)
        found = {key: override_error(name, key, allowlist) for key in request.client_props}
        return {key: why for key, why in found.items() if why is not None}
    try:
        return {value.name: value.error_messages[0] for value in policy.validate(request) if value.error_messages}
    except Exception as error:  # a plugin call
        call = f"{type(policy).__name__}.validate()"
        log.exception("%s failed: no override of %s is allowed", call, request.connector_name)
        raised = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return dict.fromkeys(request.client_props, redact(f"The override policy failed: {call} raised {raised}"))

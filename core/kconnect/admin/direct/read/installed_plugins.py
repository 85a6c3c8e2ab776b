"""InstalledConnectors: what connector classes installed here declare about themselves."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from kconnect.admin.direct.access import ClusterAccess
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.api import Connector, SinkConnector, SourceConnector
from kconnect.errors import ConfigError
from kconnect.model import ConnectorType
from kconnect.runtime.plugins import PluginRegistry

if TYPE_CHECKING:
    from kconnect.runtime.config.variables import Variables
    from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator

log = logging.getLogger(__name__)


class InstalledConnectors:
    """Connector classes of this environment and of the worker's `plugin.path`. Nothing is loaded before it is asked.

    What is not here, as all connectors of a Java cluster that we do not ship, is no error. Threads: one.
    """

    def __init__(self, plugin_path: str | None = None) -> None:
        self._plugin_path = plugin_path

    def connector_class(self, name: str) -> type[Connector] | None:
        """The class that a `connector.class` names; None when it is not here."""
        try:
            return self._registry.connector_class(name)
        except ConfigError as err:
            log.debug("Connector class %s is not known here: %s", name, err)
            return None

    def connector_type(self, name: str) -> ConnectorType | None:
        """Source or sink; None when the class is not here."""
        found = self.connector_class(name)
        for base, kind in ((SinkConnector, ConnectorType.SINK), (SourceConnector, ConnectorType.SOURCE)):
            if found is not None and issubclass(found, base):
                return kind
        return None

    def password_keys(self, config: Mapping[str, str]) -> Collection[str]:
        """Settings of a config that are of type PASSWORD, as far as the plugins it names are here."""
        return self._registry.password_keys(config)

    def validator(self, worker: Mapping[str, str], variables: Variables) -> ConnectorValidator:
        """Checks configs as a worker with these settings and plugins does."""
        from kconnect.runtime.herder.validation.connector_checks import (
            ConnectorValidator,  # here: few commands check configs
        )
        from kconnect.runtime.herder.validation.override_policies import load_policy

        return ConnectorValidator(self._registry, worker, variables, policy=load_policy(self._registry, worker))

    @cached_property
    def _registry(self) -> PluginRegistry:
        return PluginRegistry.load(self._plugin_path, tells_skipped=False)


def secret_masks(access: ClusterAccess, *, reveal: bool = False) -> SecretMasks:
    """SecretMasks that know the connector classes which are installed here."""
    return SecretMasks(InstalledConnectors(access.worker.get("plugin.path")).password_keys, reveal=reveal)

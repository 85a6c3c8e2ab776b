"""InstalledConnectors: what connector classes installed here declare about themselves, such as their secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.read.record_json import kind_of
from kconnect.admin.direct.read.secret_masks import SecretMasks
from kconnect.api import Connector, ConsumerRecord, SinkConnector, SourceConnector
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


_FIELDS = ("properties", "key")


def config_masks(
    access: ClusterAccess, topic: str, *, reveal: bool = False
) -> Callable[[ConsumerRecord], ConsumerRecord]:
    """Masks what is secret in records of connectors, tasks and session keys; gives others as they are.

    The cluster's own config topic, where `access` names it, is read first: what is a password depends on classes that
    later records name. Of other topics only records that look like such ones are masked.
    """
    if reveal:
        return lambda record: record
    masks = secret_masks(access)
    is_config_topic = topic == access.worker.get(InternalTopic.CONFIG.setting)
    if is_config_topic:
        from kconnect.admin.direct.read.reader import ClusterReader  # here: other topics need none of it

        with ClusterReader(access) as reader:
            masks.learn(reader.configs(any_kind=True).snapshot.configs)

    def masked(record: ConsumerRecord) -> ConsumerRecord:
        if kind_of(record.key) is not InternalTopic.CONFIG or not (is_config_topic or _looks_like_one(record.value)):
            return record
        return replace(record, value=masks.value(InternalTopic.CONFIG, record.key, record.value))

    return masked


def _looks_like_one(value: bytes | None) -> bool:
    try:
        body = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and any(field in body for field in _FIELDS)

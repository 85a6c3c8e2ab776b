"""Override policies: which settings of its Kafka clients a connector may override.

Named in the worker's `connector.client.config.override.policy`, beside All, None, Principal and Allowlist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kconnect.api.config_key import ConfigValue
from kconnect.api.configdef import ConfigDef
from kconnect.api.connector import Connector
from kconnect.model import ConnectorType


class ClientType(StrEnum):
    """The kind of client whose settings are overridden. Source: ConnectorClientConfigRequest.ClientType."""

    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class ConnectorClientConfigRequest:
    """A connector's overrides for one client. Source: ConnectorClientConfigRequest (Kafka 4.3)."""

    connector_name: str
    connector_type: ConnectorType
    connector_class: type[Connector]
    client_props: Mapping[str, str] = field(repr=False)
    """By Java's names without prefix, as written, with `${..}` resolved: keep them out of logs."""
    client_type: ClientType


class ConnectorClientConfigOverridePolicy(ABC):
    """Decides whether the overrides of a connector are allowed. One instance lives in the worker.

    Lifecycle: constructed without arguments -> configure() -> validate()s, on any thread -> close().
    Source: o.a.k.connect.connector.policy.ConnectorClientConfigOverridePolicy (Kafka 4.3).
    """

    def configure(self, configs: Mapping[str, str]) -> None:
        """Read the worker's settings. Called once. Errors: any keeps the worker from starting."""
        return

    @abstractmethod
    def validate(self, request: ConnectorClientConfigRequest) -> list[ConfigValue]:
        """The overrides, with an error message at each that is refused; those without an error may be left out.

        Called when a connector is validated, created or changed, for each client that it will have. May not block.
        An error refuses all overrides of the request.
        """

    def close(self) -> None:
        """Release resources. Called once; not if the process dies."""
        return

    def version(self) -> str:
        """The version of this plugin."""
        return "undefined"

    def config(self) -> ConfigDef:
        """The settings of this policy."""
        return ConfigDef()

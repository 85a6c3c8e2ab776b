"""ClusterAccess: where a Connect cluster keeps its memory, and the clients that get there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from kconnect.errors import NotGivenError, TimedOutError, UnreachableError
from kconnect.runtime.config.addresses import parse_servers
from kconnect.runtime.config.reach import hello_of_broker, reach_any

if TYPE_CHECKING:
    from kconnect.runtime.config.client_config import InternalClients


class InternalTopic(StrEnum):
    """The three topics, by the first word of the setting that names them (`config.storage.topic`)."""

    CONFIG = "config"
    STATUS = "status"
    OFFSET = "offset"

    @property
    def setting(self) -> str:
        """The worker's setting that names the topic."""
        return f"{self}.storage.topic"


# What Java's workers append to their client ids.
_CLIENT_SUFFIX = {InternalTopic.CONFIG: "configs", InternalTopic.STATUS: "statuses", InternalTopic.OFFSET: "offsets"}
# Of the time for a request: a broker answers the first one in milliseconds, and a command has five seconds in all
_FOR_SILENCE = 0.3


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """A cluster by the settings of its workers; only those that a command needs must be given.

    `worker` is a worker's properties with references (`${file:..}`) resolved; secrets live in it.
    `timeout_s` is the deadline of each request to the brokers.
    """

    worker: Mapping[str, str] = field(repr=False)
    timeout_s: float = 10.0

    @property
    def bootstrap_servers(self) -> str:
        """Errors: NotGivenError."""
        return self._required("bootstrap.servers", "--bootstrap-servers")

    @property
    def group_id(self) -> str:
        """The group of the workers. Errors: NotGivenError."""
        return self._required("group.id", "--group-id")

    @property
    def has_group(self) -> bool:
        """Whether the workers' group is known: without it, live workers cannot be detected."""
        return bool(self.worker.get("group.id"))

    @property
    def is_exactly_once(self) -> bool:
        """Whether the leader writes configs in transactions; as Java, `preparing` counts."""
        return self.worker.get("exactly.once.source.support", "disabled").strip().lower() in ("preparing", "enabled")

    def topic(self, which: InternalTopic) -> str:
        """The name of one of the topics. Errors: NotGivenError."""
        return self._required(which.setting, f"--{which}-topic")

    def clients(self, which: InternalTopic | None = None) -> InternalClients:
        """Settings of librdkafka for the clients of one topic, or for none in particular.

        Errors: NotGivenError without `bootstrap.servers`; ConfigError when a setting is wrong.
        """
        from kconnect.runtime.config.client_config import (
            internal_clients,  # here: a look that is refused needs none of it
        )

        _ = self.bootstrap_servers
        return internal_clients(
            self.worker, client_id=self._client_id("admin" if which is None else _CLIENT_SUFFIX[which])
        )

    @property
    def admin_settings(self) -> Mapping[str, str]:
        """Settings of an admin client in Java's names, for requests over our own connections; secrets live in it.

        Errors: NotGivenError without `bootstrap.servers`.
        """
        return {**self.worker, "bootstrap.servers": self.bootstrap_servers, "client.id": self._client_id("admin")}

    def _client_id(self, suffix: str) -> str:
        base = self.worker.get("client.id") or self.worker.get("group.id") or "connect"
        return f"{base}-{suffix}-direct"

    def raise_if_refused(self) -> None:
        """Fail at once if no broker accepts connections, and soon if none answers: the clients would say so much later.

        Errors: UnreachableError; TimedOutError; NotGivenError without `bootstrap.servers`.
        """
        within_s = self.timeout_s * _FOR_SILENCE
        protocol = self.worker.get("security.protocol", "").strip().upper()
        hello = hello_of_broker(tls=protocol in ("SSL", "SASL_SSL"))
        found = reach_any(parse_servers(self.bootstrap_servers), within_s, hello)
        if found.address is None and found.is_open:
            raise TimedOutError(
                f"No Kafka broker at {self.bootstrap_servers} answered within {within_s:g} s: {found.sentence()}",
                hint="A frozen broker takes connections and says nothing. --timeout gives it more time, of which "
                "30 % are for the first answer.",
            )
        if found.address is None:
            raise UnreachableError(
                f"No Kafka broker answers at {self.bootstrap_servers}: {found.sentence()}",
                hint="Is Kafka running there? --bootstrap-servers, or bootstrap.servers of the worker's file, sets it.",
            )

    def _required(self, setting: str, flag: str) -> str:
        value = self.worker.get(setting, "").strip()
        if not value:
            raise NotGivenError(
                f"{setting} of the cluster is not known",
                hint=f"Give the worker's file, --worker WORKER.properties, or {flag}.",
            )
        return value

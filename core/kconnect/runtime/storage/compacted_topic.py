"""CompactedTopic: keys and values of ours in a compacted topic beside the config topic, made at need."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Final

from kconnect.errors import AlreadyExistsError, NotFoundError, TimedOutError
from kconnect.runtime.config.client_config import InternalClients, internal_clients
from kconnect.runtime.config.live_settings import live_clients
from kconnect.runtime.kafka import KafkaAdmin, TopicInfo
from kconnect.runtime.kafka.log_sender import LogSender
from kconnect.runtime.kafka.partition_reader import READ_COMMITTED
from kconnect.runtime.kafka.scan import ScanSpec, scan

log = logging.getLogger(__name__)

# As the brokers have it, where the config topic is not there to be like
_REPLICAS: Final = -1
_STOP_S: Final = 2.0


class CompactedTopic:
    """Threads: one at a time. Errors of all methods: UnreachableError, TimedOutError; ConnectError for a refusal."""

    def __init__(
        self, worker: Mapping[str, str], topic: str, purpose: str, timeout_s: float, timeout_setting: str
    ) -> None:
        """`worker`: its settings, references resolved. `purpose`: one word. `timeout_setting` gives `timeout_s`.

        Opens nothing.
        """
        self.topic = topic
        self._purpose = purpose
        client_id = f"{worker.get('group.id') or 'connect'}-{purpose}"
        self._live = live_clients(lambda: worker, lambda: internal_clients(worker, client_id=client_id))
        self._config_topic = worker.get("config.storage.topic", "").strip()
        self._timeout_s = timeout_s
        self._timeout_setting = timeout_setting
        self._sender: LogSender | None = None
        self._sender_of: InternalClients | None = None  # what it was made of

    def read(self) -> dict[bytes, bytes]:
        """What is in force by key, in the order in which it was written; nothing where the topic does not exist."""
        spec = ScanSpec(
            topic=self.topic,
            consumer=self._live.value().consumer,
            isolation_level=READ_COMMITTED,
            timeout_s=self._timeout_s,
            timeout_setting=self._timeout_setting,
            is_awaited=False,
        )
        found: dict[bytes, bytes] = {}
        try:
            with self._admin() as admin:
                if self.topic not in admin.describe_topics([self.topic], self._timeout_s):
                    return {}  # a consumer would ask for it, and brokers may make what is asked for
                for record in scan(spec, admin):
                    key = record.key or b""
                    found.pop(key, None)
                    if record.value is not None:
                        found[key] = record.value
        except NotFoundError:
            return {}
        return found

    def make(self, what: str) -> None:
        """Create the topic if it does not exist, like the config topic. `what`: for the log, what it keeps."""
        with self._admin() as admin:
            found = admin.describe_topics([self.topic, *filter(None, [self._config_topic])], self._timeout_s)
            if self.topic in found:
                return
            like = found.get(self._config_topic)
            replicas = _REPLICAS if like is None else like.replication_factor
            try:
                admin.create_topic(TopicInfo(self.topic, 1, replicas, {"cleanup.policy": "compact"}), self._timeout_s)
                log.info("Made topic %s, which keeps %s", self.topic, what)
            except AlreadyExistsError:
                log.debug("Another worker made %s", self.topic)

    def write(self, key: bytes, value: bytes | None) -> None:
        """Write one record, or a tombstone, to a topic that exists, and wait for it."""
        clients = self._live.value()
        if clients is not self._sender_of:
            self.close()
        if self._sender is None:
            self._sender, self._sender_of = LogSender(self.topic, clients.producer, is_idempotent=False), clients
            self._sender.start()
        try:
            self._sender.send(key, value).result(self._timeout_s)
        except FutureTimeoutError:
            self.close()
            raise TimedOutError(
                f"No broker acknowledged a record of {self.topic} within {self._timeout_s:g} s "
                f"({self._timeout_setting})"
            ) from None

    def close(self) -> None:
        """It may be used again."""
        if self._sender is not None:
            sender, self._sender = self._sender, None
            sender.stop(_STOP_S)

    def _admin(self) -> KafkaAdmin:
        what = f"the {self._purpose} in {self.topic}"
        return KafkaAdmin(self._live.value().admin, what, timeout_setting=self._timeout_setting)

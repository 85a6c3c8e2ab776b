"""RegexRouter: another topic for records whose topic matches."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from kconnect.api import ConfigDef, ConnectRecord, RecordBatch, Transformation
from kconnect.builtin.version import KAFKA_VERSION
from kconnect.java.compat.regex import RegexValidator, compile_java, replace_first

log = logging.getLogger(__name__)

R = TypeVar("R", bound=ConnectRecord)

CONFIG = (
    ConfigDef()
    .define(
        "regex",
        ConfigDef.Type.STRING,
        ConfigDef.NO_DEFAULT,
        RegexValidator(),
        ConfigDef.Importance.HIGH,
        "Java regular expression that the whole topic must match.",
    )
    .define(
        "replacement",
        ConfigDef.Type.STRING,
        ConfigDef.NO_DEFAULT,
        None,
        ConfigDef.Importance.HIGH,
        "The new topic; $1 or ${name} stand for groups of the expression.",
    )
)


class RegexRouter(Transformation):
    """The whole topic must match, then the first match is replaced. Source: o.a.k.connect.transforms.RegexRouter."""

    supports_batches = True

    # A task sees few topics; with a topic for each record the memory must not grow endlessly.
    MAX_REMEMBERED = 1000

    def configure(self, configs: Mapping[str, Any]) -> None:
        config = CONFIG.parse(configs)
        self._pattern = compile_java(config["regex"])
        self._replacement: str = config["replacement"]
        self._routes: dict[str, str] = {}

    def apply(self, record: R) -> R:
        topic = record.topic
        routed = self._route(topic)
        return record if routed is topic else record.new_record(topic=routed)

    def apply_batch(self, batch: RecordBatch) -> RecordBatch:
        routed = self._route(batch.topic)
        return batch if routed is batch.topic else batch.with_(topic=routed)

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

    def _route(self, topic: str) -> str:
        """The topic to use; the very same object when the expression does not match."""
        known = self._routes.get(topic)
        if known is not None:
            return known
        if not self._pattern.fullmatch(topic):
            return topic
        routed = replace_first(self._pattern, topic, self._replacement)
        log.debug("Rerouting from topic '%s' to new topic '%s'", topic, routed)
        if len(self._routes) >= self.MAX_REMEMBERED:
            self._routes.clear()
        self._routes[topic] = routed
        return routed

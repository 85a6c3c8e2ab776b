"""Names of settings in librdkafka's messages, turned back into those that users write. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kconnect.runtime.config.client_keys import ADMIN, CONSUMER, PRODUCER, Rule

# Settings that librdkafka takes by Java's name, and calls by its own
_OWN_NAMES: Final = {
    "compression.codec": "compression.type",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "message.send.max.retries": "retries",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
}
# As librdkafka quotes a setting: "acks", `acks`, `enable.idempotence=true`
_QUOTED: Final = re.compile(r'(?<=["`])[a-z]+(?:\.[a-z]+)+(?=["`=])')


def _names(rules: Mapping[str, Rule]) -> Mapping[str, str]:
    """A setting in another unit keeps librdkafka's name, as the message has librdkafka's value."""
    found = {rule.target: name for name, rule in rules.items() if rule.divisor == 1 and rule.target != name}
    return MappingProxyType(_OWN_NAMES | found)


PRODUCER_NAMES: Final = _names(PRODUCER)
CONSUMER_NAMES: Final = _names(CONSUMER)
ADMIN_NAMES: Final = _names(ADMIN)


def with_java_names(message: str, names: Mapping[str, str]) -> str:
    """The message with settings as users know them: `compression.type`, not `compression.codec`."""
    return _QUOTED.sub(lambda found: names.get(found[0], found[0]), message).strip()

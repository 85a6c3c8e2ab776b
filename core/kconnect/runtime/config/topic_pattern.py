"""TopicPattern: which topics a sink's `topics.regex` means. One place for tasks, queries, lags and offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kconnect.api.config_parse import parse_type
from kconnect.api.configdef import ConfigDef
from kconnect.errors import ConfigError
from kconnect.java.compat.regex import compile_java
from kconnect.runtime.config.client_config import client_value

EXCLUDE_INTERNAL: Final = "exclude.internal.topics"
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Source: o.a.k.common.internals.Topic (Kafka 4.3)."""


@dataclass(frozen=True, slots=True)
class TopicPattern:
    """A regular expression of Java that whole names of topics match."""

    regex: str
    takes_internal: bool = False
    """Also Kafka's own topics, which Java's consumer leaves out by default."""

    @classmethod
    def of_sink(cls, worker: Mapping[str, str], connector: Mapping[str, str]) -> TopicPattern | None:
        """Returns None for a sink whose topics are named. Errors: ConfigError for `exclude.internal.topics`."""
        regex = (connector.get("topics.regex") or "").strip()
        if not regex:
            return None
        given = client_value("consumer", EXCLUDE_INTERNAL, worker, connector)
        excludes = True if given is None else parse_type(EXCLUDE_INTERNAL, given, ConfigDef.Type.BOOLEAN)
        return cls(regex, not excludes)

    def of(self, topics: Iterable[str]) -> list[str]:
        """The topics that the pattern matches, in their order. Errors: ConfigError for an invalid expression."""
        try:
            matches = compile_java(self.regex).fullmatch
        except re.error as err:
            raise ConfigError.invalid("topics.regex", self.regex, f"Invalid regex: {err.msg}") from err
        return [topic for topic in topics if matches(topic) and (self.takes_internal or topic not in INTERNAL_TOPICS)]

"""Topics that look like those of a Connect cluster, to suggest after a wrong name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.read.record_json import kind_of
from kconnect.errors import ConnectError
from kconnect.runtime.kafka.scan import ScanSpec, scan

if TYPE_CHECKING:
    from kconnect.runtime.kafka.admin import KafkaAdmin


_ENDS = {
    InternalTopic.CONFIG: re.compile(r"(^|[-_.])configs?$", re.IGNORECASE),
    InternalTopic.STATUS: re.compile(r"(^|[-_.])status(es)?$", re.IGNORECASE),
    InternalTopic.OFFSET: re.compile(r"(^|[-_.])offsets?$", re.IGNORECASE),
}
_MOST_NAMES = 5
# To look into a topic takes some 20 ms: what comes to mind first is enough for a hint
_MOST_LOOKED_INTO, _RECORDS_LOOKED_AT, _LOOK_S = 10, 100, 1.0


def hint_of_topics(access: ClusterAccess, which: InternalTopic, admin: KafkaAdmin, wrong: str) -> str:
    """A hint for a topic name that does not exist, or is of another kind."""
    correct = f"Correct {which.setting} or --{which}-topic."
    try:
        topics = {name: count for name, count in admin.topic_names(access.timeout_s).items() if name[:2] != "__"}
        topics.pop(wrong, None)
        found = named_alike(which, topics, wrong) or _that_hold_it(access, which, admin, topics)
    except ConnectError as err:
        return f"{correct} Its topics cannot be looked at: {err}"
    if not found:
        return f"{correct} No topic of this Kafka cluster looks like it."
    return f"{correct} Topics that look like it: {', '.join(found)}"


def named_alike(which: InternalTopic, topics: Iterable[str], wrong: str) -> list[str]:
    """Topics with a usual name for it, those nearest to the wrong one first."""
    usual = [name for name in topics if _ENDS[which].search(name)]
    near = get_close_matches(wrong, usual, n=_MOST_NAMES)
    return [*near, *(name for name in usual if name not in near)][:_MOST_NAMES]


def _that_hold_it(
    access: ClusterAccess, which: InternalTopic, admin: KafkaAdmin, topics: Mapping[str, int]
) -> list[str]:
    """Compacted topics with a key of this kind among their first records."""
    found = []
    for name in list(topics)[:_MOST_LOOKED_INTO]:
        if which is InternalTopic.CONFIG and topics[name] != 1:
            continue
        if "compact" not in admin.topic_configs(name, access.timeout_s).get("cleanup.policy", ""):
            continue
        spec = ScanSpec(
            topic=name,
            consumer=access.clients(which).consumer,
            end=dict.fromkeys(range(topics[name]), _RECORDS_LOOKED_AT),
            timeout_s=_LOOK_S,
            timeout_setting="--timeout",
            is_awaited=False,
        )
        if any(kind_of(record.key) is which for record in scan(spec, admin)):
            found.append(name)
    return found[:_MOST_NAMES]

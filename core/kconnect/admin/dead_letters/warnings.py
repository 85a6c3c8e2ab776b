"""What may become of replayed records in their topics, as sentences for who is about to agree. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kconnect.admin.dead_letters.planning import Tally, retention_warning


def replay_warnings(
    connector: str,
    config: Mapping[str, str],
    planned: Tally,
    topic_settings: Callable[[str], Mapping[str, str]],
    *,
    is_source: bool,
    now_ms: int,
) -> Iterator[str]:
    """Warns of records that are older than their target keeps them, or that the sink does not read there."""
    for topic, oldest_ms in planned.oldest_ms.items():
        warning = retention_warning(topic, topic_settings(topic), oldest_ms, now_ms)
        if warning is not None:
            yield warning
    if is_source:
        return
    read = [topic.strip() for topic in config.get("topics", "").split(",") if topic.strip()]
    for topic in planned.topics if read else ():
        if topic not in read:
            yield f"{connector} does not read {topic} (its topics: {', '.join(read)})."

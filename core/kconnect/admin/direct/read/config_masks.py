"""Secrets in records of a topic that may be a cluster's config topic, for commands that show any topic."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.read.installed_plugins import secret_masks
from kconnect.admin.direct.read.record_json import kind_of
from kconnect.api import ConsumerRecord

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

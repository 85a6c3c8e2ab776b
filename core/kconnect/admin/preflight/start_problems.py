"""What a worker's settings say against its start: one list, for the start itself and for `connect check`.

No server is asked, and nothing is written. What else a start looks at has one place as well, which both call: the
offsets file (`FileOffsetStore.look`), listeners, REST's options, Java, and what a broker answers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from kconnect.admin.preflight.brokers import client_identities
from kconnect.errors import ConfigError, ConfigProblem, ConnectError
from kconnect.runtime.config.worker_config import DistributedConfig, WorkerConfig
from kconnect.runtime.herder.group.security import access
from kconnect.runtime.rest.audit.trail import look_at_audit_log
from kconnect.runtime.webhooks.sender import WebhookSettings

# Settings of three topics that must be three
_TOPICS: Final = ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
_OWN: Final = frozenset({"worker", "admin"})


def refuse_start(config: WorkerConfig) -> None:
    """Errors: ConnectError for the first reason why a worker with these settings does not start."""
    for problem in (*settings_problems(config), *_security_problems(config)):
        raise problem


def settings_problems(config: WorkerConfig) -> Iterator[ConnectError]:
    """Each reason that settings give; `broker_probes` reports those of security, which belong to a kind of client."""
    yield from _shared_topics(config)
    yield from _refusal(lambda: WebhookSettings.of_worker(config.kconnect))
    yield from _refusal(lambda: look_at_audit_log(config))


def _security_problems(config: WorkerConfig) -> Iterator[ConnectError]:
    """Looks at the worker's own clients: with wrong settings of tasks' clients a worker starts, as in Java."""
    for identity in client_identities(config.originals, is_distributed=isinstance(config, DistributedConfig)):
        if _OWN & set(identity.names):
            yield from _refusal(lambda java=identity.java: access(java, "connect-start"))  # type: ignore[misc]


def _shared_topics(config: WorkerConfig) -> Iterator[ConnectError]:
    """Two of the three topics are one: each reads the other's records.

    Differs: Java starts, and logs errors on each record that it does not know.
    """
    seen: dict[str, str] = {}
    for key in _TOPICS if isinstance(config, DistributedConfig) else ():
        topic = config.values[key]
        if other := seen.get(topic):
            problem = f"Topic {topic} is both {other} and {key}: each of the three internal topics must be its own"
            yield ConfigError(problem, [ConfigProblem(key, topic, problem)], hint=f"Give {key} a topic of its own.")
        seen[topic] = key


def _refusal(look: Callable[[], object]) -> Iterator[ConnectError]:
    try:
        look()
    except ConnectError as err:
        yield err

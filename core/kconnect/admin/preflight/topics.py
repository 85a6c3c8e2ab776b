"""The worker's three topics: there or creatable, of the right kind, replicated, and open to the worker's principal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.doctor.facts import topic_word
from kconnect.admin.preflight.brokers import ClientIdentity
from kconnect.admin.preflight.probe import Probe
from kconnect.admin.preflight.results import Result, Verdict
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.config.rights import Client, Right, client_of_java
from kconnect.runtime.config.worker_config import DistributedConfig
from kconnect.runtime.kafka.topic_facts import TopicLook
from kconnect.runtime.storage.internal_topic_specs import internal_topic_specs

if TYPE_CHECKING:
    from kconnect.runtime.kafka.internal_topics import InternalTopicSpec
    from kconnect.runtime.kafka.topic_facts import TopicFacts

_UNKNOWN: Final = Client()
_NEEDED: Final = ("READ", "WRITE", "DESCRIBE")


def topic_probes(config: DistributedConfig, identity: ClientIdentity) -> list[Probe]:
    """One for all three, with the identity of the worker's own clients."""

    def look(within_s: float) -> Iterator[Result]:
        who, specs = client_of_java(identity.java), internal_topic_specs(config)
        client = TopicLook(internal_clients(config.originals, client_id="connect-check").admin, within_s * 0.9)
        brokers = client.broker_count()
        facts = client.facts({spec.topic for spec in specs})
        for spec in specs:
            found = facts[spec.topic]
            if found.exists:
                yield from existing(spec, found, who)
            else:
                error = client.creation_error(spec)
                yield missing(spec, brokers, None if error is None else (error.name(), error.str()), who)

    return [Probe("topic", "the three internal topics", look, identity.title)]


def missing(spec: InternalTopicSpec, brokers: int, refusal: tuple[str, str] | None, who: Client = _UNKNOWN) -> Result:
    """Judges a topic that the worker would create; `refusal`: the name of the broker's error, and its words."""
    shape = f"{_count(spec.partitions, 'partition')}, {_count(spec.replication_factor, 'replica')}"
    if refusal is None:
        return _result(spec.topic, Verdict.OK, f"does not exist yet; the worker may create it ({shape})")
    name, words = refusal
    prefix = spec.setting.removesuffix("topic")
    if "AUTHORIZATION" in name:
        needs = [Right("CREATE", "topic", spec.topic)]
        return _result(
            spec.topic,
            Verdict.FAILED,
            f"does not exist, and {who.lacks(needs)} ({spec.setting})",
            f"Create it with cleanup.policy=compact and {shape}, or grant it: {who.grant(needs)}",
        )
    if name == "INVALID_REPLICATION_FACTOR":
        return _result(
            spec.topic,
            Verdict.FAILED,
            f"does not exist, and cannot be created with {shape}: {brokers} of the brokers are up",
            f"Start more brokers, or lower {prefix}replication.factor (-1 leaves it to the broker).",
        )
    return _result(spec.topic, Verdict.FAILED, f"does not exist, and cannot be created: {words}", f"Correct {prefix}*.")


def existing(spec: InternalTopicSpec, found: TopicFacts, who: Client = _UNKNOWN) -> Iterator[Result]:
    """Judges a topic that exists."""
    problems = list(_problems(spec, found, who))
    yield from problems
    if not any(problem.verdict is Verdict.FAILED for problem in problems):
        message = f"{_count(found.partitions, 'partition')}, {_count(found.replicas, 'replica')}"
        yield _result(spec.topic, Verdict.OK, f"exists ({spec.setting}): {message}")


def _problems(spec: InternalTopicSpec, found: TopicFacts, who: Client) -> Iterator[Result]:
    def failed(message: str, hint: str) -> Result:
        return _result(spec.topic, Verdict.FAILED, f"{message} ({spec.setting})", hint)

    if found.is_denied:
        needs = [Right(operation, "topic", spec.topic) for operation in ("READ", "WRITE", "DESCRIBE_CONFIGS")]
        yield failed(f"cannot be seen: {who.lacks(needs)}", f"Grant it: {who.grant(needs)}")
        return
    if denied := [
        Right(name, "topic", spec.topic)
        for name in _NEEDED
        if found.operations is not None and name not in found.operations
    ]:
        yield failed(who.lacks(denied), f"Grant it: {who.grant(denied)}")
    if spec.must_have_one_partition and found.partitions > 1:
        yield failed(f"has {found.partitions} partitions, and must have one", f"Name another topic in {spec.setting}.")
    if found.leaderless:
        which = ", ".join(map(str, found.leaderless))
        yield failed(f"partitions without a leader: {which}", "Start the brokers that have their replicas.")
    yield from _of_settings(spec, found, who)
    if spec.replication_factor > found.replicas > 0:
        word = topic_word(InternalTopic(spec.setting.partition(".")[0]))
        yield _result(
            spec.topic,
            Verdict.WARNING,
            f"has {_count(found.replicas, 'replica')}, where the worker would have made {spec.replication_factor}",
            f"Add replicas, on up to three brokers: connect topics {word} repair --worker FILE.",
        )


def _of_settings(spec: InternalTopicSpec, found: TopicFacts, who: Client) -> Iterator[Result]:
    settings = found.settings
    if settings is None:
        needs = [Right("DESCRIBE_CONFIGS", "topic", spec.topic)]
        message = f"its settings cannot be read, and cleanup.policy must be compact: {who.lacks(needs)}"
        yield _result(spec.topic, Verdict.WARNING, message, f"Grant it: {who.grant(needs)}")
        return
    policy = settings.get("cleanup.policy", "compact")
    if policy.strip() != "compact":
        command = f"kafka-configs --alter --entity-type topics --entity-name {spec.topic}"
        message = f"has cleanup.policy={policy}, and must have compact: the broker would delete {spec.purpose}"
        hint = f"Correct it: {command} --add-config cleanup.policy=compact"
        yield _result(spec.topic, Verdict.FAILED, f"{message} ({spec.setting})", hint)
    least = settings.get("min.insync.replicas", "1")
    if least.isdecimal() and 0 < found.in_sync < int(least):
        message = f"has {_count(found.in_sync, 'replica')} in sync, and min.insync.replicas={least}: writes fail"
        yield _result(spec.topic, Verdict.FAILED, message, "Start the brokers that have its other replicas.")


def connector_topic_results(
    needs: Iterable[tuple[str, str, str]], facts: Mapping[str, TopicFacts], who: Client
) -> Iterator[Result]:
    """Judges the topics that connectors name. Shape of a need: connector, topic, READ or WRITE."""
    for connector, topic, operation in needs:
        found = facts.get(topic)
        what = {"READ": "reads", "WRITE": "writes to"}[operation]
        if found is None or not found.exists:
            message = f"connector {connector} {what} it, and it does not exist"
            yield _result(topic, Verdict.WARNING, message, "The broker or topic.creation.* must create it.")
        elif found.is_denied or (found.operations is not None and operation not in found.operations):
            lacking = [Right(operation, "topic", topic)]
            message = f"connector {connector} {what} it, and {who.lacks(lacking)}"
            yield _result(topic, Verdict.FAILED, message, f"Grant it: {who.grant(lacking)}")
        else:
            yield _result(topic, Verdict.OK, f"connector {connector} may {operation} it")


def _result(topic: str, verdict: Verdict, message: str, hint: str | None = None, **more: Any) -> Result:
    return Result(check="topic", verdict=verdict, where=topic, message=message, hint=hint, **more)


def _count(number: int, word: str) -> str:

    return f"the broker's default of {word}s" if number == -1 else pluralize(number, word)

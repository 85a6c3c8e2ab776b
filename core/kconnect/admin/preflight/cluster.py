"""What brokers say of the worker's group, its transactional id, and their clock: over connections of our own.

No client library has these requests in this form.
Source: clients/src/main/resources/common/message/*.json (Kafka 4.3).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from kconnect.admin.preflight.brokers import ClientIdentity
from kconnect.admin.preflight.probe import Probe
from kconnect.admin.preflight.results import Result, Verdict
from kconnect.errors import ConnectError, DataError
from kconnect.logs.wording import pluralize
from kconnect.model import TopicPartition
from kconnect.runtime.config import ConnectorFile
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.config.rights import Client, Right, transaction_rights
from kconnect.runtime.config.worker_config import DistributedConfig
from kconnect.runtime.herder.assignment.protocol import PROTOCOL_TYPE, decode_metadata
from kconnect.runtime.herder.group.admin_frames import DescribeGroup, GroupAnswer, GroupDescription
from kconnect.runtime.herder.group.coordinator import Coordinator
from kconnect.runtime.herder.group.errors import (
    COORDINATOR_ELSEWHERE,
    GroupRefusal,
    Unanswered,
    UnsupportedError,
    error_name,
)
from kconnect.runtime.herder.group.frames import KafkaRequest
from kconnect.runtime.herder.group.group_requests import ask_any
from kconnect.runtime.herder.group.security import Access, access
from kconnect.runtime.herder.group.wire import Reader, Writer
from kconnect.runtime.herder.offsets.offsets_admin import consumer_group_of
from kconnect.runtime.kafka.admin import KafkaAdmin
from kconnect.runtime.storage.config_clients import leader_transactional_id

A = TypeVar("A")
_UNKNOWN: Final = Client()
_DENIED_GROUP: Final = 30
_DENIED_CLUSTER: Final = 31
_DENIED_TRANSACTION: Final = 53
_UNSUPPORTED: Final = 35
_SILENT_CLOCK: Final = {
    _DENIED_CLUSTER: "this principal may not DESCRIBE the cluster",
    _UNSUPPORTED: "brokers tell it since Kafka 3.3, and not with ZooKeeper",
}
# The coordinator is loading, or is made: a new broker first makes its own topic for it
_NOT_YET: Final = frozenset({14, *COORDINATOR_ELSEWHERE})
_PAUSE_S: Final = 0.1
# Sessions, scheduled rebalances and retention go by the broker's clock, statuses and keys by the worker's
_SKEW_WARNING_MS, _SKEW_FAILED_MS = 2_000, 60_000


def clock_probe(identity: ClientIdentity) -> Probe:
    """The worker's clock beside the brokers'."""
    return Probe("clock", "the brokers' controller", partial(_clock, identity), identity.title)


def cluster_probes(config: DistributedConfig, identity: ClientIdentity) -> list[Probe]:
    """The group, and with exactly once the transactional id of the leader."""
    probes = [Probe("group", config.group_id, partial(_group, config, identity), identity.title)]
    if config.values["exactly.once.source.support"].lower() != "disabled":
        name = leader_transactional_id(config.originals)
        probes.append(Probe("transactional id", name, partial(_transaction, name, identity), identity.title))
    return probes


def _clock(identity: ClientIdentity, within_s: float) -> Iterator[Result]:
    began_ms = time.time() * 1000
    try:
        reported = ask_any(access(identity.java, "connect-check"), DescribeQuorum(), within_s)
    except UnsupportedError:
        reported = QuorumTime(_UNSUPPORTED)
    yield clock_result(reported, began_ms, time.time() * 1000, identity.title)


def clock_result(reported: QuorumTime, began_ms: float, ended_ms: float, clients: str) -> Result:
    """How far apart the clocks are, as far as the time of the answer lets it be known."""

    def result(verdict: Verdict, message: str, hint: str | None = None) -> Result:
        where = "the brokers' controller"
        return Result(check="clock", verdict=verdict, where=where, message=message, hint=hint, clients=clients)

    if reported.time_ms is None:
        why = _SILENT_CLOCK.get(reported.error, "it does not say")
        return result(Verdict.UNKNOWN, f"its time is not known: {why}")
    # The answer was given at some time between the two
    skew_ms = max(reported.time_ms - ended_ms, began_ms - reported.time_ms, 0)
    if skew_ms < _SKEW_WARNING_MS:
        return result(Verdict.OK, f"differs by less than {max(skew_ms, ended_ms - began_ms) / 1000:.1f} s")
    side = "behind" if reported.time_ms > ended_ms else "ahead of"
    verdict = Verdict.FAILED if skew_ms > _SKEW_FAILED_MS else Verdict.WARNING
    message = f"this machine is {skew_ms / 1000:.1f} s {side} the brokers"
    return result(verdict, message, "Synchronize the clocks (chrony, systemd-timesyncd).")


def sink_group_probes(files: Sequence[ConnectorFile], identities: Sequence[ClientIdentity]) -> list[Probe]:
    """Whether sinks may join their consumer groups; those with security of their own are somebody else to brokers."""
    groups = {
        file.name: consumer_group_of(file.name, file.config)
        for file in files
        if not {"topics", "topics.regex"}.isdisjoint(file.config) and not file.has_own_security
    }
    identity = next((one for one in identities if "consumer" in one.names), None)
    if not groups or identity is None:
        return []
    return [Probe("sink group", "groups of sinks", partial(_sink_groups, groups, identity), identity.title)]


def _sink_groups(groups: Mapping[str, str], identity: ClientIdentity, within_s: float) -> Iterator[Result]:
    deadline = time.monotonic() + within_s * 0.9
    way = access(identity.java, "connect-check")
    for connector, group in groups.items():
        while (facts := _group_facts(way, group, deadline)) is None:
            time.sleep(_PAUSE_S)
        verdict, message, hint = Verdict.OK, f"connector {connector} may join it", None
        if _is_denied(facts):
            needs = [Right("READ", "group", group)]
            verdict, message = Verdict.FAILED, f"connector {connector} cannot join it: {way.who.lacks(needs)}"
            hint = f"Grant it: {way.who.grant(needs)}"
        yield Result(
            check="sink group", verdict=verdict, where=group, message=message, hint=hint, clients=identity.title
        )


def _group(config: DistributedConfig, identity: ClientIdentity, within_s: float) -> Iterator[Result]:
    deadline = time.monotonic() + within_s * 0.6
    way = access(identity.java, "connect-check")
    while (facts := _group_facts(way, config.group_id, deadline)) is None:
        time.sleep(_PAUSE_S)
    yield group_result(config.group_id, facts, _end_of_configs(config, facts, within_s * 0.3), identity.title, way.who)


def _group_facts(way: Access, group: str, deadline: float) -> GroupAnswer | None:
    """Returns None while a new broker makes the topic in which it keeps groups. Errors: ConnectError."""
    left_s = max(deadline - time.monotonic(), 0.1)
    try:
        connection = Coordinator(way, group, left_s).connect(left_s)
        try:
            facts = connection.ask(DescribeGroup(group), left_s)
        finally:
            connection.close()
    except GroupRefusal as err:
        if err.code == _DENIED_GROUP:
            return GroupAnswer(err.code, GroupDescription(group, "", "", ""))
        if err.code in COORDINATOR_ELSEWHERE and time.monotonic() < deadline:
            return None
        raise ConnectError(str(err)) from err
    except Unanswered as err:
        raise ConnectError(str(err)) from err
    return None if facts.error in _NOT_YET and time.monotonic() < deadline else facts


def group_result(group: str, facts: GroupAnswer, end: int | None, clients: str, who: Client = _UNKNOWN) -> Result:
    """Whether the worker may join, and whom it meets. `end`: the end of its config topic, if it could be read."""

    def result(verdict: Verdict, message: str, hint: str | None = None) -> Result:
        return Result(check="group", verdict=verdict, where=group, message=message, hint=hint, clients=clients)

    if _is_denied(facts):
        needs = [Right("READ", "group", group)]
        return result(Verdict.FAILED, f"cannot be joined: {who.lacks(needs)}", f"Grant it: {who.grant(needs)}")
    if facts.error:
        return result(Verdict.FAILED, f"the broker does not describe it: error {facts.error}", "Is group.id right?")
    described = facts.group
    if not described.members:
        empty = described.protocol_type not in ("", PROTOCOL_TYPE)
        is_taken = (
            f"was a group of type {described.protocol_type}, and keeps its offsets" if empty else "has no worker yet"
        )
        return result(Verdict.WARNING if empty else Verdict.OK, is_taken)
    if described.protocol_type != PROTOCOL_TYPE:
        message = (
            f"is in use by {pluralize(len(described.members), 'member')} of a group of type {described.protocol_type}"
        )
        return result(Verdict.FAILED, message, "Choose another group.id for this Connect cluster.")
    urls, offset = _workers(facts)
    if end is not None and offset > end:
        message = f"its workers ({', '.join(urls)}) have read another config topic, up to offset {offset}"
        return result(
            Verdict.FAILED, f"{message}; this one ends at {end}", "Give each Connect cluster a group.id of its own."
        )
    return result(Verdict.OK, f"the worker will join {pluralize(len(urls), 'worker')}: {', '.join(urls)}")


def _is_denied(facts: GroupAnswer) -> bool:
    return facts.error == _DENIED_GROUP or (facts.operations is not None and "READ" not in facts.operations)


def _workers(facts: GroupAnswer) -> tuple[list[str], int]:
    """URLs of the members, and the newest offset of the config topic that one of them has read."""
    urls, offset = [], -1
    for member in facts.group.members:
        try:
            state = decode_metadata(member.metadata)
        except DataError:
            continue  # a member that has not joined yet has reported nothing
        urls.append(state.url)
        offset = max(offset, state.offset)
    return urls, offset


def _end_of_configs(config: DistributedConfig, facts: GroupAnswer, timeout_s: float) -> int | None:
    """The end of the config topic; None if it is of no interest, or cannot be read: the topics' check says why."""
    if not facts.group.members or facts.group.protocol_type != PROTOCOL_TYPE:
        return None

    partition = TopicPartition(config.config_storage_topic, 0)
    try:
        with KafkaAdmin(internal_clients(config.originals, client_id="connect-check").admin, "the check") as admin:
            if not admin.describe_topics([partition.topic], timeout_s):
                return 0
            ends: Mapping[TopicPartition, int] = admin.log_offsets([partition], "end", timeout_s)
    except ConnectError:
        return None
    return ends[partition]


def _transaction(name: str, identity: ClientIdentity, within_s: float) -> Iterator[Result]:
    way, deadline = access(identity.java, "connect-check"), time.monotonic() + within_s * 0.6
    while (error := ask_any(way, FindTransactionCoordinator(name), within_s)) in _NOT_YET:
        if time.monotonic() > deadline:
            break
        time.sleep(_PAUSE_S)

    def result(verdict: Verdict, message: str, hint: str | None = None) -> Result:
        where, clients = name, identity.title
        return Result(
            check="transactional id", verdict=verdict, where=where, message=message, hint=hint, clients=clients
        )

    if error == _DENIED_TRANSACTION:
        needs = transaction_rights(name)
        yield result(Verdict.FAILED, way.who.lacks(needs), f"Grant it: {way.who.grant(needs)}")
        return
    # To ask for WRITE would fence the leader that is at work
    if error:
        yield result(Verdict.FAILED, f"no broker coordinates it: {error_name(error)}", "Are enough brokers up?")
        return
    yield result(Verdict.OK, "this principal may DESCRIBE it; WRITE shows only when a leader starts")


_METADATA: Final = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class FindTransactionCoordinator(KafkaRequest[int]):
    """The answer is an error code; 53 means that the principal has no right on the transactional id."""

    key = 10
    versions = (1,)
    transactional_id: str

    def write(self, out: Writer, version: int) -> None:
        out.string(self.transactional_id)
        out.number(">b", 1)

    def read(self, data: Reader, version: int) -> int:
        data.number(">i")
        return data.number(">h")


@dataclass(frozen=True, slots=True)
class QuorumTime:
    """An error code, and the time (epoch ms) at which the active controller answered; None if it does not say."""

    error: int
    time_ms: int | None = None


@dataclass(frozen=True, slots=True)
class DescribeQuorum(KafkaRequest[QuorumTime]):
    """The leader of the metadata quorum gives its own clock as the time of its own last fetch (KIP-836)."""

    key = 55
    versions = (1,)
    flexible_from = 0

    def write(self, out: Writer, version: int) -> None:
        out.count(1)
        out.string(_METADATA)
        out.count(1)
        out.number(">i", 0)
        out.end()
        out.end()

    def read(self, data: Reader, version: int) -> QuorumTime:
        error = data.number(">h")
        if error or not data.count():
            return QuorumTime(error)
        data.text()
        data.count()
        data.number(">i")
        error, leader = data.number(">h"), data.number(">i")
        data.number(">i")
        data.number(">q")
        for _ in range(data.count()):
            replica = data.number(">i")
            data.number(">q")
            data.number(">q")
            caught_up_ms = data.number(">q")
            data.end()
            if replica == leader and caught_up_ms > 0:
                return QuorumTime(error, caught_up_ms)
        return QuorumTime(error)

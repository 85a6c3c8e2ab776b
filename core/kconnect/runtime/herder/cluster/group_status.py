"""The worker's place in its group: who leads, with which key workers sign, what it got from the group.

`RestLeader` makes the worker's requests to its leader, over the leader's REST API, signed with the session key.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from email.utils import parsedate_to_datetime
from urllib.parse import quote

from kconnect.client.exchange import refusal
from kconnect.client.http_exchange import Request, Response
from kconnect.client.peers import DEADLINE, Peers
from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError, ForbiddenError, TimedOutError, UnreachableError
from kconnect.logs.wording import length_text, pluralize
from kconnect.model import TaskId
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.cluster.rebalance_rounds import RebalanceRounds
from kconnect.runtime.herder.decisions.machine import HerderState
from kconnect.runtime.herder.decisions.mismatches import ClusterNames, sentence, utc_time
from kconnect.runtime.herder.decisions.rebalances import Rebalance
from kconnect.runtime.herder.decisions.request_signatures import (
    RequestSignature,
    check_signature,
    sign,
    signature_headers,
)
from kconnect.runtime.herder.health.reasons import Reason
from kconnect.runtime.herder.membership import Membership
from kconnect.runtime.metrics import GroupView, Reading, SettleMeter, group_readings
from kconnect.runtime.storage.session_key import SessionKey

log = logging.getLogger(__name__)


class GroupStatus:
    """Threads: any; it only looks."""

    def __init__(
        self, state: HerderState, cluster: ClusterParts, membership: Membership, rounds: RebalanceRounds
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._membership = membership
        self._rounds = rounds
        self._refused_with: SessionKey | None = None  # reported once per key
        self.names = ClusterNames(cluster.group_id, cluster.config_topic, cluster.exactly_once)

    @property
    def is_leader(self) -> bool:
        return self._state.facts.is_leader

    @property
    def leader_url(self) -> str | None:
        """The leader's REST URL; None while it is unknown."""
        return self._state.facts.leader_url or None

    @property
    def session_key(self) -> SessionKey | None:
        """The key with which workers sign their requests to each other; None while there is none."""
        return self._cluster.configs.snapshot().session_key

    @property
    def requires_signatures(self) -> bool:
        """Whether requests of other workers must be signed: with the sub-protocol `sessioned` (KIP-507).

        Until the group has chosen one it is the setting's.
        """
        signs = self._state.facts.signs_requests
        return self._cluster.protocol_version >= 2 if signs is None else signs

    def check_peer(self, signature: RequestSignature | None, *, always: bool = False) -> None:
        """Requires a signature, as Java does, only with the sub-protocol `sessioned`, unless `always`."""
        if not (always or self.requires_signatures):
            return
        key = self.session_key
        try:
            check_signature(signature, key, self._cluster.verification_algorithms)
        except ForbiddenError:
            if key is not None and self._refused_with != key:
                self._refused_with = key
                log.warning(
                    "A request was refused: it is not signed with the session key made at %s; here it is %s. The "
                    "sender has not read the newest key of config.storage.topic=%s, or is not a worker of group.id=%s",
                    utc_time(key.created_ms),
                    utc_time(self._cluster.clock.time_ms()),
                    self._cluster.config_topic,
                    self._cluster.group_id,
                )
            raise

    def peer_signature(self, message: bytes) -> bytes | None:
        """With a key derived from the session key."""
        key = self.session_key
        return None if key is None else sign(key, message)

    def is_in_touch(self) -> bool:
        """Whether its work is certainly its own still."""
        until = self._membership.runs_until
        return until is None or time.monotonic() < until

    def heard_at_s(self) -> float | None:
        """When (monotonic) the group last answered a heartbeat; None before the first answer."""
        return self._membership.meter.heartbeats.last_s

    def rebalances(self) -> list[Rebalance]:
        """The last rebalances of this worker, in order."""
        rounds = self._rounds
        return [one.with_members(rounds.members_of(one.generation)) for one in self._state.rebalances.kept()]

    def out_of_group(self) -> Iterable[Reason]:
        """Why this running worker is not part of its group, or cannot lead it.

        Differs: Java's /health does not answer in the first case, and says that all is well in the second.
        """
        facts = self._state.facts
        if facts.away is not None:
            yield Reason(sentence(facts.away, self.names, self.leader_url or ""), facts.away_since_ms)
        if (unclaimed := self.unclaimed()) is not None:
            hint = facts.unclaimed_hint
            yield Reason(unclaimed if hint is None else f"{unclaimed}. {hint.rstrip('.')}", facts.unclaimed_since_ms)

    def unclaimed(self) -> str | None:
        """Why nothing is changed while this worker leads, without a full stop; None where it may write, or follows."""
        facts = self._state.facts
        problem = facts.unclaimed
        if problem is None or not facts.is_unclaimed(self._cluster.clock.time_ms()):
            return None
        return f"This worker leads the group, and may not write to the config topic: {problem.rstrip('.')}"

    def held_back(self) -> Iterable[str]:
        """What the group does not run while it waits for workers that left. Differs: Java says nothing of it."""
        facts = self._state.facts
        held, left_ms = facts.held, facts.held_until_ms - self._cluster.clock.time_ms()
        if held and left_ms > 0:
            tasks = sum(isinstance(each, TaskId) for each in held)
            parts = (("connector", len(held) - tasks), ("task", tasks))
            what = " and ".join(pluralize(count, word) for word, count in parts if count)
            yield (
                f"{what} of workers that left the group {'is' if len(held) == 1 else 'are'} held back for another "
                f"{length_text(left_ms / 1000)} (scheduled.rebalance.max.delay.ms)"
            )

    def readings(self, settling: SettleMeter) -> Sequence[Reading]:
        facts = self._state.facts
        assignment = facts.assignment
        return list(
            group_readings(
                GroupView(
                    protocol_version=self._cluster.protocol_version if assignment is None else assignment.version,
                    leader_url=self.leader_url or "",
                    generation=facts.generation,
                    connectors=len(facts.connectors),
                    tasks=len(facts.tasks),
                    meter=self._membership.meter,
                    settling=settling,
                )
            )
        )


class RestLeader:
    """Implements `LeaderRequests`. `algorithm`: inter.worker.signature.algorithm. Threads: any.

    `namespace` stands before each path: of the workers of one MirrorMaker flow.
    Source: RestClient, DistributedHerder#publishConnectorTaskConfigs (Kafka 4.3).
    """

    def __init__(
        self, peers: Peers, algorithm: str = "HmacSHA256", clock: Clock | None = None, *, namespace: str = ""
    ) -> None:
        self._peers = peers
        self._namespace = namespace
        self._algorithm = algorithm
        self._clock = clock or SystemClock()

    def put_task_configs(
        self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], key: SessionKey | None
    ) -> None:
        """Errors: ConnectError with the leader's message."""
        body = json.dumps([dict(config) for config in configs], ensure_ascii=False).encode()
        self._request(leader_url, "POST", f"/connectors/{quote(connector, safe='')}/tasks", body, key)

    def fence_zombies(self, leader_url: str, connector: str, key: SessionKey | None) -> None:
        """Errors: as put_task_configs."""
        self._request(leader_url, "PUT", f"/connectors/{quote(connector, safe='')}/fence", b"", key)

    def _request(self, url: str, method: str, path: str, body: bytes, key: SessionKey | None) -> None:
        headers = {"accept": "application/json", "user-agent": "kafka-connect"}
        if body:
            headers["content-type"] = "application/json"
        if key is not None:
            headers |= signature_headers(key, body, self._algorithm)
        request = Request(method, self._namespace + path, body, headers)
        try:
            response = self._peers.send(url, request)
        except UnreachableError as err:
            raise UnreachableError(f"{err}. {self._peers.advice(url)}") from err
        except TimedOutError as err:
            raise TimedOutError(f"{err} {DEADLINE}", hint=err.hint) from err
        if response.status >= 300:
            raise self._refused(url, request, response, key)

    def _refused(self, url: str, request: Request, response: Response, key: SessionKey | None) -> ConnectError:
        """A refused signature is reported with its possible causes: the key, and the clocks of both workers."""
        error = refusal(url.rstrip("/"), None, str(request), response)
        if not isinstance(error, ForbiddenError) or key is None:
            return error
        theirs = response.headers.get("date")
        clocks = f"here it is {utc_time(self._clock.time_ms())}"
        if theirs is not None and (their_ms := _time_ms(theirs)) is not None:
            clocks += f", at {url.rstrip('/')} it is {utc_time(their_ms)}"
        return ForbiddenError(
            f"{str(error).rstrip('.')}. This worker signed {request} to {url.rstrip('/')} with the session key made at "
            f"{utc_time(key.created_ms)}; {clocks}. The leader has another key: one of the two has not read the newest "
            "of config.storage.topic, or has another config.storage.topic",
            hint=error.hint,
        )


def _time_ms(http_date: str) -> int | None:
    """The time in a `Date` header; None if it is not a date."""
    try:
        return int(parsedate_to_datetime(http_date).timestamp() * 1000)
    except ValueError:
        return None

"""Requests that change something, handed to the herder's thread, where the state machine decides about them.

It carries them out, refuses them, or sends the asker to another worker (WrongWorkerError).
Source: DistributedHerder, AbstractHerder (Kafka 4.3).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from itertools import count

from kconnect.client.outage import NOTHING_CHANGED
from kconnect.clock import Clock
from kconnect.errors import ConflictError, ConnectError, NotFoundError, TimedOutError, WrongWorkerError
from kconnect.model import ConnectorInfo, ConnectorOffset, ConnectorStatus, ConnectorType, TargetState, TaskId
from kconnect.runtime.herder.cluster.cluster_status import ClusterStatus
from kconnect.runtime.herder.cluster.config_entries import ClusterConfig
from kconnect.runtime.herder.cluster.herder_inbox import HerderInbox
from kconnect.runtime.herder.cluster.thread_stage import ThreadStage
from kconnect.runtime.herder.connectors.host import ConnectorHost
from kconnect.runtime.herder.decisions.connector_entry import patched, require_offsets
from kconnect.runtime.herder.decisions.etags import require_config
from kconnect.runtime.herder.decisions.events import Asked, Event, GivenUp
from kconnect.runtime.herder.decisions.requests import (
    AskFence,
    AskOffsets,
    AskPut,
    AskRemove,
    AskRestart,
    AskRestartByPlan,
    AskStop,
    AskTaskCount,
    AskTasks,
    Request,
)
from kconnect.runtime.herder.decisions.restart_plan import restart_plan
from kconnect.runtime.herder.health.change_patience import ChangePatience, unknown_end
from kconnect.runtime.herder.health.reasons import Health, reasons_text
from kconnect.runtime.herder.queries.start_state import StartState
from kconnect.runtime.storage.config_store import ConfigStore
from kconnect.runtime.storage.config_topic import RestartRequested


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadAccess:
    """The queue to the herder's thread, and the reasons why it does not answer."""

    inbox: HerderInbox
    pending: PendingRequests
    start: StartState
    stages: ThreadStage
    health: Health
    patience: ChangePatience
    clock: Clock
    timeout_s: float


class ThreadRequests:
    """Sends requests to the herder's thread and waits for the answers. Threads: any but the herder's."""

    def __init__(self, access: ThreadAccess) -> None:
        self._access = access
        self._failure: ConnectError | None = None

    @property
    def timeout_s(self) -> float:
        """How long a request may take."""
        return self._access.timeout_s

    def ask(self, request: Request) -> object:
        """Returns the thread's answer. Errors: its refusal; TimedOutError, which says what it waits for."""
        return self._answer_of(request, None)

    def ask_for_user(self, request: Request) -> object:
        """Works as `ask`, for who does not wait for a Kafka that is silent. Errors: UnreachableError too, when
        nothing was begun.
        """
        patience = self._access.patience
        if self._access.start.has_begun:
            patience.refuse_if_away()
        return self._answer_of(request, patience)

    def carry_out(self, write: Callable[[], object]) -> None:
        """Do a write that needs no leader, for a user."""
        self._access.patience.carry_out(write)

    def _answer_of(self, request: Request, patience: ChangePatience | None) -> object:
        self.raise_if_failed()
        access, began_s = self._access, time.monotonic()
        has_begun = access.start.await_begin(access.timeout_s)
        if access.start.is_stopping:
            raise ConflictError("Worker is shutting down")
        if not has_begun:
            waits_for = reasons_text(access.health.reasons(), access.clock.time_ms())
            raise TimedOutError(f"Request timed out. The worker is still starting up. {waits_for}".rstrip())
        left_s = max(0.0, access.timeout_s - (time.monotonic() - began_s))
        return access.pending.ask(request, access.inbox.post, left_s, access.stages, patience)

    def raise_if_failed(self) -> None:
        """Errors: ConnectError when the group refuses this worker for good, or its thread broke."""
        if (failure := self._failure) is not None:
            raise ConnectError(str(failure), hint=failure.hint) from failure

    def fail(self, error: BaseException) -> None:
        """The thread has failed: pending and later requests get this error."""
        failure = error if isinstance(error, ConnectError) else ConnectError(str(error) or type(error).__name__)
        self._failure = failure
        self._access.pending.close(ConnectError(f"The worker has failed: {failure}", hint=failure.hint))


class ChangeRequests:
    """Threads: any but the herder's; each call waits for its answer.

    Errors: the state machine's refusal; WrongWorkerError if another worker must do it.
    """

    def __init__(
        self,
        requests: ThreadRequests,
        configs: ConfigStore,
        config: ClusterConfig,
        status: ClusterStatus,
        host: ConnectorHost,
        validate: Callable[[str, Mapping[str, str]], None],
    ) -> None:
        """`validate`: Connect's checks of a connector's config and its own; raises BadRequestError, TimedOutError."""
        self._requests = requests
        self._ask = requests.ask_for_user
        self._timeout_s = requests.timeout_s
        self._configs = configs
        self._config = config
        self._status = status
        self._host = host
        self._validate = validate

    def put_connector(
        self,
        name: str,
        config: Mapping[str, str],
        initial_state: TargetState | None,
        *,
        replace: bool,
        expected: Collection[str] | None = None,
    ) -> tuple[bool, ConnectorInfo]:
        config = {**config, "name": name} if "name" not in config else dict(config)
        self._validate(name, config)
        is_new = bool(self._ask_expecting(AskPut(name, config, initial_state, replace, expected=expected)))
        tasks = self._config.get(name).task_ids if not is_new else ()
        return is_new, ConnectorInfo(name, config, tasks, self._host.kind(config))

    def create_with_offsets(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Sequence[ConnectorOffset],
        initial_state: TargetState | None,
    ) -> tuple[ConnectorInfo, str]:
        """Gives the message REST shows too."""
        require_offsets(offsets)
        config = {**config, "name": name} if "name" not in config else dict(config)
        self._validate(name, config)
        status = str(self._ask(AskPut(name, config, initial_state, replace=False, offsets=tuple(offsets))))
        return ConnectorInfo(name, config, (), self._host.kind(config)), status

    def patch_connector(
        self, name: str, changes: Mapping[str, str | None], expected: Collection[str] | None = None
    ) -> ConnectorInfo:
        """Merge changes into the config. As Java does, a changed `name` is kept as a setting and renames nothing."""
        while True:
            base = self._config.get(name).config
            config = patched(base, changes)
            self._validate(name, config)
            try:
                self._ask_expecting(AskPut(name, config, None, replace=True, patch_of=base, expected=expected))
            except ConflictError:
                known = self._config.find(name)
                if known is not None and dict(known.config) != dict(base):
                    continue  # another request changed it while this one was checked
                raise
            return ConnectorInfo(name, config, self._config.get(name).task_ids, self._host.kind(config))

    def delete_connector(self, name: str, expected: Collection[str] | None = None) -> None:
        self._ask_expecting(AskRemove(name, expected))

    def set_target_state(self, name: str, state: TargetState) -> None:
        """Pause and resume are written by the worker that gets the request, stop by the leader."""
        if state is TargetState.STOPPED:
            self._ask(AskStop(name))
            return
        self._config.get(name, f"Unknown connector {name}")
        self._requests.carry_out(lambda: self._configs.put_target_state(name, state))

    def set_log_level(self, logger: str, level: str) -> None:
        """Set it for the whole cluster."""
        self._requests.carry_out(lambda: self._configs.put_logger_level(logger, level))

    def restart(self, subject: str | TaskId) -> None:
        """One connector, or one task, without the rest."""
        self._ask(AskRestart(subject))

    def restart_by_plan(self, name: str, *, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        entry = self._config.find(name)
        kind = self._host.kind(entry.config) if entry else ConnectorType.UNKNOWN
        status = self._status.find_connector(name, kind)
        self._ask(AskRestartByPlan(RestartRequested(name, only_failed, include_tasks)))
        if status is None:
            raise NotFoundError(f"Status for connector {name} not found")
        return restart_plan(status, include_tasks=include_tasks, only_failed=only_failed).status

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        self._requests.ask(AskTasks(name, configs))

    def fence_zombies(self, name: str) -> None:
        self._requests.ask(AskFence(name))

    def record_task_count(self, name: str, count: int, generation: int | None) -> None:
        """The leader's own request, at the end of a round of fencing for task configs of this generation.

        Errors: ConflictError when they were replaced meanwhile.
        """
        self._requests.ask(AskTaskCount(name, count, generation))

    def alter_offsets(
        self, name: str, offsets: Sequence[ConnectorOffset], expected: Collection[str] | None = None
    ) -> str:
        """Returns the message that REST shows."""
        require_offsets(offsets)
        return str(self._ask(AskOffsets(name, tuple(offsets), expected)))

    def reset_offsets(self, name: str, expected: Collection[str] | None = None) -> str:
        """Returns the message that REST shows."""
        return str(self._ask(AskOffsets(name, None, expected)))

    def _ask_expecting(self, request: AskPut | AskRemove) -> object:
        """Works as `ask`. Before another worker is asked, the config is compared here too: a leader of Java's
        does not.
        """
        try:
            return self._ask(request)
        except WrongWorkerError:
            if request.expected is not None:
                self._configs.refresh(self._timeout_s)
                known = self._config.find(request.connector)
                require_config(request.expected, request.connector, None if known is None else known.config)
            raise


class PendingRequests:
    """Futures by number. States: open -> closed. Threads: any. A late caller gets no answer, and what was not begun by
    then is not done.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = count(1)  # guarded by _lock
        self._waiting: dict[int, Future[object]] = {}  # guarded by _lock
        self._begun: set[int] = set()  # guarded by _lock
        self._elsewhere: dict[int, str] = {}  # guarded by _lock
        self._end: ConnectError | None = None  # guarded by _lock; set when closed

    def ask(
        self,
        request: Request,
        post: Callable[[Event], None],
        timeout_s: float,
        stages: ThreadStage,
        patience: ChangePatience | None = None,
    ) -> object:
        """Post the request and wait. Errors: the refusal; TimedOutError, which says what it waits for.

        `patience`: who asks does not wait for a Kafka that is silent.
        """
        with self._lock:
            if self._end is not None:
                raise self._end
            number = next(self._numbers)
            future = self._waiting[number] = Future()
        post(Asked(number, request))
        try:
            return future.result(timeout_s) if patience is None else patience.result(future, timeout_s)
        except NotYet as err:
            with self._lock:
                is_begun, summary = number in self._begun, self._elsewhere.get(number) or stages.summary()
                is_late = self._waiting.pop(number, None) is not None
            if not is_late:
                return future.result()  # the answer just arrived
            post(GivenUp(number))
            silence = None if patience is None else patience.silence()
            said = unknown_end(silence) if is_begun else _nothing_done(silence)
            raise TimedOutError(f"Request timed out. {summary} {said}") from err

    def begin(self, number: int) -> bool:
        """The herder's thread takes the request; False: who asked has given up, and heard that nothing is done."""
        with self._lock:
            if number not in self._waiting:
                return False
            self._begun.add(number)
            return True

    def tell(self, number: int, summary: str) -> None:
        """From now on a request waits for something else than the herder's thread: a sentence on it."""
        with self._lock:
            if number in self._waiting:
                self._elsewhere[number] = summary

    def give(self, number: int, value: object) -> None:
        future = self._forget(number)
        if future is not None:
            future.set_result(value)

    def fail(self, number: int, error: ConnectError) -> None:
        future = self._forget(number)
        if future is not None:
            future.set_exception(error)

    def close(self, error: ConnectError) -> None:
        """No more answers: pending and later requests get this error; the first of two errors wins."""
        with self._lock:
            self._end = self._end or error
            numbers = list(self._waiting)
        for number in numbers:
            self.fail(number, error)

    def _forget(self, number: int) -> Future[object] | None:
        with self._lock:
            self._elsewhere.pop(number, None)
            self._begun.discard(number)
            return self._waiting.pop(number, None)


def _nothing_done(silence: str | None) -> str:
    return f"{NOTHING_CHANGED}: {silence}." if silence else f"{NOTHING_CHANGED}."

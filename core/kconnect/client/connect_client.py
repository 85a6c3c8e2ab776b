"""ConnectClient: one method per endpoint of Connect's REST API."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode

from kconnect.client.access import ClientAccess
from kconnect.client.answers import (
    Sample,
    as_conditions,
    as_info,
    as_infos,
    as_message,
    as_names,
    as_object,
    as_objects,
    as_offsets_and_lag,
    as_status,
    as_statuses,
    as_task_infos,
    as_task_state,
    as_topics,
    as_workers,
    having,
    samples_of,
)
from kconnect.client.exchange import Exchange, segment
from kconnect.client.outage import Outage
from kconnect.client.patience import Patience
from kconnect.client.transport import FailoverTransport, Transport, checked_url, worker_exchange
from kconnect.clock import Clock, SystemClock
from kconnect.errors import ConnectError, NoRouteError
from kconnect.model import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStatus,
    RunState,
    SinkLag,
    TaskCondition,
    TaskId,
    TaskInfo,
    TaskState,
    offsets_from_json,
    offsets_to_json,
)

# A worker gives up after 90 s (kconnect.request.timeout.ms, as Java's REST request timeout); a little longer, so that
# we show its answer
REQUEST_TIMEOUT_S = 95.0
# Enough for one lost SYN (1 s) and its repetition
_CONNECT_TIMEOUT_S = 3.0


class ConnectClient:
    """Talks to one worker, or to whichever of several answers. Threads: used by one thread at a time.

    `url`: that of a worker, or those of several of one cluster; `FailoverTransport` has the rules.

    Errors of every method: UnreachableError, TimedOutError, NotFoundError, AlreadyExistsError, ConflictError (409),
    BadRequestError (400), ConnectError for anything else, with the worker's own message.
    `timeout_s`: how long an answer may take; `patience`: less for a read, for who would rather be informed than wait;
    then `tell` gets what a change is waiting for. `retry_conflicts_s`: how long to retry during a rebalance (409); 0
    disables retries. `access`: credentials and certificates. `transport`: replaces the network, for tests.
    """

    def __init__(
        self,
        url: str | Sequence[str] = "http://localhost:8083",
        *,
        timeout_s: float = REQUEST_TIMEOUT_S,
        patience: Patience | None = None,
        tell: Callable[[str], None] | None = None,
        connect_timeout_s: float = _CONNECT_TIMEOUT_S,
        retry_conflicts_s: float = 0.0,
        clock: Clock | None = None,
        access: ClientAccess | None = None,
        transport: Transport | None = None,
    ) -> None:
        urls = list(dict.fromkeys(checked_url(one) for one in ([url] if isinstance(url, str) else url)))
        access = access or ClientAccess()
        carriers = {
            one: worker_exchange(
                one, access.tls, timeout_s=timeout_s, connect_timeout_s=connect_timeout_s, certificate=access.cert
            )
            for one in urls
        }
        self._carriers = tuple(carriers.values())
        self._first_url = urls[0]
        is_plain = len(urls) == 1 and patience is None
        self._failover = None if transport is not None or is_plain else FailoverTransport(carriers, patience, tell)
        self._exchange = Exchange(
            lambda: self.url,
            access,
            transport or self._failover or carriers[urls[0]],
            retry_conflicts_s=retry_conflicts_s,
            clock=clock or SystemClock(),
        )

    @property
    def outage(self) -> Outage | None:
        """Kafka does not answer the worker, according to its last answer. Java's workers do not report that."""
        return self._exchange.outage

    @property
    def url(self) -> str:
        """The worker that answered last; before any answer the first one."""
        return self._first_url if self._failover is None else self._failover.url

    def server_info(self) -> dict[str, Any]:
        """`GET /`: version, commit, kafka_cluster_id."""
        return self._exchange.read("GET", "/", having("version"))

    def webhooks(self) -> list[dict[str, Any]]:
        """`GET /admin/webhooks`: whether the worker's webhooks are delivered; none of Java's workers has it."""
        return self._exchange.read("GET", "/admin/webhooks", as_objects)

    def dead_letter_place(self, name: str) -> dict[str, Any]:
        """The `connector` and the `topic` (null: none) of its dead letters; ForbiddenError for who may not read these.

        NotFoundError from Java's workers, and where only admin listeners serve /admin.
        """
        return self._exchange.read("GET", f"/admin{_path(name, 'dead-letters')}", as_object)

    def announce_replay(self, name: str, targets: Mapping[str, int], *, edited: bool = False) -> None:
        """Tell the worker's audit log that we replay dead letters now; ForbiddenError for who may not.

        `targets`: how many dead letters go to which topics. `edited`: their records are changed on the way.
        """
        body: dict[str, Any] = {"targets": dict(targets), **({"edited": True} if edited else {})}
        self._exchange.read_if_any("POST", f"/admin{_path(name, 'dead-letters', 'replays')}", as_object, body)

    def health(self) -> dict[str, Any]:
        """`GET /health`: status (healthy, starting, unhealthy) and message; never an error while the worker answers."""
        return self._exchange.read_at((500, 503), "GET", "/health", as_object)

    def connectors(self) -> list[str]:
        """Names of all connectors."""
        return self._exchange.read("GET", "/connectors", as_names)

    def connector_statuses(self) -> dict[str, ConnectorStatus]:
        """Statuses of all connectors in one request; with the conditions of tasks if the workers report them."""
        return self._exchange.read("GET", "/connectors?expand=status&condition=true", as_statuses)

    def connector_infos(self) -> dict[str, ConnectorInfo]:
        """Configs and task ids of all connectors in one request."""
        return self._exchange.read("GET", "/connectors?expand=info", as_infos)

    def connector(self, name: str) -> ConnectorInfo:
        """Config and task ids of one connector."""
        return self._exchange.read("GET", _path(name), as_info)

    def tagged_connector(self, name: str) -> tuple[ConnectorInfo, str | None]:
        """Works as `connector`, with the ETag of its config, as of `tagged_config`."""
        return self._exchange.read_tagged(_path(name), as_info)

    def connector_config(self, name: str) -> dict[str, str]:
        """Config of one connector."""
        return self._exchange.read("GET", _path(name, "config"), as_object)

    def tagged_config(self, name: str) -> tuple[dict[str, str], str | None]:
        """Config of one connector, and its ETag for the `if_match` of a change; None from Java's workers."""
        return self._exchange.read_tagged(_path(name, "config"), as_object)

    def connector_status(self, name: str) -> ConnectorStatus:
        """The status of a connector and its tasks; conditions as in `connector_statuses`."""
        return self._exchange.read("GET", _path(name, "status") + "?condition=true", as_status)

    def create_connector(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        initial_state: str | None = None,
        offsets: Sequence[ConnectorOffset] | None = None,
    ) -> ConnectorInfo:
        """Create a connector, RUNNING unless `initial_state` is PAUSED or STOPPED. Errors: AlreadyExistsError.

        `offsets`: where its tasks start (KIP-995); Java's workers up to 4.3 refuse them.
        """
        body: dict[str, Any] = {"name": name, "config": dict(config)}
        if initial_state is not None:
            body["initial_state"] = initial_state
        if offsets is not None:
            body["offsets"] = [item.to_json() for item in offsets]
        return self._exchange.read("POST", "/connectors", as_info, body)

    def put_connector_config(
        self, name: str, config: Mapping[str, str], *, if_match: str | None = None
    ) -> ConnectorInfo:
        """Create a connector, or replace its config.

        `if_match`, here and below: an ETag; the change is refused if the connector's is another one. Java's workers do
        not look at it. Errors: PreconditionFailedError.
        """
        return self._exchange.read("PUT", _path(name, "config"), as_info, dict(config), if_match)

    def patch_config(
        self, name: str, changes: Mapping[str, str | None], *, if_match: str | None = None
    ) -> ConnectorInfo:
        """Change some settings of a connector; None removes one. Returns the changed connector.

        A worker before 3.8 (KIP-477) is sent the whole config, read a moment before.
        """
        try:
            return self._exchange.read("PATCH", _path(name, "config"), as_info, dict(changes), if_match)
        except NoRouteError:
            merged = {**self.connector_config(name), **changes}
        return self.put_connector_config(name, {key: text for key, text in merged.items() if text is not None})

    def delete_connector(self, name: str, *, if_match: str | None = None) -> None:
        """Stop a connector and forget its config; its offsets stay."""
        self._exchange.do("DELETE", _path(name), if_match)

    def pause_connector(self, name: str) -> None:
        """Tasks stay where they are and idle. Returns before they have paused."""
        self._exchange.do("PUT", _path(name, "pause"))

    def resume_connector(self, name: str) -> None:
        """Run a paused or stopped connector. Returns before its tasks run."""
        self._exchange.do("PUT", _path(name, "resume"))

    def stop_connector(self, name: str) -> None:
        """Stop all tasks; the config is kept."""
        self._exchange.do("PUT", _path(name, "stop"))

    def restart_connector(
        self, name: str, *, include_tasks: bool = False, only_failed: bool = False
    ) -> ConnectorStatus | None:
        """Restart a connector; with one of the flags by a plan, whose status is returned.

        A worker before 3.0 (KIP-745) restarts the connector whatever the flags; we then ask it for each task.
        """
        path = _path(name, "restart")
        if not (include_tasks or only_failed):
            self._exchange.do("POST", path)
            return None
        flags = f"?includeTasks={str(include_tasks).lower()}&onlyFailed={str(only_failed).lower()}"
        planned = self._exchange.read_if_any("POST", path + flags, as_status)
        return planned if planned is not None else self._restarted_by_task(name, include_tasks, only_failed)

    def _restarted_by_task(self, name: str, include_tasks: bool, only_failed: bool) -> ConnectorStatus:
        """The status after the connector was restarted, and each task that the flags mean."""
        status, tasks = self.connector_status(name), []
        for task in status.tasks:
            is_meant = include_tasks and (task.state is RunState.FAILED or not only_failed)
            if is_meant:
                self.restart_task(TaskId(name, task.id))
            tasks.append(replace(task, state=RunState.RESTARTING) if is_meant else task)
        return replace(status, connector=replace(status.connector, state=RunState.RESTARTING), tasks=tuple(tasks))

    def topics(self, name: str) -> list[str]:
        """Topics a connector was seen to use. Errors: ConnectError when the worker does not track them."""
        return self._exchange.read("GET", _path(name, "topics"), lambda body: as_topics(body, name))

    def reset_topics(self, name: str) -> None:
        """Forget the topics a connector was seen to use. Errors: ConnectError when the worker does not allow it."""
        self._exchange.do("PUT", _path(name, "topics", "reset"))

    def tasks(self, name: str) -> list[TaskInfo]:
        """Tasks of a connector with their configs."""
        return self._exchange.read("GET", _path(name, "tasks"), as_task_infos)

    def task_status(self, task: TaskId) -> TaskState:
        """The status of one task, with its condition if the worker reports it."""
        path = _path(task.connector, "tasks", str(task.task), "status")
        return self._exchange.read("GET", f"{path}?condition=true", as_task_state)

    def restart_task(self, task: TaskId) -> None:
        """Restart one task."""
        self._exchange.do("POST", _path(task.connector, "tasks", str(task.task), "restart"))

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> None:
        """Between the workers of a cluster: sends the task configs of a connector to the leader."""
        self._exchange.read_if_any("POST", _path(name, "tasks"), lambda _answer: None, [dict(one) for one in configs])

    def connector_offsets(self, name: str) -> list[ConnectorOffset]:
        """Committed offsets of a connector."""
        return self._exchange.read("GET", _path(name, "offsets"), offsets_from_json)

    def tagged_offsets(self, name: str) -> tuple[list[ConnectorOffset], str | None]:
        """Committed offsets of a connector, and their ETag, as of `tagged_config`."""
        return self._exchange.read_tagged(_path(name, "offsets"), offsets_from_json)

    def offsets_and_lag(self, name: str) -> tuple[list[ConnectorOffset], SinkLag | None]:
        """Committed offsets, and how far a sink is behind: None for a source, and from workers of Java."""
        return self._exchange.read("GET", f"{_path(name, 'offsets')}?lag=true", as_offsets_and_lag)

    def alter_connector_offsets(
        self,
        name: str,
        offsets: Sequence[ConnectorOffset],
        *,
        if_match: str | None = None,
        action: str | None = None,
    ) -> str:
        """Set offsets of a STOPPED connector; offset None resets that partition. Returns the worker's message.

        `action`: what the cluster's history calls it; Java's workers do not look at it.
        """
        path = _path(name, "offsets") + ("" if action is None else f"?{urlencode({'action': action})}")
        return self._exchange.read("PATCH", path, as_message, offsets_to_json(offsets), if_match)

    def reset_connector_offsets(self, name: str, *, if_match: str | None = None) -> str:
        """Reset all offsets of a STOPPED connector. Returns the worker's message."""
        return self._exchange.read("DELETE", _path(name, "offsets"), as_message, None, if_match)

    def plugins(self, *, connectors_only: bool = True, locations: bool = False) -> list[dict[str, Any]]:
        """Plugins of the worker: class, type, version; `locations`: their folders, which only ours tell."""
        wanted = [*([] if connectors_only else ["connectorsOnly=false"]), *(["locations=true"] if locations else [])]
        query = f"?{'&'.join(wanted)}" if wanted else ""
        return self._exchange.read("GET", f"/connector-plugins{query}", as_objects)

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        """Settings of one plugin of any type: name, type, required, default_value, importance, documentation, .."""
        query = f"?version={quote(version, safe='')}" if version is not None else ""
        return self._exchange.read("GET", f"/connector-plugins/{segment(plugin)}/config{query}", as_objects)

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> dict[str, Any]:
        """A worker's validation of a connector's config, without creating it.

        Shape: name, error_count, groups, configs: [{definition, value: {name, value, recommended_values, errors,
        visible}}, ..].
        """
        return self._exchange.read(
            "PUT", f"/connector-plugins/{segment(plugin)}/config/validate", having("configs"), dict(config)
        )

    def cluster(self) -> dict[str, Any]:
        """The workers' group as the broker knows it; NotFoundError from a worker that does not ask, such as Java's."""
        return self._exchange.read("GET", "/admin/cluster", having("members"))

    def doctor(self) -> dict[str, Any]:
        """What is wrong with the cluster's topics, which the worker reads; NotFoundError from Java's workers.

        Shape: that of `connect topics doctor -o json`.
        """
        return self._exchange.read("GET", "/admin/doctor", having("findings"))

    def records(self, topic: str, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """Records of a topic that the worker reads and decodes; NotFoundError from Java's workers.

        `query`: the parameters of `/admin/topics/{topic}/records`. Shape: records, notes, positions, untested,
        first_untested.
        """
        return self._exchange.read(
            "GET", f"/admin/topics/{segment(topic)}/records?{urlencode(query)}", having("records")
        )

    def dead_letters(self, name: str, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
        """Dead letters of a connector that the worker reads. Shape: summary, notes; or topic, letters, more, notes."""
        path = f"/admin{_path(name, 'dead-letters', 'letters')}?{urlencode(query)}"
        return self._exchange.read("GET", path, having("notes"))

    def replay(
        self, name: str, query: Sequence[tuple[str, str]], how: Mapping[str, Any], *, plan: bool = False
    ) -> dict[str, Any]:
        """Dead letters that the worker sends again, or with `plan` only shows. Shape: outcomes, targets, why, more.

        `how`: the body of `/admin/connectors/{name}/dead-letters/replay`; of a plan also ends, warnings, shown.
        """
        path = f"/admin{_path(name, 'dead-letters', 'replay', *(['plan'] if plan else []))}?{urlencode(query)}"
        return self._exchange.read("POST", path, as_object, dict(how))

    def config_versions(self, name: str) -> list[dict[str, Any]]:
        """The configs that a connector has had, the newest first, as the worker reads them; NotFoundError from Java's.

        Shape: that of `connect config history -o json`.
        """
        return self._exchange.read("GET", f"/admin{_path(name, 'config', 'versions')}", as_objects)

    def config_difference(self, name: str, version: int | None, other: int | None) -> dict[str, Any]:
        """From a version, None for the previous, to another, None for the current. Shape: `config diff -o json`."""
        given = {key: str(value) for key, value in (("from", version), ("to", other)) if value is not None}
        path = f"/admin{_path(name, 'config', 'diff')}?{urlencode(given)}"
        return self._exchange.read("GET", path, having("settings"))

    def plan_config_rollback(self, name: str, version: int | None) -> dict[str, Any]:
        """What a rollback would change; the worker has checked that config. Shape: that of `config_difference`."""
        path = f"/admin{_path(name, 'config', 'rollback', 'plan')}"
        return self._exchange.read("POST", path, having("settings"), {} if version is None else {"version": version})

    def roll_back_config(self, name: str, version: int, *, if_match: str | None = None) -> ConnectorInfo:
        """Give a connector the config of a version again, with its secrets, which the worker has."""
        path = f"/admin{_path(name, 'config', 'rollback')}"
        return self._exchange.read("POST", path, as_info, {"version": version}, if_match)

    def changes(self, name: str) -> list[dict[str, Any]] | None:
        """Who changed a connector's config and offsets, the oldest change first; None from a worker that keeps none.

        Shape: time_ms, kind, action, user, from, place; of offsets `offsets`, of a config `before` and `after`, masked.
        """
        try:
            body = self._exchange.read("GET", f"/admin{_path(name, 'changes')}", having("topic", "changes"))
        except NoRouteError:  # Java's, and where none is kept
            return None
        return None if body["topic"] is None else as_objects(body["changes"])

    def offsets_at(self, name: str, target: Mapping[str, Any]) -> list[ConnectorOffset]:
        """Where a connector's partitions are at a target, such as {"to_time": ms}; changes nothing."""
        return self._exchange.read("POST", f"/admin{_path(name, 'offsets', 'target')}", offsets_from_json, dict(target))

    def conditions(self) -> dict[str | TaskId, TaskCondition]:
        """Conditions of the tasks this worker runs, and of connectors that give no task configs, by their names.

        Errors: NotFoundError from a worker without them, such as Java's.
        """
        return self._exchange.read("GET", "/conditions?connectors=true", as_conditions)

    def slots(self) -> list[dict[str, Any]]:
        """The slots that run tasks; NotFoundError from a worker that has no slots, such as Java's."""
        return self._exchange.read("GET", "/admin/slots", as_objects)

    def workers(self) -> list[dict[str, Any]]:
        """The workers of the cluster: worker, answers, is_leader, slots, rebalances; NotFoundError from Java's."""
        return self._exchange.read("GET", "/admin/workers", as_workers)

    def history(self, connector: str | None = None, *, slots: bool = False, cluster: bool = False) -> dict[str, Any]:
        """What a worker's tasks did over the last hour; NotFoundError from a worker without it, such as Java's.

        `cluster`: of all workers that answer it, added up. `slots`: of these only.

        Shape: of one connector every_ms, times, tasks: [{connector, task, series, mbeans}], slots: [{slot, series}];
        without one every_ms, times, connectors: {name: {records_per_s, now_per_s, lag, errors, restarts}}.
        """
        what = f"connector={quote(connector, safe='')}" if connector is not None else f"slots={str(slots).lower()}"
        return self._exchange.read("GET", f"/admin/history?{what}&cluster={str(cluster).lower()}", as_object)

    def logs(self, **query: str | int | None) -> dict[str, Any]:
        """The last lines of a worker's log; NotFoundError from a worker that keeps none, such as Java's.

        `query`: connector, level, since (epoch ms), limit; after (`last` of an earlier answer), wait_ms (to wait for a
        line behind it). Shape: worker, last, missed, lines: [{number, time_ms, level, logger, connector, task, text,
        ..}]; with `cluster` also silent: the workers that gave none.
        """
        given = {key: str(value) for key, value in query.items() if value is not None}
        return self._exchange.read("GET", f"/admin/logs?{urlencode(given)}", having("lines"))

    def metrics(self, names: Collection[str]) -> list[Sample]:
        """Samples of these metrics of this worker's tasks; NotFoundError from a worker without them, such as Java's."""
        return list(samples_of(self._exchange.read_text("/metrics", "text/plain"), names))

    def rebalances(self) -> list[dict[str, Any]]:
        """The worker's last rebalances; NotFoundError from one that keeps none, such as Java's."""
        return self._exchange.read("GET", "/admin/rebalances", as_objects)

    def herder_trace(self, since: int | None = None) -> dict[str, Any]:
        """The last events and decisions of a worker's herder; `since`: only entries after this one.

        Errors: NotFoundError from a worker that keeps none: a standalone one, or Java's.
        """
        return self._exchange.read("GET", f"/admin/herder-trace{'' if since is None else f'?since={since}'}", as_object)

    def loggers(self) -> dict[str, dict[str, Any]]:
        """Loggers of the worker that have their own level: name -> level, last_modified (epoch ms or None)."""
        return self._exchange.read("GET", "/admin/loggers", as_object)

    def logger(self, name: str) -> dict[str, Any]:
        """One logger: level, last_modified."""
        return self._exchange.read("GET", f"/admin/loggers/{segment(name)}", as_object)

    def set_logger(self, name: str, level: str, *, scope: str | None = None) -> list[str]:
        """Set the level of a logger and of those below it; returns their names.

        `scope`: "worker" (the default), or "cluster", which returns an empty list. Errors: ConnectError from a worker
        before 3.7 (KIP-976), which does not look at it.
        """
        query = f"?scope={quote(scope, safe='')}" if scope is not None else ""
        path = f"/admin/loggers/{segment(name)}{query}"
        changed = self._exchange.read_if_any("PUT", path, as_names, {"level": level})
        if changed is not None and scope == "cluster":
            raise ConnectError(
                f"Only {self.url} logs {name} at {level}: it has no scope=cluster, which came with 3.7 (KIP-976)",
                hint="Ask each worker: --url.",
            )
        return changed or []

    def close(self) -> None:
        """Close connections. The client may be used again."""
        self._exchange.close()

    def abort(self) -> None:
        """A request that waits for its answer fails at once, and so do all later ones. Threads: any."""
        for carrier in self._carriers:
            carrier.abort()

    def __enter__(self) -> ConnectClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _path(name: str, *rest: str) -> str:
    """Path below a connector."""
    return "/".join(("/connectors", segment(name), *rest))

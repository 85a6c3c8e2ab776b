"""What a worker of ours reads from its Kafka for a command that names its URL alone, without a worker's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kconnect.errors import ConnectError, NoRouteError, UnreachableError
from kconnect_cli.durations import seconds_of
from kconnect_cli.options.cluster import DEFAULT_TIMEOUT, ClusterOptions, cluster_of
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.client import ConnectClient
    from kconnect.model import ConnectorOffset

T = TypeVar("T")

_BY_FILE = "--worker FILE or --bootstrap-servers asks Kafka itself."
# Of what lies in topics, or is said of a group, whose names brokers alone do not tell
_BY_NAMES = "--worker FILE asks Kafka itself."
# A worker's answer ends by itself after 20 s, and is on its way a moment longer
_ANSWER_S = 25.0


def asks_worker(session: CliSession) -> bool:
    """Whether nothing says where Kafka is, so that a worker is asked for what is in it."""
    return session.direct is None and not cluster_of(session).is_given


class AskedWorker:
    """The worker of the call. Threads: one. A context manager.

    Errors of all methods: UnreachableError, and NotFoundError of a worker that does not read Kafka for others, as
    Java's, both with what to give instead; those of the worker.
    """

    def __init__(self, session: CliSession) -> None:
        self._session = session
        options = cluster_of(session) or ClusterOptions()
        self._limit_s = max(_ANSWER_S, seconds_of(options.timeout or DEFAULT_TIMEOUT, "--timeout"))
        self._client: ConnectClient | None = None

    def __enter__(self) -> AskedWorker:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()

    def cluster(self) -> dict[str, Any]:
        """The document of `connect cluster show`."""
        return self._asked(lambda client: client.cluster(), _BY_NAMES)

    def doctor(self) -> dict[str, Any]:
        """The document of `connect topics doctor`."""
        return self._asked(lambda client: client.doctor(), _BY_NAMES)

    def config_versions(self, name: str) -> list[dict[str, Any]]:
        """The rows of `connect config history`."""
        return self._asked(lambda client: client.config_versions(name), _BY_NAMES)

    def config_difference(self, name: str, version: int | None, other: int | None) -> dict[str, Any]:
        """The document of `connect config diff`."""
        return self._asked(lambda client: client.config_difference(name, version, other), _BY_NAMES)

    def planned_rollback(self, name: str, version: int | None) -> dict[str, Any]:
        """The same, from the current config to that of a version."""
        return self._asked(lambda client: client.plan_config_rollback(name, version), _BY_NAMES)

    def roll_back(self, name: str, version: int, tag: str | None) -> None:
        self._asked(lambda client: client.roll_back_config(name, version, if_match=tag), _BY_NAMES)

    def records(self, topic: str, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
        return self._noted(self._asked(lambda client: client.records(topic, query)))

    def letters(self, name: str, query: Sequence[tuple[str, str]]) -> dict[str, Any]:
        return self._noted(self._asked(lambda client: client.dead_letters(name, query)))

    def replay(
        self, name: str, query: Sequence[tuple[str, str]], how: Mapping[str, Any], *, plan: bool = False
    ) -> dict[str, Any]:
        return self._noted(self._asked(lambda client: client.replay(name, query, how, plan=plan)))

    def offsets_at(self, name: str, target: Mapping[str, Any]) -> list[ConnectorOffset]:
        return self._asked(lambda client: client.offsets_at(name, target))

    def _noted(self, body: dict[str, Any]) -> dict[str, Any]:
        for note in body.get("notes", ()):
            self._session.say(note)
        return body

    def _asked(self, ask: Callable[[ConnectClient], T], instead: str = _BY_FILE) -> T:
        try:
            return ask(self._connected())
        except NoRouteError as err:
            raise ConnectError(
                f"The worker at {self._session.url} does not read Kafka for others: it is one of Java's, an older "
                "one, or has kconnect.rest.records.enable=false",
                hint=instead,
            ) from err
        except UnreachableError as err:
            err.hint = f"{err.hint} {instead}" if err.hint else instead
            raise

    def _connected(self) -> ConnectClient:
        """A client of a worker that answers now: one that is frozen would be waited for as long as for the topics."""
        if self._client is None:
            urls = self._session.target.urls
            with self._session.client_of(urls) as quick:
                quick.health()
                urls = (quick.url, *urls)
            self._client = self._session.client_of(urls, limit_s=self._limit_s, setting="--timeout")
        return self._client

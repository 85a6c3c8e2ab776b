"""Workers of one cluster that speak to each other over real sockets: forwarding, TLS, users, and what goes wrong."""

from __future__ import annotations

import base64
import json
import logging
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.client.http_exchange import Request
from kconnect.client.peers import Peers
from kconnect.clock import SystemClock
from kconnect.errors import ForbiddenError, UnreachableError, WrongWorkerError
from kconnect.model import Condition, TaskCondition, TaskId
from kconnect.runtime.herder.cluster.group_status import RestLeader
from kconnect.runtime.herder.decisions.mismatches import utc_time
from kconnect.runtime.rest import AppSettings, RestOptions, RestServer
from kconnect.runtime.rest.jaas import Login
from kconnect.runtime.rest.tls import peer_context
from kconnect.runtime.storage.session_key import SessionKey
from kit.certificates import Authority
from kit.memory_herder import MemoryHerder, file_source
from kit.pace import now
from kit.rest_cluster import ClusterWorker, RestCluster, https_options, rest_cluster
from kit.rest_replay import ask
from kit.waiting import eventually

JSON = {"Content-Type": "application/json"}
TWO_HOPS = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
SETTINGS = {"bootstrap.servers": "localhost:9092"}


@pytest.fixture
def cluster() -> Iterator[RestCluster]:
    with rest_cluster(SETTINGS) as made:
        yield made


def _put(worker: ClusterWorker, name: str, *, headers: dict[str, str] | None = None) -> tuple[int, dict[str, object]]:
    sent = {**JSON, **(headers or {})}
    status, _, body = ask(worker.url, "PUT", f"/connectors/{name}/config", json.dumps(file_source()), sent)
    return status, json.loads(body)


def test_tasks_of_a_followers_connector_go_to_the_leader_signed(
    cluster: RestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    leader, follower = cluster.add("a:1"), cluster.add("b:2")
    for number in range(4):
        assert _put(follower, f"c{number}")[0] == 201
    eventually(lambda: _worker_ids(leader, 4) == {"a:1", "b:2"}, 10, "the follower's tasks are there")
    key = leader.herder.session_key
    assert key is not None
    assert base64.b64encode(key.key).decode() not in caplog.text
    assert str(key.key) not in caplog.text


@pytest.mark.parametrize(
    ("settings", "is_signed"),
    [
        (
            {"inter.worker.signature.algorithm": "HmacSHA512", "inter.worker.verification.algorithms": "HmacSHA512"},
            True,
        ),
        ({"connect.protocol": "compatible"}, False),
        ({"connect.protocol": "eager"}, False),
    ],
)
def test_workers_sign_as_their_settings_say(settings: dict[str, str], is_signed: bool) -> None:
    with rest_cluster({**SETTINGS, **settings}) as cluster:
        leader, follower = cluster.add("a:1"), cluster.add("b:2")
        for number in range(4):
            assert _put(follower, f"c{number}")[0] == 201
        eventually(lambda: _worker_ids(leader, 4) == {"a:1", "b:2"}, 10, "the follower's tasks are there")
        assert (leader.herder.session_key is not None) == is_signed
        status, _, _ = ask(follower.url, "POST", "/connectors/c0/tasks", "[]", JSON)
        assert status == (400 if is_signed else 204), "without a signature"


def _worker_ids(leader: ClusterWorker, connectors: int) -> set[str]:
    """Who runs them, once each has its task."""
    names = leader.herder.connectors()
    if len(names) < connectors or any(not leader.herder.connector_info(name).tasks for name in names):
        return set()
    return {leader.herder.connector_status(name).connector.worker_id for name in names}


def test_a_task_is_restarted_over_the_leader_on_the_worker_that_has_it(cluster: RestCluster) -> None:
    """Two hops: the worker that is asked, the leader, the owner."""
    workers = [cluster.add(f"{name}:1") for name in "abc"]
    for number in range(6):
        assert _put(workers[0], f"c{number}")[0] == 201
    tasks = [TaskId(f"c{number}", 0) for number in range(6)]
    _await_tasks(cluster, 6)
    asked, owner = workers[1], workers[2]
    task = next(task for task in tasks if _owner(workers, task) is owner)
    before = owner.launcher.tasks[task]
    status, _, body = ask(asked.url, "POST", f"/connectors/{task.connector}/tasks/0/restart", None, {})
    assert (status, body) == (204, "")
    assert owner.launcher.tasks[task] is not before
    one_hop = f"/connectors/{task.connector}/tasks/0/restart?forward=true"
    status, _, body = ask(asked.url, "POST", one_hop, None, {})
    assert (status, json.loads(body)["message"]) == (409, TWO_HOPS)


def _owner(workers: list[ClusterWorker], task: TaskId) -> ClusterWorker | None:
    return next((worker for worker in workers if task in worker.launcher.tasks), None)


def test_a_leader_that_can_not_be_reached_is_reported_with_its_url_and_the_settings_of_it(cluster: RestCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    cluster.add("a:1", url=nobody)
    status, body = _put(cluster.add("b:2"), "c")
    assert (status, body["error_code"]) == (500, 500)
    assert str(body["message"]).startswith("IO Error trying to forward REST request: Nobody answers at " + nobody)
    assert "rest.advertised.host.name" in str(body["message"])


def test_a_leader_that_was_reached_before_has_probably_ended_and_its_address_is_not_blamed(
    cluster: RestCluster,
) -> None:
    leader, follower = cluster.add("a:1"), cluster.add("b:2")
    assert _put(follower, "c")[0] == 201
    leader.server.stop(10.0)  # as one that was killed: its group still lists it
    status, body = _put(follower, "d")
    message = str(body["message"])
    assert (status, message.startswith(f"IO Error trying to forward REST request: Nobody answers at {leader.url}")) == (
        500,
        True,
    )
    assert message.endswith(
        "If it has ended, its group takes it out once its session is over (session.timeout.ms of the workers), and "
        "requests go to another worker."
    )


def test_task_configs_for_a_leader_that_can_not_be_reached_name_its_url_and_settings(
    cluster: RestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """A follower hands them on by itself: nobody gets an answer that could tell."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    leader = cluster.add("a:1", url=nobody)
    cluster.add("b:2")
    for number in range(2):
        assert _put(leader, f"c{number}")[0] == 201
    reported = re.compile(
        rf"The leader did not accept the task configs of connector c[01]: Nobody answers at {nobody} "
    )
    eventually(lambda: reported.search(caplog.text), 10, "it is reported")
    assert "rest.advertised.host.name, rest.advertised.port and rest.advertised.listener" in caplog.text


def test_a_signature_that_the_leader_refuses_is_reported_with_the_key_and_both_clocks(
    cluster: RestCluster, caplog: pytest.LogCaptureFixture
) -> None:
    leader = cluster.add("a:1")
    assert _put(leader, "c")[0] == 201
    eventually(lambda: leader.herder.session_key, 10, "there is a key")
    mine = SessionKey(bytes(32), "HmacSHA256", 1_700_000_000_000)
    peers = Peers(peer_context({}), 5.0)
    for _ in range(2):
        with pytest.raises(ForbiddenError) as err:
            RestLeader(peers, clock=_Clock()).put_task_configs(leader.url, "c", [{}], mine)
    peers.close()
    reported = str(err.value)
    assert reported.startswith(
        "Internal request contained invalid signature. This worker signed POST /connectors/c/tasks"
    )
    assert f"to {leader.url.rstrip('/')} with the session key made at 2023-11-14 22:13:20.000Z" in reported
    assert f"here it is 2023-11-14 22:13:50.000Z, at {leader.url.rstrip('/')} it is 20" in reported
    key = leader.herder.session_key
    assert key is not None
    assert caplog.text.count(f"not signed with the session key made at {utc_time(key.created_ms)}; here it is") == 1


class _Clock(SystemClock):
    def time_ms(self) -> int:
        return 1_700_000_030_000


@pytest.mark.parametrize("url", ["ftp://leader:8083", "http://", "http://leader:port"])
def test_a_leader_with_an_url_that_is_none_is_reported(cluster: RestCluster, url: str) -> None:
    cluster.add("a:1", url=url)
    status, body = _put(cluster.add("b:2"), "c")
    assert status == 500
    assert "is not the URL of a worker" in str(body["message"])


def test_a_worker_that_is_sent_to_itself_again_and_again_stops_after_two_hops() -> None:
    """As when all workers give the same address as their own. The herder is one that knows no leader but this URL."""
    herder = MemoryHerder()
    with RestServer(herder, ["http://127.0.0.1:0"]) as server:
        herder.failures["delete_connector"] = WrongWorkerError("Only the leader ..", server.urls[0] + "/")
        status, _, body = ask(server.urls[0], "DELETE", "/connectors/c", None, {})
    assert (status, json.loads(body)["message"]) == (409, TWO_HOPS)
    assert [call[0] for call in herder.calls].count("delete_connector") == 3


def test_the_user_goes_along(cluster: RestCluster) -> None:
    options = RestOptions(login=Login([("required", {"ana": "secret"})]))
    leader, follower = cluster.add("a:1", options=options), cluster.add("b:2", options=options)
    assert _put(follower, "c")[0] == 401
    ana = {"Authorization": "Basic " + base64.b64encode(b"ana:secret").decode()}
    assert _put(follower, "c", headers=ana)[0] == 201
    assert leader.herder.connectors() == ["c"]


@pytest.mark.parametrize("trusts", [True, False])
def test_over_https_the_workers_own_stores_count(tmp_path: Path, trusts: bool) -> None:
    authority, other = Authority(), Authority("another authority")
    store = authority.sign("worker").pem_file(tmp_path / "worker.pem")
    anchors = (authority if trusts else other).file(tmp_path / "trust.pem")
    settings = {
        **SETTINGS,
        "listeners.https.ssl.keystore.location": str(store),
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.truststore.location": str(anchors),
        "listeners.https.ssl.truststore.type": "PEM",
    }
    with rest_cluster(settings) as cluster:
        leader = cluster.add("a:1", options=https_options(settings))
        plain = https_options(settings)
        follower = cluster.add("b:2", options=RestOptions(peer_tls=plain.peer_tls))
        status, body = _put(follower, "c")
        assert leader.url.startswith("https:")
        if trusts:
            assert (status, leader.herder.connectors()) == (201, ["c"])
        else:
            assert status == 500
            assert "shows a certificate that is not trusted" in str(body["message"])


def test_a_leader_that_does_not_answer_costs_no_more_than_the_deadline_and_no_thread() -> None:
    """The herder is one that only knows who has to do it: there is no other way to a leader that hangs."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/"
        herder = MemoryHerder()
        herder.failures["put_connector"] = WrongWorkerError("Only the leader can set connector configs.", url)
        server = RestServer(herder, ["http://127.0.0.1:0"], AppSettings(request_timeout_s=0.3))
        with server:
            status, _, body = ask(server.urls[0], "PUT", "/connectors/c/config", json.dumps(file_source()), JSON)
            assert status == 500
            assert url.rstrip("/") in body
            assert "kconnect.request.timeout.ms" in body
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("forward")]


def test_a_worker_that_stops_breaks_off_what_it_forwards() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/"
        herder = MemoryHerder()
        herder.failures["put_connector"] = WrongWorkerError("Only the leader can set connector configs.", url)
        server = RestServer(herder, ["http://127.0.0.1:0"], AppSettings(request_timeout_s=600))
        server.start()
        answers: list[int] = []
        body = json.dumps(file_source())
        asker = threading.Thread(
            target=lambda: answers.append(ask(server.urls[0], "PUT", "/connectors/c/config", body, JSON)[0])
        )
        asker.start()
        connection, _ = mute.accept()
        server.stop(2.0)
        asker.join(10)
        connection.close()
    assert answers
    assert answers[0] in (500, 503)
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("forward")]


def test_requests_after_the_end_are_refused() -> None:
    peers = Peers(peer_context({}), 1.0)
    peers.close()
    with pytest.raises(UnreachableError, match="is stopping"):
        peers.send("http://127.0.0.1:1", Request("GET", "/"))


# --- how tasks fare that other workers run ---

_DEGRADED = TaskCondition(Condition.RETRYING, 1_700_000_000_000, 12, "Lines.poll() raised X: no route")


def _conditions(worker: ClusterWorker, headers: dict[str, str] | None = None) -> dict[str, str]:
    """Worker of each task -> its condition."""
    status, _, body = ask(worker.url, "GET", "/connectors?expand=status&condition=true", None, headers or {})
    assert status == 200
    tasks = [task for found in json.loads(body).values() for task in found["status"]["tasks"]]
    return {task["worker_id"]: task.get("condition", {}).get("name", "unknown") for task in tasks}


def _degraded_tasks(cluster: RestCluster, count: int = 4) -> None:
    """Connectors whose tasks are on all workers; each worker knows of its own that they are retrying."""
    for number in range(count):
        assert _put(cluster.workers[0], f"c{number}")[0] == 201
    _await_tasks(cluster, count)
    for worker in cluster.workers:
        worker.launcher.conditions.update(dict.fromkeys(worker.launcher.tasks, _DEGRADED))


def _await_tasks(cluster: RestCluster, count: int) -> None:
    """Until each worker runs its share: a task that came to a worker later would have no condition there."""

    def spread() -> bool:
        run = [len(worker.launcher.tasks) for worker in cluster.workers]
        return sum(run) == count and max(run) - min(run) <= 1

    eventually(spread, 20, f"{count} tasks are spread over all workers")


def test_any_worker_tells_how_the_tasks_of_the_others_fare(cluster: RestCluster) -> None:
    for _ in range(3):
        cluster.add()
    _degraded_tasks(cluster, 6)
    names = {worker.url.partition("//")[2] for worker in cluster.workers}
    for worker in cluster.workers:
        eventually(
            lambda worker=worker: _conditions(worker) == dict.fromkeys(names, "retrying"), 30, f"{worker.url} knows all"
        )


def test_any_worker_tells_of_a_connector_that_gives_no_task_configs(cluster: RestCluster) -> None:
    for _ in range(2):
        cluster.add()
    names = [f"c{number}" for number in range(4)]
    sample = {"connector.class": "kit.sample_connectors.SampleSource", "raise.in": "task_configs"}
    for name in names:
        status, _, body = ask(cluster.workers[0].url, "PUT", f"/connectors/{name}/config", json.dumps(sample), JSON)
        assert status == 201, body

    def seen(worker: ClusterWorker) -> dict[str, tuple[str, str]]:
        _, _, body = ask(worker.url, "GET", "/connectors?expand=status&condition=true", None, {})
        found = {name: item["status"]["connector"] for name, item in json.loads(body).items()}
        conditions = {name: own.get("condition", {}) for name, own in found.items()}
        return {name: (found[name]["worker_id"], each.get("cause", "")) for name, each in conditions.items()}

    ids = {worker.url.partition("//")[2] for worker in cluster.workers}

    def all_known(worker: ClusterWorker) -> bool:
        found = seen(worker)
        assert {cause for _, cause in found.values()} == {"RuntimeError: no task_configs today"}, found
        return {worker_id for worker_id, _ in found.values()} == ids

    for worker in cluster.workers:
        eventually(lambda worker=worker: all_known(worker), 30, f"{worker.url} knows all")


def test_a_worker_that_is_away_costs_its_conditions_and_hardly_any_time(cluster: RestCluster) -> None:
    asked, _ = cluster.add(), cluster.add()
    _degraded_tasks(cluster)
    eventually(lambda: len(_conditions(asked)) == 2, 10, "all are RUNNING")
    away = cluster.workers[1]
    away.server.stop(2.0)

    took_s = []
    for _ in range(3):
        began_s = now()
        found = _conditions(asked)
        took_s.append(now() - began_s)

    assert found[away.url.partition("//")[2]] == "unknown"
    assert found[asked.url.partition("//")[2]] == "retrying"
    assert max(took_s) < 3.0, took_s


def test_who_asks_is_asked_to_the_other_workers() -> None:
    with rest_cluster(SETTINGS) as cluster:
        for _ in range(2):
            cluster.add(options=RestOptions(login=Login([("required", {"ann": "secret"})])))
        ann = {"Authorization": "Basic " + base64.b64encode(b"ann:secret").decode()}
        for number in range(4):
            assert _put(cluster.workers[0], f"c{number}", headers=ann)[0] == 201
        _await_tasks(cluster, 4)
        for worker in cluster.workers:
            worker.launcher.conditions.update(dict.fromkeys(worker.launcher.tasks, _DEGRADED))
        first = cluster.workers[0]

        def all_known() -> bool:
            """Another worker that was late with its answer is asked again after ten seconds."""
            found = _conditions(first, ann)
            assert len(found) == 2, f"not all are RUNNING: {found}"
            return set(found.values()) == {"retrying"}

        eventually(all_known, 30, "it is reported how all fare")

"""The control link over real sockets: who may speak, and what strangers cannot do."""

from __future__ import annotations

import logging
import queue
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

import kconnect
from kconnect.errors import LinkError, LinkRefusedError
from kconnect.spark import link as link_module
from kconnect.spark.link import Link, LinkServer, connect, greet_slot, greet_worker
from kconnect.spark.messages import (
    Challenge,
    FailedRecords,
    Heartbeat,
    Hello,
    Message,
    Refused,
    TaskMetrics,
    Welcome,
    encode,
)
from kconnect.spark.ports import PoolPorts
from kconnect.spark.settings import SparkSettings
from kconnect.spark.slot_pool import SlotPool
from kconnect.spark.slot_spec import SlotSpec
from kit.pace import ample_s, now
from kit.waiting import eventually

TOKEN = b"t" * 32


class Worker:
    """A server that keeps what slots say."""

    def __init__(self) -> None:
        self.heard: queue.Queue[Message] = queue.Queue()
        self.server = LinkServer(TOKEN, self._serve, bind_host="127.0.0.1")

    def _serve(self, link: Link) -> None:
        try:
            while True:
                message = link.receive(10)
                if message is not None:
                    self.heard.put(message)
                    link.send(Heartbeat())
        except LinkError:
            return

    def connect(self, token: bytes = TOKEN, timeout_s: float = 3.0) -> Link:
        return connect("127.0.0.1", self.server.port, token, ample_s(timeout_s))


@pytest.fixture
def worker():
    worker = Worker()
    worker.server.start()
    yield worker
    worker.server.stop(3.0)


@pytest.fixture
def pair():
    left, right = socket.socketpair()
    # a pair is not TCP: the option that a link sets on its socket does not exist there
    listener = socket.create_server(("127.0.0.1", 0))
    left.close(), right.close()
    left = socket.create_connection(listener.getsockname())
    right, _ = listener.accept()
    listener.close()
    ends = Link(left), Link(right)
    yield ends
    for end in ends:
        end.close()


def test_a_slot_with_the_token_is_heard_and_answered(worker):
    slot = worker.connect()
    try:
        slot.send(Hello(0, "host", 1, 2))

        assert worker.heard.get(timeout=ample_s(10)) == Hello(0, "host", 1, 2)
        assert slot.receive(ample_s(3)) == Heartbeat()
    finally:
        slot.close()


def test_a_slot_with_a_wrong_token_is_refused_at_once_with_a_sentence_on_both_ends(worker, caplog):
    reason = "the slot does not know the worker's token; it is of another worker, or of an earlier run of this one"
    with pytest.raises(LinkRefusedError) as failure:
        worker.connect(token=b"x" * 32, timeout_s=300.0)  # far above the timeout of the test: it is not tried again

    assert str(failure.value) == f"Slot and worker at 127.0.0.1:{worker.server.port} do not match: {reason}"
    assert _warning(caplog, "Worker and slot at 127.0.0.1:").endswith(f" do not match: {reason}")
    assert worker.heard.empty()


def test_a_worker_that_does_not_know_the_token_is_refused_with_a_sentence_on_both_ends(pair):
    ours, theirs = pair
    problem = _in_thread(lambda: greet_worker(ours, TOKEN))
    theirs.send(Challenge("nonce"))
    theirs.receive(ample_s(3))
    theirs.send(Welcome("no proof"))

    reason = "the worker does not know the slot's token; it is not the worker that started the slot"
    assert theirs.receive(ample_s(3)) == Refused(reason)
    theirs.close()
    assert problem.get(timeout=ample_s(5)) == reason


def test_a_slot_of_another_version_of_the_protocol_is_refused_with_a_sentence_on_both_ends(worker, caplog):
    """It reads our challenge, and answers in its own version."""
    reason = (
        "one end speaks version 2 of the control link, the other version 1: install one version of kconnect on both"
    )
    with socket.create_connection(("127.0.0.1", worker.server.port), timeout=ample_s(3)) as sock:
        slot = Link(sock)
        assert isinstance(slot.receive(ample_s(3)), Challenge)
        slot._out.sendall(_frame(b'{"v":2,"type":"answer","nonce":"n","proof":"p"}'))

        assert slot.receive(ample_s(3)) == Refused(reason)
        slot.close()
    assert _warning(caplog, "Worker and slot at 127.0.0.1:").endswith(f" do not match: {reason}")


def test_a_worker_of_another_version_of_the_protocol_is_refused_with_a_sentence_on_both_ends():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        problem = _in_thread(lambda: connect("127.0.0.1", port, TOKEN, 300.0))
        worker = Link(listener.accept()[0])
        worker._out.sendall(_frame(b'{"v":2,"type":"challenge","nonce":"n"}'))

        reported = worker.receive(ample_s(3))
        worker.close()
    assert isinstance(reported, Refused)
    assert reported.reason.startswith("one end speaks version 2 of the control link, the other version 1")
    assert problem.get(timeout=ample_s(5)) == f"Slot and worker at 127.0.0.1:{port} do not match: {reported.reason}"


class _Jobs:
    """SlotJobs whose slot is played by the test."""

    def __init__(self) -> None:
        self.specs: queue.Queue[SlotSpec] = queue.Queue()
        self.ended = threading.Event()

    def run_slot(self, spec: SlotSpec) -> None:
        self.specs.put(spec)
        self.ended.wait(30)

    def cancel_slot(self, slot: int) -> None:
        raise AssertionError("nothing to cancel here")


class _NoEvents:
    """PoolEvents of slots that never get in."""

    def slot_attached(self, slot: int) -> None:
        raise AssertionError(f"slot {slot} was let in")

    def slot_said(self, slot: int, message: Message, reply: Callable[[Message], None]) -> None:
        raise AssertionError(f"slot {slot} was let in, and said {message}")

    def query_said(self, message: TaskMetrics | FailedRecords) -> FailedRecords | None:
        raise AssertionError(f"a slot was let in, and said {message}")

    def slot_lost(self, slot: int, reason: str) -> None:
        raise AssertionError(f"slot {slot} was let in, and lost")

    def tick(self) -> None:
        pass

    def has_tasks(self, slot: int) -> bool:
        return False


def test_a_slot_with_another_kconnect_is_refused_with_a_sentence_on_both_ends(caplog):
    jobs = _Jobs()
    pool = SlotPool(SparkSettings(), PoolPorts(jobs=jobs), _NoEvents())
    pool.start("127.0.0.1")
    try:
        pool.begin({0: None})
        spec = jobs.specs.get(timeout=ample_s(5))
        slot = connect(spec.host, spec.port, spec.token, ample_s(5))
        slot.send(Hello(0, "host", 1, 2, version="0.0.1"))
        slot.send(Heartbeat())  # what is still on its way must not cost it the reason

        reason = f"the slot has kconnect 0.0.1, the worker {kconnect.__version__}: install one version on both"
        assert slot.receive(ample_s(3)) == Refused(reason)
        slot.close()
        assert _warning(caplog, "Worker and slot at").endswith(f" do not match: {reason}")
        assert pool.attached() == {}
    finally:
        jobs.ended.set()
        pool.stop(3.0)


_SLOT = """
import sys
from kconnect.spark.slot import slot_main
from kconnect.spark.slot_spec import SlotSpec

slot_main(SlotSpec(
    slot=0, host="127.0.0.1", port=int(sys.argv[1]), token=b"t" * 32, heartbeat_interval_s=1.0,
    heartbeat_timeout_s=10.0, start_timeout_s=10.0, offsets_timeout_s=10.0, plugin_path=None, log_level=20,
    worker_host="elsewhere", worker_pid=0,
))
"""


def test_a_slot_that_is_refused_after_its_hello_fails_with_the_reason_for_spark_to_tell():
    def serve(link: Link) -> None:
        assert isinstance(link.receive(ample_s(10)), Hello)
        raise link.refuse("the slot has kconnect 1, the worker 2: install one version on both")

    server = LinkServer(TOKEN, serve, bind_host="127.0.0.1")
    server.start()
    port = server.port
    try:
        slot = subprocess.run([sys.executable, "-c", _SLOT, str(port)], capture_output=True, timeout=ample_s(60))
    finally:
        server.stop(3.0)

    assert slot.returncode == 1
    assert slot.stderr.decode().splitlines()[-1] == (
        f"kconnect.errors.LinkRefusedError: Slot and worker at 127.0.0.1:{port} do not match: "
        "the slot has kconnect 1, the worker 2: install one version on both"
    )


def test_a_proof_can_not_be_sent_back_as_an_answer(pair):
    """Who knows no token may try to let the worker answer its own challenge: roles are part of the proof."""
    assert link_module._proof(TOKEN, "slot", "a", "b") != link_module._proof(TOKEN, "worker", "a", "b")


@pytest.mark.parametrize("seed", range(8))
def test_strangers_that_send_junk_disturb_nobody(worker, seed):
    slot = worker.connect()
    dice = random.Random(seed)
    strangers = []
    try:
        for _ in range(12):
            stranger = socket.create_connection(("127.0.0.1", worker.server.port), timeout=ample_s(3))
            junk = [dice.randbytes(dice.randint(0, 3000)), b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\5{}{}{"]
            junk += [b"\xff\xff\xff\xff", (10).to_bytes(4, "big") + b"[" * 10, _frame(encode(Heartbeat()))]
            try:
                stranger.sendall(dice.choice(junk))
            except OSError:
                stranger.close()  # dropped while it was still sending
                continue
            strangers.append(stranger)
        slot.send(Hello(seed, "host", 1, 2))

        assert worker.heard.get(timeout=ample_s(10)) == Hello(seed, "host", 1, 2)
        assert worker.heard.empty()
    finally:
        slot.close()
        for stranger in strangers:
            stranger.close()


def test_a_stranger_that_says_nothing_is_dropped(worker, monkeypatch):
    monkeypatch.setattr(link_module, "_GREETING_TIMEOUT_S", 0.3)
    with socket.create_connection(("127.0.0.1", worker.server.port), timeout=ample_s(3)) as stranger:
        began_s = now()
        while stranger.recv(4096):
            pass

        assert now() - began_s < 3, "0.3 s is what a stranger has"


def test_many_silent_strangers_do_not_keep_a_slot_out(worker, monkeypatch):
    monkeypatch.setattr(link_module, "_GREETING_TIMEOUT_S", 0.5)
    strangers = [socket.create_connection(("127.0.0.1", worker.server.port), timeout=ample_s(3)) for _ in range(60)]
    try:
        slot = worker.connect(timeout_s=8)
        slot.send(Hello(0, "host", 1, 2))

        assert worker.heard.get(timeout=ample_s(10)) == Hello(0, "host", 1, 2)
        slot.close()
    finally:
        for stranger in strangers:
            stranger.close()


def test_a_frame_above_the_limit_is_refused_before_it_is_read(pair):
    ours, theirs = pair
    ours.max_frame_bytes = 100
    theirs.send(Hello(0, "h" * 200, 1, 2))

    with pytest.raises(LinkError, match="refused"):
        ours.receive(ample_s(3))
    with pytest.raises(LinkError, match="too large"):
        ours.send(Hello(0, "h" * 200, 1, 2))


def test_a_frame_that_stops_in_the_middle_breaks_the_link(pair, monkeypatch):
    monkeypatch.setattr(link_module, "_FRAME_TIMEOUT_S", 0.2)
    ours, theirs = pair
    theirs._out.sendall(_frame(encode(Heartbeat()))[:-1])

    with pytest.raises(LinkError, match="in the middle"):
        ours.receive(ample_s(5))


def test_silence_is_none_and_the_end_is_an_error(pair):
    ours, theirs = pair
    assert ours.receive(0.05) is None
    theirs.abort()

    with pytest.raises(LinkError, match="is gone"):
        ours.receive(ample_s(3))


def test_frames_of_many_threads_do_not_mix(pair):
    ours, theirs = pair
    sent = [Hello(number, "h" * number, number, 0) for number in range(200)]
    threads = [
        threading.Thread(target=lambda part=part: [theirs.send(hello) for hello in sent[part::4]]) for part in range(4)
    ]
    for thread in threads:
        thread.start()
    heard = [ours.receive(ample_s(5)) for _ in sent]
    for thread in threads:
        thread.join(ample_s(5))

    assert sorted(heard, key=lambda hello: hello.slot) == sent


def test_abort_wakes_a_thread_that_waits(pair):
    ours, _ = pair
    ended = threading.Event()

    def wait() -> None:
        with pytest.raises(LinkError):
            ours.receive(30)
        ended.set()

    thread = threading.Thread(target=wait)
    thread.start()
    ours.abort()

    assert ended.wait(ample_s(10))
    thread.join(ample_s(10))


def test_a_port_that_is_taken_is_named(worker):
    second = LinkServer(TOKEN, lambda link: None, bind_host="127.0.0.1", port=worker.server.port)

    with pytest.raises(LinkError, match=f"cannot listen on 127.0.0.1:{worker.server.port}"):
        second.start()


def test_stopping_the_worker_ends_the_links(worker):
    slot = worker.connect()
    worker.server.stop(3.0)

    def is_gone() -> bool:
        try:
            return slot.receive(0.1) is not None
        except LinkError:
            return True

    eventually(is_gone, 10, "the slot sees that its worker is gone")
    slot.close()


def test_a_handshake_with_the_right_token_works_in_both_roles(pair):
    ours, theirs = pair
    thread = threading.Thread(target=greet_worker, args=(theirs, TOKEN))
    thread.start()
    greet_slot(ours, TOKEN)
    thread.join(ample_s(5))
    theirs.send(Heartbeat(3, java_ports=(9991,)))

    assert ours.receive(ample_s(3)) == Heartbeat(3, java_ports=(9991,))


def _in_thread(call: Callable[[], object]) -> queue.Queue[str]:
    """Run it on a thread; where the sentence of its LinkError comes out."""
    problem: queue.Queue[str] = queue.Queue()

    def run() -> None:
        try:
            call()
        except LinkError as error:
            problem.put(str(error))

    threading.Thread(target=run).start()
    return problem


def _warning(caplog: pytest.LogCaptureFixture, begins: str) -> str:
    """The one warning that begins so, once it is there."""

    def found() -> list[str]:
        messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        return [message for message in messages if message.startswith(begins)]

    (warning,) = eventually(found, 5, f"a warning that begins with {begins!r}")
    return warning


def _frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body

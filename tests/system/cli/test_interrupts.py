"""Ctrl-C while a broker is away: 130 and no trace, wherever the Kafka client is just then."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager

import pytest

from kconnect_cli.processes.signals import signals_raise
from kit.cli import cli_env, connect_command
from kit.pace import ample_s
from kit.waiting import eventually

# Slow callbacks, so that a signal mostly comes while one runs: its exception is lost to the client then.
_POLLS = """
import logging, signal, sys
from kconnect.runtime.kafka.clients import ClientLog
from kconnect.runtime.kafka.partition_reader import LOG, READ_UNCOMMITTED, PartitionReader
from kconnect_cli.processes.signals import interrupts_raise

class Slow(ClientLog):
    def log(self, *args):
        for _ in range(3000): pass
    on_error = log

import kconnect.runtime.kafka.partition_reader as module
module.ClientLog = Slow
client = {"bootstrap.servers": sys.argv[1], "reconnect.backoff.ms": 1, "reconnect.backoff.max.ms": 2}
reader = PartitionReader("t", client, LOG, isolation_level=READ_UNCOMMITTED, name="test")
reader.open({0: 0})
try:
    with interrupts_raise():
        print("polling", flush=True)
        while True:
            reader.read(100, 0.1)
except KeyboardInterrupt as err:
    sys.exit(f"interrupted by {type(err.__cause__).__name__}")
"""


class HangsUp:
    """A listener that closes every connection at once; `then` is called when a client came again and again."""

    def __init__(self, then):
        self._then = then

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def _serve(self):
        count = 0
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed below
                return
            connection.close()
            count += 1
            if count == 3:
                self._then()

    def __exit__(self, *_):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(5)


@contextmanager
def _started(command, home):
    run = subprocess.Popen(
        command, env=cli_env(home), cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with run:
        try:
            yield run
        finally:
            run.kill()


_COMMANDS = (
    ("topics", "config", "show"),
    ("topics", "offsets", "show", "--follow"),
    ("topics", "config", "get", "connector-x"),
    ("topics", "doctor"),
    ("topics", "config", "put", "connector-x", "{}", "--yes"),
    ("connectors", "list", "--direct"),
)


def test_ctrl_c_ends_any_command_with_130_while_no_broker_answers(home):
    topics = [f"--{word}-topic=t-{word}" for word in ("config", "status", "offset")]
    with ExitStack() as stack:
        runs = {}
        for command in _COMMANDS:  # side by side: each waits for its --timeout before it looks at the signal

            def interrupt(command=command):
                eventually(lambda: command in runs, 20, "it is known here that it was started")
                runs[command].send_signal(signal.SIGINT)

            broker = stack.enter_context(HangsUp(interrupt))
            # On a busy machine it takes a while until it has come three times, and the signal has to find it waiting
            options = ["--bootstrap-servers", broker.address, "--group-id", "g", *topics, "--timeout", "4s"]
            runs[command] = stack.enter_context(_started([*connect_command(), *command, *options], home))
        for command, run in runs.items():
            out, err = run.communicate(timeout=ample_s(60))
            assert (run.returncode, out) == (130, ""), f"{command}: {err}"
            assert "Traceback" not in err, command
            assert "SystemError" not in err, command


def test_an_interrupt_that_the_kafka_client_lost_in_a_callback_still_counts(home):
    with ExitStack() as stack:
        command = [sys.executable, "-c", _POLLS, "127.0.0.1:1"]
        children = [stack.enter_context(_started(command, home)) for _ in range(4)]
        ends = []
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "polling\n", child.communicate()
            child.send_signal(signal.SIGINT)
            ends.append(child.communicate(timeout=ample_s(60))[1].strip().splitlines()[-1])
    assert {end.rpartition(" ")[0] for end in ends} == {"interrupted by"}, ends


@pytest.mark.parametrize(("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_a_system_error_after_a_signal_is_taken_for_the_signal(number, error):
    def lose():
        with signals_raise(signal.SIGINT, signal.SIGTERM):
            with pytest.raises(error):
                os.kill(os.getpid(), number)
            raise SystemError("poll returned NULL without setting an exception")

    with pytest.raises(error) as raised:
        lose()
    assert getattr(raised.value, "code", 128 + number) == 128 + number


def test_a_system_error_of_its_own_stays_one():
    with pytest.raises(SystemError, match="NULL"), signals_raise(signal.SIGTERM):
        raise SystemError("NULL")

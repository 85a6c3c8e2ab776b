"""Signals that end a command through its `finally` blocks, as an exception."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def signals_raise(*numbers: signal.Signals) -> Iterator[None]:
    """These signals, or SIGTERM and a closed terminal, end the command as Ctrl-C does: with 128 and their number.

    The exception of a handler may be lost, and another one come in its place: a SystemError, when the Kafka client is
    just then in a callback of its own, as it often is while a broker is away (confluent-kafka 2.16); a RuntimeError,
    when a class is just then made (`__set_name__`, Python 3.11). So what came is kept, and takes the place of that.
    """
    came: list[int] = []

    def leave(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        raise _exception_of(number)

    handlers = {number: signal.signal(number, leave) for number in numbers or (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    except Exception as err:
        if came:
            raise _exception_of(came[0]) from err
        raise
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def interrupts_raise() -> Iterator[None]:
    """`signals_raise` for Ctrl-C, where it is not ignored, as in the background of a shell, or someone else's."""
    is_ours = threading.current_thread() is threading.main_thread()
    if is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        with signals_raise(signal.SIGINT):
            yield
    else:
        yield


def _exception_of(number: int) -> BaseException:
    return KeyboardInterrupt() if number == signal.SIGINT else SystemExit(128 + number)

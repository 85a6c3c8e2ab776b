"""Signals of a run: it ends in order when it is asked to, and what tests start has the default ones."""

from __future__ import annotations

import signal
import threading
from typing import Final

import pytest

__all__ = ["set_signals"]

# A shell's background job ignores the first two, nohup the third; what they start would, too, and wait for ever
_INHERITED: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)


def set_signals() -> None:
    """SIGTERM takes fixtures down, as Ctrl-C does: else brokers would outlive the run. None is ignored or blocked."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _INHERITED:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_INHERITED, signal.SIGTERM})
    signal.signal(signal.SIGTERM, _leave)


def _leave(number: int, _frame: object) -> None:
    pytest.exit(f"signal {number}", returncode=128 + number)

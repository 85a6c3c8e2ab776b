"""Processes that stand still, as on a machine that hangs, and go on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import psutil

__all__ = ["freeze", "wake"]


def freeze(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # a short-lived one
            process.suspend()


def wake(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # its parent, awake already, has ended it
            process.resume()

"""Other processes, looked at while they end: psutil fails when one ends as it looks, and then a test would."""

from __future__ import annotations

from collections.abc import Iterable

import psutil

__all__ = ["below", "command", "lives", "living", "named", "oldest_first"]


def lives(process: psutil.Process) -> bool:
    """Whether it runs; a zombie has ended."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def living(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if lives(process)]


def below(process: psutil.Process | int, *, deep: bool = True) -> list[psutil.Process]:
    """Its children, with `deep` theirs, too; none when it has ended."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return found.children(recursive=deep)
    except psutil.NoSuchProcess:
        return []


def command(process: psutil.Process) -> list[str]:
    """What it was started with; empty when it has ended."""
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:
        return []


def named(processes: Iterable[psutil.Process], part: str) -> list[psutil.Process]:
    """Those whose program has this in its name and that have not ended."""
    found = []
    for process in processes:
        try:
            if part in process.name():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def oldest_first(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """In the order in which they were started, without those that have ended."""
    found = []
    for process in living(processes):
        try:
            found.append((process.create_time(), process.pid, process))
        except psutil.NoSuchProcess:
            continue
    return [process for _, _, process in sorted(found, key=lambda each: each[:2])]

"""Watches files for changes with inotify: one thread and one descriptor for all tasks of a process.

Calls three libc functions itself: watchfiles cannot add paths while running, watchdog delays events by half a
second, and inotify_simple is just these three calls.
"""

from __future__ import annotations

import ctypes
import logging
import os
import select
import struct
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

_MODIFY, _CREATE, _MOVED_TO, _ATTRIB = 0x2, 0x100, 0x80, 0x4
_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLY_FOLDERS = 0x0100_0000
_HEADER = struct.Struct("iIII")
# The thread waits this long after reading events, so that a constantly written file costs 500 reads a second, 0.4 %
# of a core, instead of one per write.
_REST_S = 0.002


# The statfs types of local file systems: ext2 to ext4, XFS, Btrfs, tmpfs, overlay, ZFS, F2FS.
_LOCAL = frozenset({0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0x2FC12FC1, 0xF2F52010})
# struct statfs begins with its type, and is 120 bytes long on 64 bits
_STATFS_BYTES = 512


class FileWatch:
    """The result of `watch_file`. `close` ends the calls; idempotent.

    `hears_all`: every write to the file is reported, since no other machine can write to its file system.
    """

    def __init__(self, close: Callable[[], None], *, hears_all: bool) -> None:
        self._close = close
        self.hears_all = hears_all

    def close(self) -> None:
        self._close()


def watch_file(path: str, changed: Callable[[], None]) -> FileWatch | None:
    """Have `changed` called, from another thread, when the file is created, written, truncated or replaced.

    `changed` must be quick and must not raise. Calls may be spurious; writes by other
    machines to network file systems are not reported at all: poll occasionally as well.
    None if it is unavailable: not Linux, the folder does not exist yet, or the system's watch limit is reached.
    """
    with _make_lock:
        watcher = _watcher()
        if watcher is None:
            return None
        key = watcher.add(path, changed)
        if key is None and watcher.is_idle:
            _end(watcher)
    if key is None:
        return None
    return FileWatch(lambda: _end_with_last(watcher, key), hears_all=watcher.is_local(path))


class _Watcher:
    """Watches folders, not files, so that it sees files created or replaced, and a hundred in one cost one watch.

    Its thread starts with it and ends through `end`.
    """

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self.pid = os.getpid()
        self._libc = libc
        self._descriptor = descriptor
        self._lock = threading.Lock()  # guards the two below
        self._folders: dict[int, dict[object, tuple[bytes, Callable[[], None]]]] = {}
        self._places: dict[object, list[int]] = {}
        self._ending = os.eventfd(0, os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._run, name="file-watch", daemon=True)
        self._thread.start()

    def add(self, path: str, changed: Callable[[], None]) -> object | None:
        """Watch the name and, if it is a link, its target."""
        key = object()
        names = {os.path.abspath(path), os.path.realpath(path)}
        with self._lock:
            places = []
            for name in names:
                folder, base = os.path.split(os.fsencode(name))
                place = self._libc.inotify_add_watch(
                    self._descriptor, folder, _MODIFY | _CREATE | _MOVED_TO | _ATTRIB | _ONLY_FOLDERS
                )
                if place < 0:
                    log.debug("No events for %s: %s", name, os.strerror(ctypes.get_errno()))
                    continue
                places.append(place)
                self._folders.setdefault(place, {})[(key, base)] = (base, changed)
            if not places:
                return None
            self._places[key] = places
        return key

    def is_local(self, path: str) -> bool:
        """Whether the name and its target are on local file systems."""
        return all(
            self._file_system(os.path.dirname(name)) in _LOCAL
            for name in {os.path.abspath(path), os.path.realpath(path)}
        )

    def _file_system(self, folder: str) -> int | None:
        answer = ctypes.create_string_buffer(_STATFS_BYTES)
        if self._libc.statfs(os.fsencode(folder), answer) != 0:
            return None
        return ctypes.c_long.from_buffer(answer).value

    def remove(self, key: object) -> None:
        with self._lock:
            for place in self._places.pop(key, []):
                watched = self._folders.get(place, {})
                for mine in [other for other in watched if other[0] is key]:  # type: ignore[index]  # (key, name)
                    del watched[mine]
                if not watched and self._folders.pop(place, None) is not None:
                    self._libc.inotify_rm_watch(self._descriptor, place)

    @property
    def is_idle(self) -> bool:
        return not self._places

    def end(self) -> None:
        os.eventfd_write(self._ending, 1)
        self._thread.join(1.0)

    def _run(self) -> None:
        poller = select.poll()  # select() cannot look at descriptors above 1023: a slot with 200 tasks has them
        poller.register(self._descriptor, select.POLLIN)
        poller.register(self._ending, select.POLLIN)
        while True:
            ready = [descriptor for descriptor, _ in poller.poll()]
            if self._ending in ready:
                os.close(self._descriptor)
                os.close(self._ending)
                return
            for changed in self._called_for(os.read(self._descriptor, 65536)):
                try:
                    changed()
                except Exception:  # one task's problem, such as having ended; the others are still notified
                    log.warning(
                        "A source missed the notification that its file changed; it will check again soon",
                        exc_info=True,
                    )
            time.sleep(_REST_S)

    def _called_for(self, events: bytes) -> set[Callable[[], None]]:
        calls: set[Callable[[], None]] = set()
        at = 0
        with self._lock:
            while at < len(events):
                place, mask, _, length = _HEADER.unpack_from(events, at)
                name = events[at + _HEADER.size : at + _HEADER.size + length].rstrip(b"\0")
                at += _HEADER.size + length
                if mask & _OVERFLOW:
                    calls.update(call for watched in self._folders.values() for _, call in watched.values())
                elif mask & _IGNORED:  # the folder is gone; polling goes on
                    self._folders.pop(place, None)
                else:
                    watched = self._folders.get(place, {})
                    calls.update(call for base, call in watched.values() if base == name)
        return calls


_make_lock = threading.Lock()
_made: _Watcher | None = None


def _watcher() -> _Watcher | None:
    """The watcher of this process, under _make_lock; a forked process creates its own."""
    global _made
    if _made is None or _made.pid != os.getpid():
        _made = _new_watcher()
    return _made


def _end_with_last(watcher: _Watcher, key: object) -> None:
    """Remove a watch, and the thread with the last one."""
    with _make_lock:
        watcher.remove(key)
        if watcher is _made and watcher.is_idle:
            _end(watcher)


def _end(watcher: _Watcher) -> None:
    global _made
    _made = None
    watcher.end()


def _new_watcher() -> _Watcher | None:
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        descriptor = libc.inotify_init1(os.O_CLOEXEC)
    except (OSError, AttributeError):  # not on Linux
        return None
    return _Watcher(libc, descriptor) if descriptor >= 0 else None

"""Writes to files and pipes that end when the operating system has all of it."""

from __future__ import annotations

import os

from kconnect.errors import ConnectError

__all__ = ["write_whole"]


def write_whole(fd: int, data: bytes, name: str) -> None:
    """Write all of `data`, of which one call of the system may take a part. Errors: ConnectError (disk full)."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError as error:
        raise ConnectError(f"Cannot write to {name}: {error.strerror}") from error

"""Memory that a process has freed, given back to the system: glibc keeps it for each thread that ever allocated."""

from __future__ import annotations

import contextlib
import ctypes


def return_freed_memory() -> None:
    """Give unused pages of the C heap back to the system; nothing where its library cannot (macOS, musl).

    Takes some ms when there is much to give, 0.3 ms otherwise. 50 clients of librdkafka leave 17 MB behind when they
    are closed, which no thread takes up again: each has an arena of its own. Threads: any; others wait for memory
    meanwhile, so call it after something large has ended, not in a loop.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):  # TypeError: Windows wants a name
        ctypes.CDLL(None).malloc_trim(0)

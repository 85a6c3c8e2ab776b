"""The console over the herder of a test's file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.console_pages import PageCaller
from kit.memory_herder import MemoryHerder


@pytest.fixture
def console(herder: MemoryHerder) -> Iterator[PageCaller]:
    """Pages about a file's own `herder`."""
    caller = PageCaller(herder)
    yield caller
    caller.close()

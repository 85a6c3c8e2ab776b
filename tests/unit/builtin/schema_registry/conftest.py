"""The registry of converters' tests."""

from __future__ import annotations

import pytest

from kit.memory_registry import MemoryRegistry


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()

"""librdkafka's own request for a group's offsets can end the process: nobody makes it."""

from __future__ import annotations

from pathlib import Path

import kconnect

_CALL = "list_consumer_group_offsets("


def test_no_module_asks_librdkafka_for_the_offsets_of_a_group() -> None:
    modules = list(Path(kconnect.__file__).parent.rglob("*.py"))
    assert len(modules) > 100
    assert [module.name for module in modules if _CALL in module.read_text()] == []

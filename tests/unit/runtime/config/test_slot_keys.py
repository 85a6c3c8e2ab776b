"""Settings of a connector's own slots: what they read as, and what is wrong with them."""

from __future__ import annotations

import pytest

from kconnect.runtime.config.slot_keys import SHARED, SlotSettings, memory_bytes, slot_problems


@pytest.mark.parametrize(
    ("text", "size"),
    [("512m", 512 * 2**20), (" 2G ", 2 * 2**30), ("300000k", 300_000 * 1024), ("200000000", 200_000_000)],
)
def test_memory_is_read_as_javas_options_are(text: str, size: int) -> None:
    assert memory_bytes(text) == size


def test_a_connector_has_slots_of_its_own_only_where_it_says_so() -> None:
    assert SlotSettings.of_connector({}) == SHARED
    assert SlotSettings.of_connector({"kconnect.slot": "shared"}) == SHARED
    assert SlotSettings.of_connector({"kconnect.slot": "own"}) == SlotSettings(True)
    bounded = {"kconnect.slot": "own", "kconnect.slot.memory": "512m", "kconnect.slot.cores": "2"}
    assert SlotSettings.of_connector(bounded) == SlotSettings(True, 512 * 2**20, 2)
    assert slot_problems(bounded) == []


@pytest.mark.parametrize(
    ("config", "key", "part"),
    [
        ({"kconnect.slot": "mine"}, "kconnect.slot", "String must be one of: shared, own"),
        ({"kconnect.slot": "own", "kconnect.slot.memory": "much"}, "kconnect.slot.memory", "as in 512m"),
        ({"kconnect.slot": "own", "kconnect.slot.memory": "64m"}, "kconnect.slot.memory", "at least 128m is needed"),
        ({"kconnect.slot": "own", "kconnect.slot.cores": "0"}, "kconnect.slot.cores", "at least 1"),
        ({"kconnect.slot": "own", "kconnect.slot.cores": "half"}, "kconnect.slot.cores", "Not a number of type INT"),
        ({"kconnect.slot.memory": "512m"}, "kconnect.slot.memory", "set kconnect.slot=own too"),
        ({"kconnect.slot": "shared", "kconnect.slot.cores": "1"}, "kconnect.slot.cores", "set kconnect.slot=own too"),
    ],
)
def test_what_is_wrong_is_said_of_its_setting_and_the_tasks_share_slots(
    config: dict[str, str], key: str, part: str
) -> None:
    [(found, message)] = slot_problems(config)

    assert found == key
    assert part in message
    assert SlotSettings.of_connector(config) == SHARED

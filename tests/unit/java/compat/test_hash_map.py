"""The order of java.util.HashMap. The JDK's own tables: integration/runtime/storage/test_config_topic_golden.py."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kconnect.java.compat.hash_map import grown_map_order, hash_map_order, sort_key


def test_single_letters_stand_in_the_order_of_their_code():
    assert list(hash_map_order({"c": 1, "a": 2, "b": 3})) == ["a", "b", "c"]


def test_a_setting_of_a_connector_stands_where_java_puts_it():
    config = {"connector.class": "", "tasks.max": "", "file": "", "topic": "", "name": "", "task.class": ""}
    assert list(hash_map_order(config)) == ["connector.class", "file", "task.class", "tasks.max", "name", "topic"]


def test_texts_of_one_hash_keep_the_order_they_came_in():
    assert list(hash_map_order({"BB": 1, "Aa": 2})) == ["BB", "Aa"]  # Java's best known collision
    assert list(hash_map_order({"Aa": 1, "BB": 2})) == ["Aa", "BB"]


def test_the_size_of_the_table_hangs_on_how_the_map_was_made():
    config = dict.fromkeys(["connector.class", "tasks.max", "file", "topic", "name"])
    assert list(grown_map_order(config)) == ["connector.class", "file", "tasks.max", "name", "topic"]
    assert list(hash_map_order(config)) == ["connector.class", "name", "topic", "file", "tasks.max"]
    assert list(hash_map_order({**config, "x": None, "y": None}, copied=5)) == [
        "connector.class",
        "file",
        "tasks.max",
        "name",
        "x",
        "topic",
        "y",
    ]


@given(st.dictionaries(st.text(), st.integers()))
def test_nothing_is_lost(entries):
    assert hash_map_order(entries) == entries


def test_texts_sort_by_utf16_units_as_in_java():
    assert sorted(["\ue000", "\U0001f600", "b", "aa", "a"], key=sort_key) == ["a", "aa", "b", "\U0001f600", "\ue000"]

"""`standalone --watch`: connectors follow files that are created, changed, broken and removed."""

from __future__ import annotations

import logging

import pytest

from kconnect.runtime.config.dropins import load_folder
from kconnect_cli.files.connector_files import ConnectorFileWatch
from kit.memory_herder import MemoryHerder


class Watched:
    def __init__(self, folder):
        self.folder = folder
        self.herder = MemoryHerder()
        self.write("a.properties", "a", "one")
        files = load_folder(folder)
        for file in files:
            self.herder.put_connector(file.name, file.config, replace=False)
        self.watch = ConnectorFileWatch(self.herder, files, folder=folder)

    def write(self, file, name, topic):
        (self.folder / file).write_text(f"name={name}\nconnector.class=FileStreamSource\ntopic={topic}\n")

    def settle(self):
        self.watch.look()
        self.watch.look()

    def topics(self):
        return {name: connector.config["topic"] for name, connector in self.herder.known.items()}


@pytest.fixture
def watched(tmp_path):
    return Watched(tmp_path)


def test_files_that_come_change_and_go_take_their_connectors_along(watched):
    watched.settle()
    assert watched.topics() == {"a": "one"}
    watched.write("a.properties", "a", "changed")
    watched.write("b.properties", "b", "two")
    watched.settle()
    assert watched.topics() == {"a": "changed", "b": "two"}
    (watched.folder / "a.properties").unlink()
    watched.settle()
    assert watched.topics() == {"b": "two"}


def test_a_change_counts_when_two_looks_agree(watched):
    watched.write("a.properties", "a", "x")
    watched.watch.look()
    assert watched.topics() == {"a": "one"}
    watched.write("a.properties", "a", "longer")
    watched.watch.look()
    assert watched.topics() == {"a": "one"}
    watched.watch.look()
    assert watched.topics() == {"a": "longer"}


@pytest.mark.parametrize("text", ["", "{", "name=a\nconnector.class=FileStreamSource\n", "connector.class=x\n"])
def test_a_broken_or_refused_file_is_reported_and_its_connector_stays(watched, caplog, text):
    (watched.folder / "a.properties").write_text(text)
    with caplog.at_level(logging.ERROR):
        watched.settle()
        watched.settle()
    assert watched.topics() == {"a": "one"}
    assert [record.levelname for record in caplog.records] == ["ERROR"], "reported once"
    assert "a.properties" in caplog.text
    watched.write("a.properties", "a", "recovered")
    watched.settle()
    assert watched.topics() == {"a": "recovered"}


def test_another_name_in_a_file_is_another_connector(watched):
    watched.write("a.properties", "renamed", "one")
    watched.settle()
    assert watched.topics() == {"renamed": "one"}


def test_two_files_can_not_define_one_connector(watched, caplog):
    watched.write("b.properties", "a", "stolen")
    watched.settle()
    assert watched.topics() == {"a": "one"}
    assert "already defined by" in caplog.text


def test_a_touched_file_restarts_nothing(watched):
    watched.herder.calls.clear()
    watched.write("a.properties", "a", "one")
    watched.settle()
    assert watched.herder.calls == []


def test_what_was_deleted_otherwise_is_no_error(watched, caplog):
    watched.herder.delete_connector("a")
    (watched.folder / "a.properties").unlink()
    watched.settle()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_named_files_alone_are_followed(tmp_path):
    one, other = tmp_path / "one.properties", tmp_path / "other.properties"
    herder = MemoryHerder()
    with ConnectorFileWatch(herder, [], named=[one]) as watch:
        pass
    for path in (one, other):
        path.write_text(f"name={path.stem}\nconnector.class=FileStreamSource\ntopic=t\n")
    watch.look()
    watch.look()
    assert sorted(herder.known) == ["one"]

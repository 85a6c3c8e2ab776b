"""The offsets file: read at start, rewritten in one step, untouched when damaged."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from kconnect.errors import ConfigError, ConnectError
from kconnect.java.compat.serialized_map import dump_map, load_map
from kconnect.model import ConnectorOffset
from kconnect.runtime.storage import FileOffsetStore, commit_source_offsets, list_source_offsets, read_source_offsets
from kit.pace import ample_s

KEY, OTHER = b'["c",{"f":"x"}]', b'["other",{"f":"x"}]'


def opened(path):
    store = FileOffsetStore(path)
    store.start()
    return store


def test_a_missing_file_is_no_offsets_and_comes_with_the_first_write(tmp_path):
    path = tmp_path / "offsets"
    store = opened(path)
    assert store.entries() == {}
    assert not path.exists()
    store.set({KEY: b"{}"})
    assert load_map(path.read_bytes()) == {KEY: b"{}"}


def test_an_empty_file_is_no_offsets_and_says_so(tmp_path, caplog):
    path = tmp_path / "offsets"
    path.touch()
    assert opened(path).entries() == {}
    assert "is empty: sources are read from the start" in caplog.text


def test_a_folder_in_place_of_the_file_is_reported(tmp_path):
    with pytest.raises(ConnectError, match=r"Cannot read the offsets file .*Is a directory"):
        opened(tmp_path)


def test_a_missing_folder_is_refused_at_the_start(tmp_path):
    with pytest.raises(
        ConfigError, match=r"The folder .*none of offset\.storage\.file\.filename does not exist"
    ) as refused:
        opened(tmp_path / "none" / "offsets")
    assert refused.value.hint == f"Create it: mkdir -p {tmp_path / 'none'}"


def test_what_may_not_be_written_is_refused_at_the_start(tmp_path, monkeypatch):
    (tmp_path / "offsets").touch()
    for refused in (tmp_path, tmp_path / "offsets"):  # tests run as root, who may write everything
        monkeypatch.setattr(os, "access", lambda place, _mode, refused=refused: place != refused)
        with pytest.raises(ConfigError, match=rf"^{refused} \(offset\.storage\.file\.filename\) may not be written"):
            opened(tmp_path / "offsets")


def test_what_could_not_be_written_goes_with_the_next_write(tmp_path):
    (tmp_path / "late").mkdir()
    store = opened(tmp_path / "late" / "offsets")
    (tmp_path / "late").rmdir()
    with pytest.raises(ConnectError, match=r"Cannot write the offsets file .*No such file"):
        store.set({KEY: b"{}"})
    (tmp_path / "late").mkdir()
    store.stop()
    assert load_map((tmp_path / "late" / "offsets").read_bytes()) == {KEY: b"{}"}


def test_offsets_of_connectors_nobody_knows_are_kept_and_so_are_keys_of_other_forms(tmp_path):
    path = tmp_path / "offsets"
    before = {OTHER: b'{"n":1}', b"\xffnoise": b"x", b'["gone",{}]': None}
    path.write_bytes(dump_map(before))
    opened(path).set({KEY: b"{}"})
    assert load_map(path.read_bytes()) == before | {KEY: b"{}"}


def test_a_partition_given_in_another_order_replaces_the_entry_it_equals(tmp_path):
    path = tmp_path / "offsets"
    path.write_bytes(dump_map({b'["c",{"a":1,"b":2}]': b'{"n":1}'}))
    store = opened(path)
    assert read_source_offsets(store, "c", [{"b": 2, "a": 1}]) == [{"n": 1}]
    commit_source_offsets(store, "c", [ConnectorOffset({"b": 2, "a": 1}, {"n": 2})])
    assert load_map(path.read_bytes()) == {b'["c",{"a":1,"b":2}]': b'{"n":2}'}


def test_the_mode_of_the_file_is_kept(tmp_path):
    path = tmp_path / "offsets"
    path.touch()
    path.chmod(0o640)
    opened(path).set({KEY: b"{}"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_is_written_through(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    opened(link).set({KEY: b"{}"})
    assert link.is_symlink()
    assert load_map(real.read_bytes()) == {KEY: b"{}"}


def test_a_device_is_written_in_place():
    store = opened(os.devnull)
    store.set({KEY: b"{}"})
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_nothing_but_the_file_is_left_in_the_folder(tmp_path):
    (tmp_path / ".offsets.tmp").write_bytes(b"left over from a crash")
    opened(tmp_path / "offsets").set({KEY: b"{}"})
    assert [path.name for path in tmp_path.iterdir()] == ["offsets"]


def test_a_second_worker_sees_what_the_first_wrote(tmp_path):
    first = opened(tmp_path / "offsets")
    commit_source_offsets(first, "c", [ConnectorOffset({"f": "x"}, {"n": 1}), ConnectorOffset({"f": "y"}, {"n": 2})])
    commit_source_offsets(first, "c", [ConnectorOffset({"f": "y"}, None)])
    first.stop()
    second = opened(tmp_path / "offsets")
    assert list_source_offsets(second, "c") == [ConnectorOffset({"f": "x"}, {"n": 1})]
    assert second.entries()[b'["c",{"f":"y"}]'] is None


def test_commits_at_the_same_time_share_writes_and_are_all_durable(tmp_path, monkeypatch):
    path = tmp_path / "offsets"
    store = opened(path)
    writes = []
    fsync = os.fsync
    monkeypatch.setattr(
        os, "fsync", lambda handle: (writes.append(handle), threading.Event().wait(0.05), fsync(handle))
    )
    at_once = threading.Barrier(20)

    def commit(number):
        at_once.wait(ample_s(5))
        store.set({b'["c",{"n":%d}]' % number: b"{}"})
        assert b'["c",{"n":%d}]' % number in load_map(path.read_bytes())

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ample_s(10))
    assert len(load_map(path.read_bytes())) == 20
    assert len(writes) / 2 < 12  # file and folder are synced in each write


def test_an_offset_that_can_not_be_read_counts_as_none(tmp_path, caplog):
    path = tmp_path / "offsets"
    path.write_bytes(dump_map({KEY: b"not json", b'["c",{"f":"y"}]': b'{"n":1}'}))
    store = opened(path)
    assert read_source_offsets(store, "c", [{"f": "x"}, {"f": "y"}]) == [None, {"n": 1}]
    assert "cannot be read" in caplog.text
    assert list_source_offsets(store, "c") == [ConnectorOffset({"f": "y"}, {"n": 1})]

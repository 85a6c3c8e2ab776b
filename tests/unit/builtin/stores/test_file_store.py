"""A store of files keeps its promises in a local folder and in a store of fsspec alike."""

from __future__ import annotations

import errno
import os
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import pytest

from kconnect.api import ConfigError, ConnectError, RetriableError
from kconnect.builtin.stores.file_store import FileStore, StoreSettings, file_store, typed_options

SETTINGS = StoreSettings("object.url", "object.options.")


def store_of(url: Any) -> FileStore:
    return file_store(str(url), {}, SETTINGS)


@pytest.fixture(params=["local", "file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> FileStore:
    urls = {"local": tmp_path, "file": f"file://{tmp_path}", "memory": f"memory://{uuid.uuid4().hex}"}
    made = store_of(urls[request.param])
    made.write(made.at("first.txt"), b"")
    made.remove(made.at("first.txt"))
    return made


def test_what_is_written_is_found_listed_and_read(store: FileStore) -> None:
    for name in ("a/b/one.csv", "a/two.csv", "a/three.json", "done/four.csv"):
        store.write(store.at(name), name.encode())
    assert store.read(store.at("a/two.csv")) == b"a/two.csv"
    with store.open(store.at("a/b/one.csv")) as file:
        file.seek(4)
        assert file.read() == b"one.csv"
    found = [one for one in store.listing(besides=store.at("done")) if one.path.endswith(".csv")]
    assert {(one.path, one.size) for one in found} == {(store.at("a/b/one.csv"), 11), (store.at("a/two.csv"), 9)}
    assert sorted(store.below(store.at("a/t"))) == [store.at("a/three.json"), store.at("a/two.csv")]
    assert sorted(store.names(store.at("a"))) == ["b", "three.json", "two.csv"]
    assert store.find(store.at("a/two.csv")) in found, "one etag, however it is looked at"


def test_a_url_may_name_one_file(store: FileStore) -> None:
    for name in ("a/one.csv", "a/one.csv.gz", "a/two.csv"):
        store.write(store.at(name), b"x")
    named = store_of(f"{store.url}/a/one.csv")
    assert [(one.path, one.size) for one in named.listing()] == [(store.at("a/one.csv"), 1)]


def test_what_is_not_there_is_nothing_and_no_error(store: FileStore) -> None:
    gone = store.at("no/such.file")
    assert (store.find(gone), store.read(gone), store.below(gone), store.names(store.at("no"))) == (None, None, [], [])
    store.remove(gone)
    assert store.move(gone, store.at("new")) is False
    with pytest.raises(ConnectError, match=f"Cannot open {re.escape(gone)}") as reported:
        store.open(gone)
    assert not isinstance(reported.value, RetriableError)
    assert reported.value.hint == "Check object.url."
    assert isinstance(reported.value.__cause__, FileNotFoundError)


def test_a_file_is_created_once_and_moved_over_another(store: FileStore) -> None:
    path, other = store.at("log/1.json"), store.at("new/1.json")
    assert store.create(path, b"mine") is True
    assert store.create(path, b"another's") is False
    assert store.read(path) == b"mine"
    store.write(other, b"before")
    assert store.move(path, other) is True
    assert (store.read(path), store.read(other)) == (None, b"mine")


def test_of_many_who_create_a_file_at_once_one_has_made_it(tmp_path: Any) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = pool.map(lambda number: store_of(tmp_path).create(f"{tmp_path}/x/1", b"%d" % number), range(32))
        assert sum(made) == 1
    assert os.listdir(tmp_path / "x") == ["1"], "and nothing unfinished is left"


def test_what_is_streamed_is_there_as_a_whole_or_not_at_all(tmp_path: Any) -> None:
    store = store_of(tmp_path)
    path = store.at("part/rows.parquet")
    with pytest.raises(RetriableError), store.open_new(path) as file:  # noqa: PT012
        file.write(b"half")
        assert store.find(path) is None
        assert [one for one in store.listing() if not one.path.endswith("/")] == []
        raise OSError(errno.EIO, "Input/output error")
    assert store.names(store.at("part")) == []
    with store.open_new(path) as file:
        file.write(b"whole")
    assert store.read(path) == b"whole"


def test_all_files_are_readable_as_the_umask_says(tmp_path: Any) -> None:
    store, before = store_of(tmp_path), os.umask(0o027)
    try:
        store.write(store.at("a"), b"")
        store.create(store.at("b"), b"")
        with store.open_new(store.at("c")):
            pass
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.iterdir())] == [0o640] * 3


def test_a_link_is_the_file_that_it_leads_to(tmp_path: Any) -> None:
    store = store_of(tmp_path / "in")
    store.write(store.at("real"), b"12345")
    os.symlink(tmp_path / "in" / "real", tmp_path / "in" / "link")
    os.symlink(tmp_path / "nowhere", tmp_path / "in" / "broken")
    os.symlink(tmp_path, tmp_path / "in" / "round")
    assert sorted((one.path, one.size) for one in store.listing()) == [(store.at("link"), 5), (store.at("real"), 5)]
    assert store.find(store.at("link")) in store.listing()


def test_whoever_does_more_than_one_thing_says_what_failed(tmp_path: Any) -> None:
    store = store_of(tmp_path)
    store.write(store.at("file"), b"")
    with pytest.raises(ConnectError) as reported, store.telling("write t-0 to", "table t"):
        store.write(store.at("file/below"), b"")
    assert str(reported.value) == f"Cannot write t-0 to table t: File exists: {store.at('file')}"
    with pytest.raises(ConnectError, match=f"Cannot write {store.at('file/below')}: "):
        store.write(store.at("file/below"), b"")


@pytest.mark.parametrize(
    ("error", "is_retried"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EIO, "Input/output error"), True),
        (OSError(errno.EROFS, "Read-only file system"), False),
        (PermissionError("Access Denied"), False),
        (ValueError("a setting"), False),
    ],
)
def test_what_may_pass_is_tried_again_in_every_call(
    error: Exception, is_retried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, root = fsspec.core.url_to_fs(f"memory://{uuid.uuid4().hex}")
    store = store_of(f"memory://{root}")

    def fails(*_: Any, **__: Any) -> None:
        raise error

    for name in ("find", "info", "ls", "cat_file", "pipe_file", "open", "cp_file", "rm_file"):
        monkeypatch.setattr(type(files), name, fails)
    calls = [
        lambda: store.listing(),
        lambda: store.find("x"),
        lambda: store.below("x/y"),
        lambda: store.names("x"),
        lambda: store.read("x"),
        lambda: store.open("x"),
        lambda: store.write("x", b""),
        lambda: store.create("x", b""),
        lambda: store.open_new("x").__enter__(),
        lambda: store.move("x", "y"),
        lambda: store.remove("x"),
    ]
    for call in calls:
        with pytest.raises(ConnectError, match="Cannot ") as reported:
            call()
        assert isinstance(reported.value, RetriableError) is is_retried


def test_options_of_the_store_have_types_and_secrets_stay_texts() -> None:
    given = {"key": "123", "secret": "0", "anon": "false", "block": "5", "client_kwargs": '{"region_name": "x"}'}
    found = typed_options(given, SETTINGS)
    assert found == {"key": "123", "secret": "0", "anon": False, "block": 5, "client_kwargs": {"region_name": "x"}}
    with pytest.raises(ConfigError, match=r"\[hidden\] for configuration object\.options\.client_kwargs"):
        typed_options({"client_kwargs": "{broken"}, SETTINGS)

"""The offsets file damaged, at the start or while it is in use: reported, kept aside, never overwritten in silence."""

from __future__ import annotations

import errno
import os
import re
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kconnect.errors import ConnectError
from kconnect.java.compat.serialized_map import dump_map, load_map
from kconnect.runtime.storage import FileOffsetStore
from kconnect.testing import ManualClock

KEY, OTHER = b'["c",{"f":"x"}]', b'["other",{"f":"x"}]'
# As a worker of four connectors leaves it: values, a tombstone, keys of different lengths.
REAL = {
    KEY: b'{"position":123456}',
    OTHER: b'{"n":1}',
    b'["gone",{"filename":"/var/log/app.log"}]': None,
    b'["jdbc",{"table":"orders","schema":"public"}]': b'{"incrementing":99,"timestamp":1712345678901}',
}
NOON = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp() * 1000)


def opened(path: Path) -> FileOffsetStore:
    store = FileOffsetStore(path, ManualClock(NOON))
    store.start()
    return store


def refusal(path: Path) -> ConnectError:
    with pytest.raises(ConnectError) as raised:
        opened(path)
    return raised.value


def copies(path: Path) -> list[Path]:
    return sorted(item for item in path.parent.iterdir() if item != path)


def test_a_file_cut_off_at_any_byte_is_reported_with_that_byte_and_kept_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda handle: None)  # hundreds of waits for the disk
    whole = dump_map(REAL)
    for size in range(1, len(whole)):
        path = tmp_path / str(size) / "offsets"
        path.parent.mkdir()
        path.write_bytes(whole[:size])
        reported = str(refusal(path))
        assert str(path) in reported
        assert re.search(rf"byte {size}\b|invalid stream header", reported), reported
        assert path.read_bytes() == whole[:size]
        (copy,) = copies(path)
        assert copy.read_bytes() == whole[:size]
    assert load_map(whole) == REAL


@pytest.mark.parametrize("change", [lambda data: b"\x00" * len(data), lambda data: data + b"\x00"], ids=["nul", "more"])
def test_what_is_no_offsets_file_is_reported_and_kept_aside(change, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(change(dump_map(REAL)))
    assert "is damaged or no offsets file" in str(refusal(path))
    assert [copy.read_bytes() for copy in copies(path)] == [path.read_bytes()]


def test_the_sentence_names_the_copy_and_the_hint_both_ways_out(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(dump_map(REAL)[:150])
    path.chmod(0o600)
    error = refusal(path)
    copy = tmp_path / "offsets.damaged-20260131T120000Z"
    assert str(error) == (
        f"The offsets file {path} (offset.storage.file.filename) is damaged or no offsets file: "
        f"the file ends at byte 150 in the middle of the class byte[]; a copy is kept as {copy}"
    )
    assert "Restore a backup" in (error.hint or "")
    assert "written again" in (error.hint or "")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


def test_every_further_start_finds_the_copy_and_makes_no_other_but_another_damage_has_its_own(tmp_path: Path) -> None:
    path = tmp_path / "off[s]ets"  # brackets mean something to glob
    path.write_bytes(b"damaged")
    for _ in range(3):
        refusal(path)
    assert [copy.name for copy in copies(path)] == ["off[s]ets.damaged-20260131T120000Z"]
    path.write_bytes(b"damaged otherwise")
    refusal(path)
    assert [copy.read_bytes() for copy in copies(path)] == [b"damaged", b"damaged otherwise"]


def test_where_no_copy_can_be_made_the_refusal_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(b"damaged")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    assert "it was left as it is, and no copy could be made of it (No space left on device)" in str(refusal(path))
    assert copies(path) == []


@pytest.mark.parametrize("size", [0, 1, 40, 150])
def test_a_file_cut_off_while_it_is_in_use_is_whole_again_after_the_next_commit(size: int, tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(dump_map(REAL))
    store = opened(path)
    os.truncate(path, size)
    store.set({KEY: b'{"position":2}'})
    assert load_map(path.read_bytes()) == REAL | {KEY: b'{"position":2}'}
    assert [copy.stat().st_size for copy in copies(path)] == ([size] if size else [])


def test_what_somebody_else_wrote_meanwhile_is_kept_aside_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "offsets"
    store = opened(path)
    second = opened(path)
    store.set({KEY: b"{}"})
    second.set({OTHER: b"{}"})  # it began before the first wrote, and knows nothing of it
    (copy,) = copies(path)
    assert load_map(copy.read_bytes()) == {KEY: b"{}"}
    assert f"was changed by somebody else while it was in use; what it held is kept in {copy}" in caplog.text
    assert load_map(path.read_bytes()) == {OTHER: b"{}"}


def test_what_can_not_be_kept_is_not_overwritten_and_the_offsets_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "offsets"
    store = opened(path)
    path.write_bytes(b"somebody else's")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        with pytest.raises(ConnectError, match=r"Cannot write the offsets file .*No space left"):
            store.set({KEY: b"{}"})
    assert path.read_bytes() == b"somebody else's"
    store.stop()
    assert load_map(path.read_bytes()) == {KEY: b"{}"}
    assert [copy.read_bytes() for copy in copies(path)] == [b"somebody else's"]


def test_a_file_removed_while_it_is_in_use_is_written_anew_with_all_offsets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(dump_map(REAL))
    store = opened(path)
    path.unlink()
    store.set({KEY: b"{}"})
    assert load_map(path.read_bytes()) == REAL | {KEY: b"{}"}
    assert "was removed while it was in use" in caplog.text


def test_a_file_that_was_only_touched_or_copied_over_itself_needs_no_copy(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    store = opened(path)
    store.set({KEY: b"{}"})
    os.utime(path)
    store.set({KEY: b'{"n":1}'})
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(content)
    store.set({KEY: b'{"n":2}'})
    assert copies(path) == []

"""What is shipped to executors: made once for its content, complete, and without what does not belong."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from kconnect.spark.shipping import LIBRARY, pack, shipments
from kit.pace import ample_s


def _folder(path: Path, **files: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / f"{name}.py").write_text(text)
    return path


def test_kconnect_in_the_zip_is_kconnect_as_it_is_here(tmp_path):
    (ship,) = shipments(None)
    packed = pack(ship, tmp_path / "cache", tmp_path)
    with zipfile.ZipFile(packed) as zipped:
        zipped.extractall(tmp_path / LIBRARY)
    assert not list((tmp_path / LIBRARY).rglob("*.pyc"))

    reported = subprocess.run(
        [sys.executable, "-c", "import kconnect.runtime.config.client_tables as found; print(found.__file__)"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / LIBRARY)},
        capture_output=True,
        text=True,
        timeout=ample_s(60),
    )

    assert reported.stdout.strip() == str(
        tmp_path / LIBRARY / "kconnect" / "runtime" / "config" / "client_tables.py"
    ), reported.stderr
    assert (tmp_path / LIBRARY / "kconnect" / "runtime" / "config" / "client_settings.json").exists()


def test_a_zip_is_made_once_for_its_content_and_again_for_other_content(tmp_path):
    plugins = _folder(tmp_path / "plugins", one="1")
    ship = shipments(str(plugins))[1]
    first, second = _folder(tmp_path / "app-1"), _folder(tmp_path / "app-2")

    made = pack(ship, tmp_path / "cache", first)
    again = pack(ship, tmp_path / "cache", second)
    _folder(plugins, two="2")
    other = pack(ship, tmp_path / "cache", second)

    assert made.samefile(again)
    assert not other.samefile(made)
    assert zipfile.ZipFile(other).namelist() == ["one.py", "two.py"]


def test_old_zips_are_swept_and_what_an_application_serves_stays(tmp_path):
    plugins = _folder(tmp_path / "plugins")
    ship = shipments(str(plugins))[1]
    served = []
    for number in range(9):
        _folder(plugins, **{f"module{number}": "x"})
        served.append(pack(ship, tmp_path / "cache", tmp_path))

    assert len(list((tmp_path / "cache").iterdir())) == 5
    assert all(path.exists() for path in served)


def test_links_in_a_plugin_folder_are_followed_and_a_loop_is_not(tmp_path):
    shared = _folder(tmp_path / "shared", helper="h")
    plugins = _folder(tmp_path / "plugins" / "mine", main="m").parent
    (plugins / "mine" / "lib").symlink_to(shared)
    (plugins / "mine" / "loop").symlink_to(plugins)

    packed = pack(shipments(str(plugins))[1], tmp_path / "cache", tmp_path)

    assert zipfile.ZipFile(packed).namelist() == ["mine/lib/helper.py", "mine/main.py"]


def test_each_plugin_folder_has_a_place_of_its_own_and_one_that_is_not_there_has_none(tmp_path):
    one, two = _folder(tmp_path / "one"), _folder(tmp_path / "two")

    ships = shipments(f"{one}, {tmp_path / 'nowhere'},{two}")

    assert [(ship.source, ship.unpacked_as) for ship in ships[1:]] == [
        (one, "kconnect-plugins-0"),
        (two, "kconnect-plugins-1"),
    ]


def test_an_empty_folder_is_a_zip_that_can_be_unpacked(tmp_path):
    packed = pack(shipments(str(_folder(tmp_path / "plugins")))[1], tmp_path / "cache", tmp_path)

    assert len(zipfile.ZipFile(packed).namelist()) == 1

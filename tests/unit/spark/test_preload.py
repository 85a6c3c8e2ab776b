"""The path of the daemon that forks slots: an installed pyspark takes the place of the zipped one, if there is one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kconnect.spark.preload import without_zipped_sources
from kit.pace import ample_s


def _spark_home(folder: Path) -> Path:
    for name in ("python/lib/pyspark.zip", "python/lib/py4j-0.10.9.9-src.zip", "jars/spark-core_2.13-4.3.0.jar"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return folder


def _sparks(home: Path) -> list[str]:
    """What Spark puts first on the path."""
    return [str(path) for folder in ("python/lib", "jars") for path in sorted((home / folder).iterdir())]


def _install(packages: Path) -> Path:
    for name in ("pyspark", "py4j"):
        (packages / name).mkdir(parents=True)
        (packages / name / "__init__.py").write_text("")
    return _spark_home(packages / "pyspark")


def test_the_sources_of_an_installed_pyspark_go_from_the_path(tmp_path):
    home = _install(tmp_path / "site-packages")
    rest = ["", "/usr/lib/python3.11", str(tmp_path / "site-packages"), str(tmp_path / "plugins")]

    assert without_zipped_sources([rest[0], *_sparks(home), *rest[1:]]) == rest


def test_a_link_to_an_installed_pyspark_counts_as_one(tmp_path):
    """SPARK_HOME of the image in docs/clusters.md."""
    home = _install(tmp_path / "site-packages")
    (tmp_path / "spark").symlink_to(home)
    site = str(tmp_path / "site-packages")

    assert without_zipped_sources([*_sparks(tmp_path / "spark"), site]) == [site]


def test_those_of_a_distribution_stay(tmp_path):
    """There pyspark is no installed package, and one that is may be of another version."""
    home = _spark_home(tmp_path / "opt" / "spark")
    _install(tmp_path / "site-packages")
    path = [*_sparks(home), str(tmp_path / "site-packages")]

    assert without_zipped_sources(path) == path


def test_those_of_an_installed_pyspark_that_is_not_on_the_path_stay(tmp_path):
    home = _install(tmp_path / "elsewhere")
    path = [*_sparks(home), str(tmp_path / "site-packages")]

    assert without_zipped_sources(path) == path


def test_a_path_without_sparks_sources_stays_as_it_is():
    assert without_zipped_sources(["", "/usr/lib/python3.11"]) == ["", "/usr/lib/python3.11"]


def test_garbage_of_slots_is_collected_but_not_what_stood_before_them():
    code = (
        "import gc; from kconnect.spark.preload import preload; preload(); print(gc.isenabled(), gc.get_freeze_count())"
    )
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=ample_s(60))
    is_on, frozen = reported.stdout.split()
    assert is_on == "True", reported.stderr
    assert int(frozen) > 10_000

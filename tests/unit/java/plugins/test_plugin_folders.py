"""Which folders of plugin.path hold Java's plugins."""

from __future__ import annotations

import zipfile
from pathlib import Path

from kconnect.java.plugins.folders import folders_of


def jar(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("com/a/Plugin.class", b"")


def test_each_folder_with_jars_and_each_jar_is_one_but_no_hidden_folder_and_no_environment_of_python(
    tmp_path: Path,
) -> None:
    for place in ("plugin/lib/a.jar", "alone.jar", ".venv/lib/spark.jar", ".git/b.jar", "env/jars/spark.jar"):
        jar(tmp_path / place)
    (tmp_path / "env" / "pyvenv.cfg").write_text("home = /usr\n")
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "plugin.py").write_text("")
    assert [found.location.name for found in folders_of(str(tmp_path))] == ["alone.jar", "plugin"]


def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    jar(tmp_path / "path" / "plugin" / "lib" / "a.jar")
    jar(tmp_path / "elsewhere" / "b.jar")
    plugin = tmp_path / "path" / "plugin"
    for name, target in (("loop", "."), ("up", ".."), ("b", "../../elsewhere"), ("again", "b"), ("nowhere", "no")):
        (plugin / name).symlink_to(target)
    (found,) = folders_of(str(tmp_path / "path"))
    assert sorted(found_jar.name for found_jar in found.jars) == ["a.jar", "b.jar"]

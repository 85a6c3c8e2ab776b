"""Java's plugins are found in jars without a JVM."""

from __future__ import annotations

import zipfile
from pathlib import Path

from kconnect.java.plugins import JavaIndex

_SOURCE = "META-INF/services/org.apache.kafka.connect.source.SourceConnector"
_SINK = "META-INF/services/org.apache.kafka.connect.sink.SinkConnector"


def jar(path: Path, **members: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def test_each_sub_folder_with_jars_is_a_plugin_and_so_is_each_jar_beside_them(tmp_path: Path) -> None:
    jar(tmp_path / "one" / "lib" / "a.jar", **{_SOURCE: "com.example.A # the first\n\n#none\ncom.example.B\n"})
    jar(tmp_path / "two.jar", **{_SINK: "com.example.C"})
    (tmp_path / "python").mkdir()
    (tmp_path / "python" / "plugin.py").write_text("")
    index = JavaIndex.of(f"{tmp_path}, {tmp_path / 'missing'}")
    assert [folder.location for folder in index.folders] == [tmp_path / "one", tmp_path / "two.jar"]
    assert index.named() == {
        "com.example.A": {"source": [tmp_path / "one"]},
        "com.example.B": {"source": [tmp_path / "one"]},
        "com.example.C": {"sink": [tmp_path / "two.jar"]},
    }
    assert index.kinds("com.example.C") == frozenset(), "it is nowhere"


def test_a_class_without_a_service_is_found_by_its_full_name_in_the_listing_of_a_jar(tmp_path: Path) -> None:
    jar(
        tmp_path / "one" / "a.jar",
        **{"com/example/Outer$Inner.class": "", "META-INF/versions/9/com/example/X.class": ""},
    )
    index = JavaIndex.of(str(tmp_path))
    assert index.locations("com.example.Outer$Inner") == [tmp_path / "one"]
    assert index.locations("Outer$Inner") == []
    assert index.locations("versions.9.com.example.X") == []
    assert index.kinds("com.example.Outer$Inner") == frozenset()


def test_a_class_in_two_folders_has_two_places(tmp_path: Path) -> None:
    for name in ("b", "a"):
        jar(tmp_path / name / "x.jar", **{_SOURCE: "com.example.A"})
    assert JavaIndex.of(str(tmp_path)).locations("com.example.A") == [tmp_path / "a", tmp_path / "b"]


def test_a_jar_that_is_none_is_reported_once_and_the_others_count(tmp_path: Path, caplog) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "broken.jar").write_text("this is no archive")
    jar(tmp_path / "one" / "good.jar", **{_SOURCE: "com.example.A"})
    index = JavaIndex.of(str(tmp_path))
    assert list(index.named()) == ["com.example.A"]
    assert index.locations("com.example.Z") == []
    assert [record.getMessage() for record in caplog.records] == [
        f"plugin.path: {tmp_path}/one/broken.jar cannot be read as a Java archive: File is not a zip file; "
        "what it holds cannot be used."
    ]


def test_without_a_plugin_path_there_is_nothing() -> None:
    assert not JavaIndex.of(None)
    assert not JavaIndex.of(" , ")

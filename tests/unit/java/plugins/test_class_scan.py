"""Plugins are found among classes by what they extend and implement."""

from __future__ import annotations

import struct
from pathlib import Path

from kconnect.java.plugins.class_files import JavaClass, read_class
from kconnect.java.plugins.index import Discovery, JavaIndex, plugin_classes

_TRANSFORMATION = "org.apache.kafka.connect.transforms.Transformation"
_PUBLIC, _ABSTRACT = 0x0021, 0x0421


def class_file(name: str, parent: str, *interfaces: str, access: int = _PUBLIC) -> bytes:
    """A class file up to its interfaces, after constants of each kind."""
    names = [name, parent, *interfaces]
    constants = [b"\x05" + bytes(8), b"\x03" + bytes(4), b"\x0f" + bytes(3)]
    first = 2 + len(constants)  # a long takes two places
    for index, one in enumerate(names):
        text = one.replace(".", "/").encode()
        constants.append(b"\x07" + struct.pack(">H", first + 2 * index + 1))
        constants.append(b"\x01" + struct.pack(">H", len(text)) + text)
    head = b"\xca\xfe\xba\xbe" + struct.pack(">HHH", 0, 61, 2 + len(constants)) + b"".join(constants)
    places = [first + 2 * index for index in range(len(names))]
    return head + struct.pack(f">HHHH{len(interfaces)}H", access, *places[:2], len(interfaces), *places[2:])


def test_a_class_file_names_its_class_and_what_it_extends() -> None:
    data = class_file("com.example.Plugin", "com.example.Base", _TRANSFORMATION, access=_ABSTRACT)
    found = JavaClass("com.example.Plugin", ("com.example.Base", _TRANSFORMATION), is_public=True, is_concrete=False)
    assert read_class(data) == found
    assert read_class(data[:40]) is None
    assert read_class(b"no class file") is None


def test_plugins_are_public_concrete_classes_whose_parents_are_public_too() -> None:
    def made(name: str, *parents: str, is_public: bool = True, is_concrete: bool = True) -> JavaClass:
        return JavaClass(name, parents, is_public, is_concrete)

    classes = [
        made("Plain", "java.lang.Object", _TRANSFORMATION),
        made("Base", "java.lang.Object", _TRANSFORMATION, is_concrete=False),
        made("Child", "Base"),
        made("Hidden", "java.lang.Object", _TRANSFORMATION, is_public=False),
        made("OfHidden", "Hidden"),
        made("OfKafka", "org.apache.kafka.connect.transforms.InsertField$Value"),
        made("Both", "org.apache.kafka.connect.json.JsonConverter", _TRANSFORMATION),
        made("Circle", "Circle"),
        made("Other", "java.lang.Object"),
    ]
    assert plugin_classes(classes) == {
        "Plain": {"transformation"},
        "Child": {"transformation"},
        "OfKafka": {"transformation"},
        "Both": {"converter", "header_converter", "transformation"},
    }


def test_discovery_says_whether_manifests_or_classes_count(tmp_path: Path) -> None:
    tree = tmp_path / "path" / "tree"
    (tree / "META-INF" / "services").mkdir(parents=True)
    for name in ("Named", "Unnamed"):
        (tree / f"{name}.class").write_bytes(class_file(name, "java.lang.Object", _TRANSFORMATION))
    (tree / "META-INF" / "services" / _TRANSFORMATION).write_text("Named\nAbsent\n")

    def found(discovery: Discovery) -> set[str]:
        return set(JavaIndex.of(str(tmp_path / "path"), discovery).plugins())

    assert found(Discovery.SERVICE_LOAD) == {"Named", "Absent"}
    assert found(Discovery.ONLY_SCAN) == {"Named", "Unnamed"}
    assert found(Discovery.HYBRID_WARN) == found(Discovery.HYBRID_FAIL) == {"Named", "Absent", "Unnamed"}
    index = JavaIndex.of(str(tmp_path / "path"), "HYBRID_WARN")
    assert index.without_manifest() == [("Unnamed", "transformation", tree)]
    assert index.locations("Unnamed") == [tree]
    assert JavaIndex.of(str(tmp_path / "path"), "service_load").locations("Unnamed") == []
    (tree / "Late.class").write_bytes(class_file("Late", "java.lang.Object", _TRANSFORMATION))
    assert "Late" in found(Discovery.ONLY_SCAN), "what is kept is of other files"


def test_a_class_is_what_it_extends_whatever_a_manifest_says(tmp_path: Path) -> None:
    """Its parent lies in another jar, here another file; a name that no class can have is none. A manifest in a folder
    that lacks the class takes nothing from the folder that has it.
    """
    source, sink = "org.apache.kafka.connect.source.SourceConnector", "org.apache.kafka.connect.sink.SinkConnector"
    tree = tmp_path / "path" / "tree"
    services = tree / "META-INF" / "services"
    services.mkdir(parents=True)
    (tree / "Base.class").write_bytes(class_file("Base", source, access=_ABSTRACT))
    (tree / "Reads.class").write_bytes(class_file("Reads", "Base"))
    (tree / "Nothing.class").write_bytes(class_file("Nothing", "java.lang.Object"))
    (services / sink).write_text("Reads\nNothing\nReads twice\n")
    (services / source).write_text("\ufeffReads\nReads\nAbsent\n")
    other = tmp_path / "path" / "another" / "META-INF" / "services"
    other.mkdir(parents=True)
    (other.parent.parent / "Other.class").write_bytes(class_file("Other", "java.lang.Object"))
    (other / source).write_text("Reads\n")
    for discovery in Discovery:
        index = JavaIndex.of(str(tmp_path / "path"), discovery)
        assert {name: index.kinds(name) for name in ("Reads", "Nothing", "Absent")} == {
            "Reads": {"source"},
            "Nothing": frozenset(),
            "Absent": frozenset(),
        }
        assert {"Reads", *index.plugins()} <= {"Reads", "Nothing", "Absent"}
        if discovery.reads_classes:
            assert tree in index.plugins()["Reads"]["source"]
            assert "sink" not in index.plugins()["Reads"]

"""Names to plugin classes: Java names, aliases, entry points, Python classes, plugin.path folders; and the list."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from kconnect.api import ConfigDef, ConfigError, Converter, SinkConnector, SourceConnector, Transformation
from kconnect.builtin.connectors.file_source import FileStreamSourceConnector
from kconnect.model import CONNECT_VERSION
from kconnect.runtime.plugins import PluginRegistry
from kconnect.runtime.plugins.aliases import BUILTINS, PluginType, short_names
from kconnect.runtime.plugins.isolation import PluginFolders
from kconnect.runtime.plugins.python_classes import python_class
from kit.differences import hold_alike
from kit.places import GOLDEN

CONNECTOR = """
from kconnect.api import ConfigDef, SourceConnector, SourceTask

class {name}Task(SourceTask):
    def start(self, props): pass
    def poll(self): return None
    def stop(self): pass

class {name}(SourceConnector):
    def start(self, props): pass
    def task_class(self): return {name}Task
    def task_configs(self, max_tasks): return []
    def stop(self): pass
    def config(self): return ConfigDef()
    def version(self): return "1.2"
"""


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return PluginRegistry(PluginFolders())


@pytest.fixture
def clean_imports() -> Iterator[None]:
    """Plugin folders change sys.path and sys.modules: put both back."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_every_java_name_of_the_table_leads_to_a_class_of_each_of_its_types(registry: PluginRegistry) -> None:
    assert (
        hold_alike([(plugin.java_name, plugin) for plugin in BUILTINS], lambda plugin: look_up(registry, plugin)) >= 64
    )


def look_up(registry: PluginRegistry, plugin: Any) -> None:
    find = {
        PluginType.SINK: registry.connector_class,
        PluginType.SOURCE: registry.connector_class,
        PluginType.TRANSFORMATION: registry.transformation,
        PluginType.PREDICATE: registry.predicate,
        PluginType.CONVERTER: registry.converter,
        PluginType.HEADER_CONVERTER: registry.header_converter,
    }
    for kind in plugin.types:
        found = find[kind](plugin.java_name)
        assert f"{found.__module__}:{found.__qualname__}" == plugin.target
        assert registry.java_name(found) == plugin.java_name
        assert found().version() == CONNECT_VERSION


@pytest.mark.parametrize(
    "name",
    [
        "FileStreamSource",
        "FileStreamSourceConnector",
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "kconnect.builtin.connectors.file_source.FileStreamSourceConnector",
        "kconnect.builtin.connectors.file_source:FileStreamSourceConnector",
        " FileStreamSource ",
    ],
)
def test_a_connector_is_found_by_each_of_its_names(registry: PluginRegistry, name: str) -> None:
    assert registry.connector_class(name) is FileStreamSourceConnector


@pytest.mark.parametrize(
    "name",
    [
        "kconnect.builtin.connectors.sql_sink.SqlSinkConnector",
        "kconnect.builtin.connectors.sql.sql_sink.SqlSinkConnector",
        "kconnect.builtin.connectors.sql_source:SqlSourceConnector",
        "kconnect.builtin.connectors.jdbc.JdbcSinkConnector",
        "kconnect.schema_registry.avro.avro_converter.AvroConverter",
    ],
)
def test_a_class_is_found_by_the_path_that_it_had_before(name: str) -> None:
    assert [found.__name__ for found in python_class(name)] == [re.split(r"[.:]", name)[-1]]


def test_other_kinds_are_found_by_alias(registry: PluginRegistry) -> None:
    assert registry.converter("Json") is registry.converter("JsonConverter")
    assert registry.header_converter("Simple") is registry.header_converter("SimpleHeaderConverter")
    assert registry.transformation("InsertField$Value").__name__ == "InsertFieldValue"
    assert registry.transformation("RegexRouter").__name__ == "RegexRouter"
    assert registry.predicate("TopicNameMatches").__name__ == "TopicNameMatches"


def test_short_names_are_those_that_java_derives() -> None:
    assert short_names("a.b.JsonConverter", PluginType.CONVERTER) == ("JsonConverter", "Json")
    assert short_names("a.b.SimpleHeaderConverter", PluginType.HEADER_CONVERTER) == ("SimpleHeaderConverter", "Simple")
    assert short_names("a.b.FileStreamSinkConnector", PluginType.SINK) == ("FileStreamSinkConnector", "FileStreamSink")
    assert short_names("a.b.RegexRouter", PluginType.TRANSFORMATION) == ("RegexRouter",)
    assert short_names("a.b.Connector", PluginType.SINK) == ("Connector",)


def test_an_unknown_connector_is_refused_in_javas_words(registry: PluginRegistry) -> None:
    transcript = json.loads((GOLDEN / "standalone" / "rest-transcript.json").read_text("utf-8"))
    body = next(entry["response_body"] for entry in transcript if entry["name"] == "post_unknown_class")
    java = json.loads(body)["message"]
    with pytest.raises(ConfigError) as caught:
        registry.connector_class("x.Y")
    ours = str(caught.value)
    lead = "Failed to find any class that implements Connector and which name matches x.Y, available connectors are: "
    assert java.startswith(lead)
    assert ours.startswith(lead)
    # One description of each file connector, as Java shows it, save for where it lies.
    for name in ("Sink", "Source"):
        start = java.index(f"PluginDesc{{klass=class org.apache.kafka.connect.file.FileStream{name}Connector")
        assert java[start : java.index("location=", start)] + "location='classpath'}" in ours


def test_a_name_that_means_nothing_is_explained_once_however_many_connectors_have_it(registry: PluginRegistry) -> None:
    raised = []
    for _ in range(2):
        with pytest.raises(ConfigError) as caught:
            registry.connector_class("x.Nothing")
        raised.append(caught.value)
    first, second = raised
    assert first is not second, "each is raised, with a trace of its own"
    assert (str(second), second.hint) == (str(first), first.hint)
    assert second.problems[0] is first.problems[0]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("FileStreamSuorce", "Did you mean FileStreamSource?"),
        ("org.apache.kafka.connect.file.FileStreamSourceConector", "Did you mean "),
        (
            "JsonConverter",
            "JsonConverter is a class (kconnect.builtin.converters.json_converter.JsonConverter), but not a Connector.",
        ),
        (
            "",
            "Available connectors: JdbcSink, JdbcSource, S3Sink, HttpJsonSource, ",
        ),
    ],
)
def test_an_unknown_name_comes_with_a_hint(registry: PluginRegistry, name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.connector_class(name)
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("FlaotConverter", "Did you mean FloatConverter?"),
        ("org.apache.kafka.connect.convertors.LongConvertor", "Did you mean LongConverter?"),
        ("org.x.LongConvertor", "Available converters: "),  # of others, who mean something else by it
        ("io.apicurio.JsonConverter", "Available converters: "),
        ("nosuch.Converter", "Available converters: "),
        ("com.example.MessageConverter", "Available converters: "),
    ],
)
def test_a_converter_is_not_near_only_because_it_is_called_converter(
    registry: PluginRegistry, name: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.converter(name)
    assert (caught.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    "name",
    [
        "io.confluent.connect.transforms.Filter$Value",
        "io.confluent.connect.transforms.MessageTimestampRouter",
        "io.debezium.transforms.Filter",
        "io.aiven.kafka.connect.transforms.MaskField$Value",
    ],
)
def test_a_transformation_of_others_is_not_taken_for_kafkas_of_that_name(registry: PluginRegistry, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.transformation(name)
    assert "Did you mean" not in (caught.value.hint or "")
    assert registry.nearest(name, "transformation") == []
    assert registry.nearest("org.apache.kafka.connect.transform.Filter", "transformation") == ["Filter"]


def test_the_list_has_javas_names_types_versions_and_order(registry: PluginRegistry) -> None:
    ours = [info.to_json() for info in registry.describe()]
    entries = (json.loads(line) for line in [json.dumps(e) for e in _transcript()] if "connectorsOnly=false" in line)
    java = next(json.loads(e["response_body"]) for e in entries if e.get("status") == 200 and e["method"] == "GET")
    shipped = [plugin for plugin in java if plugin in ours]
    # The verifiable connectors are in a jar of Java's own tests, which a release does not have
    besides = ("kconnect.", "org.apache.kafka.connect.tools.", "io.confluent.", "io.apicurio.")
    assert [plugin for plugin in ours if not plugin["class"].startswith(besides)] == shipped
    assert len(ours) == sum(len(plugin.types) for plugin in BUILTINS)


@pytest.mark.parametrize("name", ["FileStreamSource", "Json", "Cast$Value", "HasHeaderKey", "a.b.Unknown"])
def test_one_of_the_list_is_described_as_the_list_has_it(registry: PluginRegistry, name: str) -> None:
    full = registry.known_as(name)
    assert registry.describe_one(name) == [info for info in registry.describe() if info.class_name == full]


def _transcript() -> list[dict[str, Any]]:
    document = json.loads((GOLDEN / "rest" / "transcript.json").read_text("utf-8"))
    return next(part for part in document.values() if isinstance(part, list))


class Shouting(Transformation):
    def configure(self, configs: Any) -> None: ...
    def apply(self, record: Any) -> Any:
        return record

    def config(self) -> ConfigDef:
        return ConfigDef()


class Temperamental(Shouting):
    def __init__(self) -> None:
        raise RuntimeError("not today")


def test_an_entry_point_is_found_by_its_name_its_value_and_its_class(caplog: pytest.LogCaptureFixture) -> None:
    point = EntryPoint("shout", f"{__name__}:Shouting", "kconnect.plugins")
    sys.modules.setdefault(__name__, sys.modules[Shouting.__module__])
    registry = PluginRegistry(PluginFolders(), (point,))
    for name in ("shout", point.value, point.value.replace(":", "."), "Shouting"):
        assert registry.transformation(name) is Shouting
    found = [info for info in registry.describe() if info.class_name.endswith(".Shouting")]
    assert [(info.class_name, info.type, info.version) for info in found] == [
        (f"{Shouting.__module__}.Shouting", "transformation", "undefined")
    ]


def test_an_entry_point_that_fails_is_left_out_of_the_list_and_named_when_asked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    registry = PluginRegistry(PluginFolders(), (EntryPoint("gone", "no_such_module:Gone", "kconnect.plugins"),))
    with caplog.at_level(logging.WARNING):
        assert registry.describe()
    assert "Plugin no_such_module:Gone cannot be imported: ModuleNotFoundError" in caplog.text
    with pytest.raises(ConfigError, match="Plugin no_such_module:Gone cannot be imported"):
        registry.transformation("gone")


def test_a_plugin_whose_constructor_raises_is_listed_without_version(caplog: pytest.LogCaptureFixture) -> None:
    sys.modules.setdefault(__name__, sys.modules[Temperamental.__module__])
    registry = PluginRegistry(PluginFolders(), (EntryPoint("t", f"{__name__}:Temperamental", "kconnect.plugins"),))
    versions = {info.class_name: info.version for info in registry.describe()}
    assert versions[f"{Temperamental.__module__}.Temperamental"] == "undefined"
    assert "not today" in caplog.text


@pytest.mark.usefixtures("clean_imports")
def test_a_python_class_is_found_by_its_path_and_a_broken_module_is_named(
    registry: PluginRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kc_test_ok.py").write_text(CONNECTOR.format(name="Ok"))
    (tmp_path / "kc_test_broken.py").write_text("import kc_no_such_library\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.connector_class("kc_test_ok.Ok").__name__ == "Ok"
    with pytest.raises(ConfigError, match=r"kc_test_broken\.Ok cannot be imported: .*kc_no_such_library"):
        registry.connector_class("kc_test_broken.Ok")
    with pytest.raises(ConfigError, match="Failed to find any class that implements Connector"):
        registry.connector_class("kc_test_ok.Missing")


@pytest.mark.usefixtures("clean_imports")
def test_plugins_in_plugin_path_folders_are_found_by_every_name(tmp_path: Path) -> None:
    module = tmp_path / "one" / "kc_one.py"
    package = tmp_path / "two" / "kc_two" / "inner.py"
    itself = tmp_path / "kc_three" / "__init__.py"
    loose = tmp_path / "kc_four.py"
    for file, name in ((module, "OneConnector"), (package, "Two"), (itself, "Three"), (loose, "Four")):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CONNECTOR.format(name=name))
    (package.parent / "__init__.py").write_text("")
    registry = PluginRegistry.load(str(tmp_path))
    for name in ("One", "OneConnector", "kc_one.OneConnector", "Two", "kc_two.inner.Two", "Three", "Four"):
        assert issubclass(registry.connector_class(name), SourceConnector)
    own = {info.class_name: info for info in registry.describe() if info.class_name.startswith("kc_")}
    assert sorted(own) == ["kc_four.Four", "kc_one.OneConnector", "kc_three.Three", "kc_two.inner.Two"]
    one = own["kc_one.OneConnector"]
    assert (one.type, one.version, one.location) == ("source", "1.2", str(tmp_path / "one"))


@pytest.mark.usefixtures("clean_imports")
def test_two_plugins_with_the_same_module_name_are_distinguished_in_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kc_same.py").write_text(CONNECTOR.format(name=f"From{folder.upper()}"))
    registry = PluginRegistry.load(str(tmp_path))
    assert registry.connector_class("FromA").__name__ == "FromA"
    conflict = f"module kc_same of the plugin in {tmp_path / 'b'} is hidden by {tmp_path / 'a' / 'kc_same.py'}"
    assert conflict in caplog.text
    with pytest.raises(ConfigError) as caught:
        registry.connector_class("SomethingElseAltogether")
    assert conflict in (caught.value.hint or "")


@pytest.mark.usefixtures("clean_imports")
def test_a_module_that_raises_does_not_hide_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "kc_bad.py").write_text(f"{CONNECTOR.format(name='Bad')}\nraise SystemExit(3)\n")
    (tmp_path / "p" / "kc_good.py").write_text(CONNECTOR.format(name="Good"))
    registry = PluginRegistry.load(str(tmp_path))
    assert registry.connector_class("Good").__name__ == "Good"
    with pytest.raises(ConfigError) as caught:
        registry.connector_class("Bad")
    assert "module kc_bad of plugin.path cannot be imported: SystemExit: 3" in (caught.value.hint or "")
    assert "module kc_bad cannot be imported, skipped: SystemExit: 3, at " in caplog.text
    assert "raise SystemExit(3)" in caplog.text


@pytest.mark.usefixtures("clean_imports")
def test_only_the_module_that_is_named_is_imported(tmp_path: Path) -> None:
    """Beside plugins lie scripts; one that starts a Spark job when it is imported would start it in every worker."""
    for name in ("Named", "Other"):
        text = f"open(__file__ + '.ran', 'w').close()\n{CONNECTOR.format(name=name)}"
        (tmp_path / f"kc_{name.lower()}.py").write_text(text)
    (tmp_path / "kc_job.py").write_text("open(__file__ + '.ran', 'w').close()\n")
    registry = PluginRegistry.load(str(tmp_path))
    listed = {info.class_name: (info.type, info.version) for info in registry.describe()}
    assert listed["kc_named.Named"] == listed["kc_other.Other"] == ("source", "1.2")
    with pytest.raises(ConfigError, match="SourceNobodyHas"):
        registry.connector_class("SourceNobodyHas")
    assert not list(tmp_path.glob("*.ran"))
    assert registry.connector_class("Named").__name__ == "Named"
    assert [path.name for path in tmp_path.glob("*.ran")] == ["kc_named.py.ran"]


@pytest.mark.usefixtures("clean_imports")
@pytest.mark.parametrize("is_listed_first", [True, False])
@pytest.mark.parametrize("place", [".", "sub", "sub/lib/python"])
def test_a_module_that_comes_later_is_found(tmp_path: Path, place: str, is_listed_first: bool) -> None:
    """In a folder that is not there yet, and in sub-folders as deep as Java's jars."""
    registry = PluginRegistry.load(str(tmp_path / "plugins"))
    with pytest.raises(ConfigError):
        registry.connector_class("Later")
    before = {info.class_name for info in registry.describe()}
    (tmp_path / "plugins" / place).mkdir(exist_ok=True, parents=True)
    (tmp_path / "plugins" / place / "kc_later.py").write_text(CONNECTOR.format(name="Later"))
    if is_listed_first:
        assert {info.class_name for info in registry.describe()} - before == {"kc_later.Later"}
    assert registry.connector_class("Later").__name__ == "Later"
    found = {info.class_name: info.location for info in registry.describe()}
    assert found["kc_later.Later"] == str(tmp_path / "plugins" / place.partition("/")[0])


@pytest.mark.usefixtures("clean_imports")
def test_folders_that_have_not_changed_are_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "kc_old.py").write_text(CONNECTOR.format(name="Old"))
    for folder in (tmp_path, tmp_path / "sub"):
        os.utime(folder, (1, 1))
    folders = PluginFolders.read(str(tmp_path))
    folders.open()
    assert folders.seen == {tmp_path: 10**9, tmp_path / "sub": 10**9}
    (tmp_path / "sub" / "kc_new.py").write_text(CONNECTOR.format(name="New"))
    now = folders.refreshed()
    assert now is not None
    assert [root.modules for root in now.roots] == [("kc_new", "kc_old")]
    os.utime(tmp_path / "sub", (1, 1))
    assert folders.refreshed() is None


@pytest.mark.usefixtures("clean_imports")
def test_what_pip_installed_into_a_plugin_folder_is_not_searched_but_its_entry_points_count(tmp_path: Path) -> None:
    root = tmp_path / "bundle"
    info = root / "kc_bundle-1.0.dist-info"
    info.mkdir(parents=True)
    (root / "kc_bundle.py").write_text(CONNECTOR.format(name="Bundled"))
    (root / "kc_dependency.py").write_text("raise AssertionError('a dependency was searched for plugins')\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kc-bundle\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kconnect.plugins]\nbundled = kc_bundle:Bundled\n")
    (info / "RECORD").write_text("kc_bundle.py,,\nkc_dependency.py,,\n")
    registry = PluginRegistry.load(str(tmp_path))
    assert registry.connector_class("bundled").__name__ == "Bundled"
    assert "kc_bundle.Bundled" in {plugin.class_name for plugin in registry.describe()}


def test_what_pip_installs_meanwhile_is_there_for_the_next_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigError):
        PluginRegistry.load().connector_class("late")
    (tmp_path / "kc_late.py").write_text(CONNECTOR.format(name="Late"))
    info = tmp_path / "kc_late-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kc-late\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[kconnect.plugins]\nlate = kc_late:Late\n")
    assert PluginRegistry.load().connector_class("late").__name__ == "Late"


def test_folders_and_jars_of_java_are_no_python_plugins(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    jars = tmp_path / "connect-file"
    jars.mkdir()
    for name in ("a.jar", "b.jar"):
        (jars / name).write_bytes(b"PK")
    with caplog.at_level(logging.INFO):
        folders = PluginFolders.read(f"{tmp_path}, {jars / 'a.jar'}, {tmp_path / 'missing'},")
    assert folders.roots == ()
    assert [record.getMessage() for record in caplog.records] == [
        f"plugin.path: {tmp_path / 'missing'} is not a folder; skipped.",
    ]


def test_a_slot_beside_its_worker_does_not_tell_again_what_is_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.jar").write_bytes(b"PK")
    with caplog.at_level(logging.INFO):
        PluginFolders.read(f"{tmp_path}, {tmp_path / 'a.jar'}, {tmp_path / 'missing'}", tells_skipped=False)
    assert caplog.records == []


@pytest.mark.usefixtures("clean_imports")
def test_an_alias_that_fits_two_plugins_is_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"kc_twin_{folder}.py").write_text(CONNECTOR.format(name="Twin"))
    registry = PluginRegistry.load(str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        registry.connector_class("Twin")
    assert str(caught.value) == (
        "More than one connector matches alias Twin. Please use full package and class name instead. "
        "Classes found: kc_twin_a.Twin, kc_twin_b.Twin"
    )
    files = [tmp_path / folder / f"kc_twin_{folder}.py" for folder in ("a", "b")]
    assert caught.value.hint == f"They are kc_twin_a.Twin in {files[0]} and kc_twin_b.Twin in {files[1]}."
    assert registry.connector_class("kc_twin_b.Twin").__module__ == "kc_twin_b"


def test_types_of_what_is_found_are_those_asked_for(registry: PluginRegistry) -> None:
    assert issubclass(registry.connector_class("FileStreamSink"), SinkConnector)
    assert issubclass(registry.converter("StringConverter"), Converter)

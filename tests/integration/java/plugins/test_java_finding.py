"""Java's plugins in several versions, without manifests, and those of the worker: which class runs, what is refused."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from zipfile import ZipFile

import pytest

from kconnect.api import ClientType, ConfigProvider, ConnectorClientConfigRequest, SourceConnector, SourceRecord
from kconnect.errors import ConfigError, ConnectError, EnvironmentProblemError
from kconnect.java.kafka_jars import JarSet
from kconnect.java.plugins import JavaSettings
from kconnect.java.plugins.folders import JavaFolder
from kconnect.java.plugins.index import BASES, OF_KAFKA, plugin_classes
from kconnect.logs.log_context import current_place, log_context
from kconnect.model import ConnectorType
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.herder.validation.override_policies import load_policy
from kconnect.runtime.plugins import PluginRegistry, worker_variables
from kit.java_finding import found_folder
from kit.waiting import eventually

_TICKER = "found.Found$Ticker"
_WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All plugins in versions 1.0.0 and 2.5.0; a transformation in 3.1.0, which no manifest names."""
    path = tmp_path_factory.mktemp("found")
    found_folder(path / "old", "1.0.0")
    found_folder(path / "new", "2.5.0")
    found_folder(path / "stamps", "3.1.0", only=("Stamp",), manifest=False)
    return path


@pytest.fixture(scope="module")
def registry(plugin_path: Path) -> Iterator[PluginRegistry]:
    made = PluginRegistry.load(str(plugin_path), java=JavaSettings(heap="128m"))
    assert made.connector_class(_TICKER)().version() == "2.5.0"  # the JVM is up
    yield made
    made.close()


def stamped(registry: PluginRegistry, version: str | None, beside: type | None = None) -> str:
    """What a transformation makes of a record."""
    stamp = registry.transformation("Stamp", version, beside)()
    with closing(stamp):
        stamp.configure({})
        return str(stamp.apply(SourceRecord({}, {}, "t", "x")).value)


def test_the_newest_version_runs_unless_another_one_is_asked_for(registry: PluginRegistry) -> None:
    assert stamped(registry, None) == stamped(registry, "latest") == "x stamp 3.1.0"
    assert stamped(registry, "1.0.0") == stamped(registry, "[0,2)") == "x stamp 1.0.0"
    assert stamped(registry, "(,2.5.0]") == "x stamp 2.5.0"
    old = registry.connector_class(_TICKER, "(,2)")
    assert stamped(registry, None, beside=old) == "x stamp 1.0.0", "the connector's own copy goes first"
    assert stamped(registry, "[2,)", beside=old) == "x stamp 3.1.0", "unless its version is not the one"
    assert [registry.connector_class(_TICKER, asked)().version() for asked in (None, "1.0.0")] == ["2.5.0", "1.0.0"]
    words = registry.converter("Words", "1.0.0")()
    with closing(words):
        words.configure({}, False)
        assert words.from_connect_data("t", None, "x") == b"x words 1.0.0"


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (
            "[7,)",
            f"Plugin {_TICKER} not found that matches the version range [7,), available versions: [1.0.0, 2.5.0]",
        ),
        ("(1", "Unbounded range: (1"),
    ],
)
def test_a_version_that_is_not_there_is_refused_in_javas_words(
    registry: PluginRegistry, wanted: str, text: str
) -> None:
    plugin = registry.connector_class(_TICKER, wanted)()
    with pytest.raises(ConfigError) as raised:
        registry.require_version(plugin, wanted)
    assert str(raised.value) == text


def test_lists_have_every_version_and_what_has_no_manifest_but_not_what_cannot_be_loaded(
    registry: PluginRegistry, plugin_path: Path
) -> None:
    listed = [
        (info.class_name.partition("$")[2], info.type, info.version, Path(info.location).name)
        for info in registry.describe()
        if info.class_name.startswith("found.")
    ]
    both = (("1.0.0", "old"), ("2.5.0", "new"))
    assert listed == [
        *(("Ticker", "source", *place) for place in both),
        *(("Stamp", "transformation", *place) for place in (*both, ("3.1.0", "stamps"))),
        *(("Unnamed", "transformation", *place) for place in both),
        *(("Always", "predicate", *place) for place in both),
        *(("Words", "converter", *place) for place in both),
        *(("Words", "header_converter", *place) for place in both),
    ]


def test_validation_takes_the_settings_of_the_version_that_is_asked_for(registry: PluginRegistry) -> None:
    validator = ConnectorValidator(registry, _WORKER, Variables())

    def values(**given: str) -> dict[str, tuple[object, list[str], list[object]]]:
        asked = {key.replace("_", "."): value for key, value in given.items()}
        infos = validator.validate({"name": "v", "connector.class": _TICKER, "topic": "t", **asked})
        return {
            info.value.name: (info.value.value, info.value.error_messages, info.value.recommended_values)
            for info in infos.configs
            if info.value is not None
        }

    newest, old = values(), values(connector_plugin_version="[1,2)")
    assert newest["made.by"] == ("2.5.0", [], [])
    assert old["made.by"] == ("1.0.0", [], [])
    assert newest["connector.plugin.version"] == ("2.5.0", [], ["1.0.0", "2.5.0"])
    stamp = {"transforms": "s", "transforms_s_type": "found.Found$Stamp"}
    assert values(connector_plugin_version="1.0.0", **stamp)["transforms.s.ink"][0] == "1.0.0"
    other = values(**stamp, transforms_s_plugin_version="[3,4)")
    assert other["transforms.s.ink"][0] == "3.1.0"
    assert other["transforms.s.plugin.version"][2] == ["1.0.0", "2.5.0", "3.1.0"]
    refused = values(connector_plugin_version="9.9")
    assert refused["connector.plugin.version"][1] == [
        f"Plugin {_TICKER} not found that matches the version range [9.9,9.9], available versions: [1.0.0, 2.5.0]"
    ]


def test_plugins_without_manifest_are_reported_or_keep_the_worker_from_starting(
    plugin_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    unnamed = [
        ("stamps", "found.Found$Stamp", "3.1.0"),
        ("old", "found.Found$Unnamed", "1.0.0"),
        ("new", "found.Found$Unnamed", "2.5.0"),
    ]
    listed = "\n".join(
        f"file:{plugin_path}/{place}/\t{name}\ttransformation\t{version}" for place, name, version in unnamed
    )
    lead = (
        "One or more plugins are missing ServiceLoader manifests may not be usable with "
        f"plugin.discovery=service_load: [\n{listed}\n]\nRead the documentation at"
    )

    def loaded(discovery: str) -> PluginRegistry:
        return PluginRegistry.load(str(plugin_path), java=JavaSettings(heap="128m", discovery=discovery))

    with closing(loaded("hybrid_fail")) as strict, pytest.raises(ConfigError) as raised:
        strict.check_discovery()
    assert str(raised.value).startswith(lead)
    assert str(raised.value).endswith("set plugin.discovery=hybrid_warn in the worker config.")
    with closing(loaded("hybrid_warn")) as warning, caplog.at_level(logging.WARNING):
        check = warning.check_discovery()
        assert check is not None
        eventually(lambda: lead in caplog.text, 30, "the warning")
        check.stop()
    caplog.clear()
    with closing(loaded("service_load")) as silent:
        silent.check_discovery()
        assert {info.version for info in silent.describe() if info.class_name == "found.Found$Stamp"} == {
            "1.0.0",
            "2.5.0",
        }
        with pytest.raises(ConfigError, match="Failed to find any class that implements Transformation"):
            silent.transformation("found.Found$Unnamed")
    assert not caplog.records


def test_a_config_provider_of_javas_gives_values_and_says_what_it_lacks(
    plugin_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = PluginRegistry.load(str(plugin_path), java=JavaSettings(heap="128m"))
    settings = {
        "config.providers": "vault",
        "config.providers.vault.class": "found.Found$Vault",
        "config.providers.vault.param.secrets": "password:hunter2,user:joe",
        "config.providers.vault.param.ttl": "7000",
    }
    with closing(registry), closing(worker_variables(settings, registry)) as variables:
        config = {"a": "${vault:x:password} of ${vault:user}", "b": "${other:x}"}
        resolved = variables.resolve(config, "connector c")
        assert resolved.values == {"a": "hunter2x of joe", "b": "${other:x}"}
        assert resolved.ttl_ms == 7000
        with pytest.raises(ConfigError, match=r"\$\{vault:nobody\} in a of c cannot .* no variable 'nobody'"):
            variables.resolve({"a": "${vault:nobody}"}, "c")
        with pytest.raises(ConfigError, match=r"config provider vault: there is no 'user' in void"):
            variables.resolve({"a": "${vault:void:user}"}, "c")
        with pytest.raises(ConfigError, match="config provider vault: the vault is locked"):
            variables.resolve({"a": "${vault:locked:user}"}, "c")
        with pytest.raises(ConfigError, match=r"exit code 5"):
            variables.resolve({"a": "${vault:exit:user}"}, "c")
        assert variables.resolve({"a": "${vault:user}"}, "c").values == {"a": "joe"}, "in a new JVM"
        with pytest.raises(ConfigError, match=r"The config provider vault cannot be set up: .*the vault is empty"):
            worker_variables({**settings, "config.providers.vault.param.secrets": None}, registry)  # type: ignore[dict-item]  # as absent
        with pytest.raises(ConfigError, match=r"class=found.Found\$Nothing is not a config provider"):
            worker_variables({**settings, "config.providers.vault.class": "found.Found$Nothing"}, registry)
        assert registry.java_class("Vault", ConfigProvider) is not None  # type: ignore[type-abstract]  # looks for a subclass
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("name", ["found.Found$StrictConnectorClientConfigOverridePolicy", "Strict"])
def test_an_override_policy_of_javas_is_asked_with_typed_values(registry: PluginRegistry, name: str) -> None:
    worker = {**_WORKER, "connector.client.config.override.policy": name, "strict.most": "100"}
    policy = load_policy(registry, worker)
    assert policy is not None
    with closing(policy):
        validator = ConnectorValidator(registry, worker, Variables(), policy=policy)
        given = {"linger.ms": "50", "acks": "1", "client.id": "me"}
        config = {"name": "c", "connector.class": _TICKER, "topic": "t"}
        infos = validator.validate({**config, **{f"producer.override.{key}": text for key, text in given.items()}})
        errors = {
            info.value.name: info.value.error_messages
            for info in infos.configs
            if info.value is not None and info.value.name.startswith("producer.override.")
        }
        assert errors == {
            "producer.override.linger.ms": [],
            "producer.override.acks": [f"c ({_TICKER}, source) may not set acks of its PRODUCER"],
            "producer.override.client.id": ["null"],  # what an exception without a message says
        }
        silent = validator.validate({**config, "name": "nobody's", "producer.override.linger.ms": "50"})
        (refused,) = (info.value for info in silent.configs if info.value and info.value.error_messages)
        assert refused.name == "producer.override.linger.ms"
        assert "validate() must return a list, not null" in refused.error_messages[0]
        ours = registry.connector_class("FileStreamSink")
        asked = ConnectorClientConfigRequest("f", ConnectorType.SINK, ours, {"linger.ms": "101"}, ClientType.ADMIN)
        assert policy.validate(asked)[0].error_messages == [
            "f (org.apache.kafka.connect.sink.SinkConnector, sink) may not set linger.ms of its ADMIN"
        ]


def test_a_jar_that_is_none_and_a_class_for_a_newer_java_are_reported_by_name(tmp_path: Path) -> None:
    folder = found_folder(tmp_path / "newer", "1.0.0", only=("Stamp", "Ticker"))
    (jar,) = folder.glob("*.jar")
    with ZipFile(jar) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(jar, "w") as archive:
        for name, data in members.items():
            is_newer = name.endswith("Stamp.class")
            archive.writestr(name, data[:6] + b"\x00\x63" + data[8:] if is_newer else data)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "none.jar").write_text("no archive")
    with closing(PluginRegistry.load(str(tmp_path), java=JavaSettings(heap="128m"))) as registry:
        assert registry.connector_class("Ticker")().version() == "1.0.0"
        with pytest.raises(ConnectError) as raised:
            stamped(registry, None)
        assert "UnsupportedClassVersionError: the class found.Found$Stamp of " in str(raised.value)
        assert f" in {folder} needs Java 55, and plugins run in Java " in str(raised.value)
        assert "found.Found$Stamp" not in {info.class_name for info in registry.describe()}


def test_a_class_that_could_not_be_loaded_is_asked_for_again_after_a_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found_folder(tmp_path / "moods", "1.0.0", only=("Stamp", "Moody"))

    def listed(*options: str) -> set[str]:
        caplog.clear()
        java = JavaSettings(heap="128m", options=options)
        with closing(PluginRegistry.load(str(tmp_path), java=java)) as registry:
            registry.describe()
            return {info.class_name for info in registry.describe() if info.class_name.startswith("found.Found$")}

    problem = f"found.Found$Moody in {tmp_path}/moods cannot be loaded: IllegalStateException: not today"
    for start in ("the first", "the next"):
        assert listed() == {"found.Found$Stamp"}
        logged = [record.message for record in caplog.records]
        assert logged.count(f"plugin.path: {problem}") == 1, f"{start} log says why"
    assert listed("-Dfound.good.day=true") == {"found.Found$Stamp", "found.Found$Moody"}, "with what it needs"
    assert "cannot be loaded" not in caplog.text


def test_what_all_classes_say_when_they_are_asked_for_their_version_is_of_no_connector(tmp_path: Path) -> None:
    found_folder(tmp_path / "moods", "1.0.0", only=("Stamp", "Moody"))
    places: list[tuple[str | None, int | None]] = []

    class Places(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            places.append(current_place())
            return True

    logger, noted = logging.getLogger("kconnect.java.plugins.versions"), Places()
    logger.addFilter(noted)
    try:
        java = JavaSettings(heap="128m")
        with closing(PluginRegistry.load(str(tmp_path), java=java)) as registry, log_context("orders"):
            registry.describe()
    finally:
        logger.removeFilter(noted)
    assert places == [(None, None)], "that of the class that cannot be loaded"


def test_a_class_is_of_kinds_that_no_manifest_gives_it(tmp_path: Path) -> None:
    (jar,) = found_folder(tmp_path / "words", "1.0.0", only=("Words", "Ticker")).glob("*.jar")
    with ZipFile(jar) as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.endswith(".HeaderConverter")}
    with ZipFile(jar, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    java = JavaSettings(heap="128m", discovery="service_load")
    with closing(PluginRegistry.load(str(tmp_path), java=java)) as registry:
        assert registry.header_converter("found.Found$Words")().version() == "1.0.0"
        with pytest.raises(ConfigError, match=r"Ticker is a Java class of type source, not header_converter"):
            registry.header_converter(_TICKER)


@pytest.mark.parametrize("discovery", ["service_load", "hybrid_warn", "only_scan"])
def test_a_manifest_that_is_wrong_makes_no_class_another_and_takes_no_short_name(
    tmp_path: Path, discovery: str
) -> None:
    """As by java.util.ServiceLoader, which passes over a class that is not what its manifest says, or is not there."""
    (jar,) = found_folder(tmp_path / "ticker", "1.0.0", only=("Ticker",)).glob("*.jar")
    connector = "META-INF/services/org.apache.kafka.connect"
    with ZipFile(jar, "a") as archive:
        archive.writestr(f"{connector}.sink.SinkConnector", f"{_TICKER}\nfound.Found\n")
    with ZipFile(tmp_path / "other.jar", "w") as archive:
        archive.writestr(f"{connector}.source.SourceConnector", "other.Ticker\njava.lang.String\n")
    with closing(PluginRegistry.load(str(tmp_path), java=JavaSettings(heap="128m", discovery=discovery))) as registry:
        for name in (_TICKER, "Ticker"):
            assert issubclass(found := registry.connector_class(name), SourceConnector), f"{name}: {found}"
        for name in ("found.Found", "java.lang.String"):
            with pytest.raises(ConfigError, match=re.escape(name)):
                registry.connector_class(name)


@pytest.mark.parametrize("home", ["nowhere", "empty"])
def test_without_java_python_plugins_work_and_javas_say_what_is_missing(tmp_path: Path, home: str) -> None:
    plugin_path = found_folder(tmp_path / "path" / "fresh", "1.0.0", only=("Ticker",)).parent
    (tmp_path / "empty").mkdir()
    java = JavaSettings(home=str(tmp_path / home))
    with closing(PluginRegistry.load(str(plugin_path), java=java)) as registry:
        found = {(info.class_name, info.version) for info in registry.describe() if "found." in info.class_name}
        assert (_TICKER, "undefined") in found, "names need no Java"
        assert registry.connector_class("FileStreamSource")().version()
        plugin = registry.connector_class(_TICKER)()
        with pytest.raises(EnvironmentProblemError, match="Java") as raised:
            plugin.version()
        assert "kconnect.java.home" in f"{raised.value} {raised.value.hint}"
        validator = ConnectorValidator(registry, _WORKER, Variables())
        with pytest.raises(
            ConnectError, match=r"Java 17 or newer is needed for Java's plugins; kconnect\.java\.home is"
        ):
            validator.validate({"name": "j", "connector.class": _TICKER, "topic": "t"})
        ours = {"name": "p", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}
        assert validator.validate(ours).error_count == 0


def test_the_table_of_kafkas_own_classes_is_that_of_its_jars() -> None:
    jars = tuple(jar for jar in JarSet("connect").fetch() if jar.name.startswith(("connect-", "kafka-clients")))
    seen = []
    for found in JavaFolder(jars[0].parent, jars).classes(lambda jar, err: pytest.fail(f"{jar}: {err}")):
        seen.append(found)
    every = plugin_classes(type(found)(found.name, found.parents, found.is_public, True) for found in seen)
    of_kafka = {name: kinds for name, kinds in every.items() if name not in BASES and ".file." not in name}
    assert {name: kinds for name, kinds in of_kafka.items() if kinds & set(BASES.values())} == dict(OF_KAFKA)

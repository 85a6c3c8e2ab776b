"""Settings of each type, of plugins of each kind, are parsed, checked and recommended by Java as in its own worker."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kconnect.errors import BadRequestError, ConfigError, ConnectError
from kconnect.java.devbroker import DevBroker
from kconnect.java.plugins import JavaSettings
from kconnect.runtime.config.variables import Variables
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator
from kconnect.runtime.plugins import PluginRegistry
from kit.java_compiled import compiled
from kit.java_connect import JavaConnect

pytestmark = [pytest.mark.broker, pytest.mark.java]

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_SOURCE = "typed.Typed$Source"
_HEARTBEAT = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
_KINDS = {
    "source.SourceConnector": "Source",
    "transforms.Transformation": "Step",
    "transforms.predicates.Predicate": "Test",
    "storage.Converter": "Form",
    "storage.HeaderConverter": "Heads",
}
_ODD: Mapping[str, tuple[str, ...]] = {"Source": ("Sloppy", "Bare", "Unmade"), "Step": ("UnmadeStep",)}
_PLACES = ("", "transforms.t.", "predicates.p.", "value.converter.", "header.converter.")
"""Where the same table of settings is, for each kind."""
_VALUES: Mapping[str, tuple[str, ...]] = {
    "boolean": ("true", "FALSE", " true", "yes", ""),
    "string": ("", " a b ", "x"),
    "int": ("3", "-2147483648", "2147483648", "1.0", " 7 ", "x"),
    "short": ("3", "32768", "x"),
    "long": ("3", "9223372036854775808", "x"),
    "double": ("1e-7", "1", "-0.0", "NaN", "1d", "0x1p3", "x", "100000000"),
    "list": ("a", "a,b", " a , b c ", "", "a,,b"),
    "class": (
        *("java.lang.String", "typed.Typed$Own", "typed.Typed$Step", "no.Such", " java.util.List ", ""),
        *("StringConverter", "Json", "Form", "All", "Value", "Directory"),  # short names of plugins
    ),
    "password": ("secret", "[hidden]", "", " s "),
}


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("typed")
    (path / "typed").mkdir()
    with (
        zipfile.ZipFile(compiled(Path(__file__).parents[3] / "kit" / "java_sources_typed")) as given,
        zipfile.ZipFile(path / "typed" / "typed.jar", "w") as made,
    ):
        for name in given.namelist():
            made.writestr(name, given.read(name))
        for interface, name in _KINDS.items():
            named = (name, *_ODD.get(name, ()))
            lines = "".join(f"typed.Typed${one}\n" for one in named)
            made.writestr(f"META-INF/services/org.apache.kafka.connect.{interface}", lines)
    return str(path)


@pytest.fixture(scope="module")
def java(plugin_path: str, broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaConnect]:
    folder = tmp_path_factory.mktemp("java-typed")
    with JavaConnect(folder, broker.bootstrap, worker={"plugin.path": plugin_path}) as running:
        yield running


@pytest.fixture(scope="module")
def validator(plugin_path: str) -> Iterator[ConnectorValidator]:
    java = JavaSettings(heap="256m", discovery="service_load")
    with closing(PluginRegistry.load(plugin_path, java=java)) as plugins:
        plugins.connector_class(_SOURCE)().version()  # the JVM is up
        yield ConnectorValidator(plugins, {"key.converter": _STRING, "value.converter": _STRING}, Variables())


def random_config(random: Random) -> dict[str, str]:
    config = {"name": "r", "connector.class": _SOURCE, "transforms": "t", "predicates": "p"}
    config |= {"transforms.t.type": "typed.Typed$Step", "predicates.p.type": "typed.Typed$Test"}
    config |= {"value.converter": "typed.Typed$Form", "header.converter": "typed.Typed$Heads"}
    for place in _PLACES:
        for kind, values in _VALUES.items():
            for row in ("", ".reported", ".null", ".needed"):
                if random.random() < 0.6:
                    config[f"{place}{kind}{row}"] = random.choice(values)
    return config


def typed(infos: Mapping[str, Any], part: str = "value") -> dict[str, dict[str, Any]]:
    """The rows of these tables, as REST has them: their values or definitions."""
    found = {}
    for info in infos["configs"]:
        name = str(info["value"]["name"])
        row = name
        for place in sorted(_PLACES, key=len, reverse=True):
            if place and name.startswith(place):
                row = name.removeprefix(place)
                break
        if row.partition(".")[0] in _VALUES:
            found[name] = info[part]
    return found


def test_settings_of_each_type_are_checked_as_by_javas_worker(java: JavaConnect, validator: ConnectorValidator) -> None:
    random = Random(28)
    for _ in range(12):
        config = random_config(random)
        status, reported = java.request(
            "PUT", f"/connector-plugins/{_SOURCE.replace('$', '%24')}/config/validate", config
        )
        assert status == 200, reported
        theirs, ours = typed(reported), typed(validator.validate(config).to_json())
        assert len(theirs) == len(_PLACES) * len(_VALUES) * 4
        other = [(ours.get(name), theirs.get(name)) for name in theirs if ours.get(name) != theirs[name]]
        assert not other, "\n".join(map(str, other))
        assert set(ours) == set(theirs)


@pytest.mark.parametrize("named", ["typed.Typed$Form", "typed.Typed$Own", "Form", "All", "no.Such"])
def test_a_connector_of_kafkas_own_may_name_a_plugin_of_any_folder(
    java: JavaConnect, validator: ConnectorValidator, broker: DevBroker, named: str
) -> None:
    clusters = {
        f"{end}.cluster.{key}": value
        for end in ("source", "target")
        for key, value in (("alias", end), ("bootstrap.servers", broker.bootstrap))
    }
    config = {"name": "m", "connector.class": _HEARTBEAT, "value.converter": named, "metric.reporters": "", **clusters}
    config |= {"replication.policy.class": named}
    status, reported = java.request("PUT", f"/connector-plugins/{_HEARTBEAT}/config/validate", config)
    assert status == 200, reported
    theirs, ours = (
        {row["value"]["name"]: (row["value"]["value"], row["value"]["errors"]) for row in answer["configs"]}
        for answer in (reported, validator.validate(config).to_json())
    )
    for name in ("value.converter", "replication.policy.class"):
        assert ours[name] == theirs[name]


def test_a_row_is_reported_as_by_javas_worker_without_a_label_too(
    java: JavaConnect, validator: ConnectorValidator
) -> None:
    config = random_config(Random(4))
    _, reported = java.request("PUT", f"/connector-plugins/{_SOURCE.replace('$', '%24')}/config/validate", config)
    theirs, ours = typed(reported, "definition"), typed(validator.validate(config).to_json(), "definition")
    assert ours == theirs
    assert {name for name, row in ours.items() if row["display_name"] is None} == {
        f"{place}{kind}.null" for place in _PLACES for kind in _VALUES
    }


@pytest.mark.parametrize("fields", ["3", "three"])
def test_a_setting_of_the_plugins_own_is_not_taken_for_ours(
    java: JavaConnect, validator: ConnectorValidator, fields: str
) -> None:
    names = ("value.schema", "value.schema.fields")
    config = {**random_config(Random(5)), "value.schema": "no type,of ours", "value.schema.fields": fields}
    _, reported = java.request("PUT", f"/connector-plugins/{_SOURCE.replace('$', '%24')}/config/validate", config)
    theirs, ours = (
        {info["value"]["name"]: info["value"] for info in answer["configs"] if info["value"]["name"] in names}
        for answer in (reported, validator.validate(config).to_json())
    )
    assert ours == theirs
    assert bool(ours["value.schema.fields"]["errors"]) is (fields == "three")


def test_a_setting_that_java_refuses_keeps_no_other_from_being_checked(validator: ConnectorValidator) -> None:
    config = random_config(Random(3)) | {"transforms.t.type": "typed.Typed$None", "predicates.p.list.reported": "a"}
    infos = validator.validate(config)
    reported = {info.value.name: info.value for info in infos.configs if info.value is not None}
    assert "could not be found" in " ".join(reported["transforms.t.type"].error_messages)
    assert [text.partition(" [")[2] for text in reported["predicates.p.list.reported"].error_messages] == ["a]"]
    with pytest.raises(ConnectError, match="Failed to find any class"):
        validator.validate({**config, "connector.class": "typed.Typed$Nobody"})


def test_a_check_that_gives_nothing_or_an_error_without_text_is_reported(validator: ConnectorValidator) -> None:
    config = random_config(Random(6)) | {"connector.class": "typed.Typed$Sloppy", "string": "x"}
    infos = validator.validate(config)
    errors = {info.value.name: info.value.error_messages for info in infos.configs if info.value}
    assert errors["string"] == ["null"]
    del config["string"]
    with pytest.raises(BadRequestError, match=r"^typed\.Typed\$Sloppy\.validate\(\) must return a Config"):
        validator.validate(config)


def test_a_class_that_java_cannot_make_is_a_mistake_of_the_request(validator: ConnectorValidator) -> None:
    config = random_config(Random(6))
    infos = validator.validate({**config, "transforms.t.type": "typed.Typed$UnmadeStep", "tasks.max": "many"})
    errors = {info.value.name: info.value.error_messages for info in infos.configs if info.value}
    (why,) = errors["transforms.t.type"]
    assert "Java cannot load typed.Typed$UnmadeStep: IllegalStateException: no licence" in why
    assert errors["tasks.max"], "and no other setting is left unchecked"
    with pytest.raises(ConfigError, match=r"Java cannot load typed\.Typed\$Unmade: IllegalStateException: no licence"):
        validator.validate({**config, "connector.class": "typed.Typed$Unmade"})
    with pytest.raises(BadRequestError, match=r"^typed\.Typed\$Bare\.config\(\) must return a ConfigDef that is not"):
        validator.validate({**config, "connector.class": "typed.Typed$Bare"})

"""`${provider:path:key}`: what is resolved, what is refused, and that nothing found is ever shown."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from kconnect.api import ConfigData, ConfigProvider
from kconnect.errors import ConfigError
from kconnect.runtime.config.variables import Variables, secret_values

JAVA = "org.apache.kafka.common.config.provider."


def variables(folder: Path, **more: str) -> Variables:
    """File, directory and environment providers; the first two are kept to the folder."""
    props = {
        "config.providers": "file,dir,env",
        "config.providers.file.class": f"{JAVA}FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(folder),
        "config.providers.dir.class": f"{JAVA}DirectoryConfigProvider",
        "config.providers.dir.param.allowed.paths": str(folder),
        "config.providers.env.class": f"{JAVA}EnvVarConfigProvider",
        **{f"config.providers.{key.replace('__', '.param.').replace('_', '.')}": value for key, value in more.items()},
    }
    return Variables.of_worker(props)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    allowed = tmp_path / "secrets"
    allowed.mkdir()
    (allowed / "db.properties").write_text("password=s3cr\\u0065t\nuser = alice\n", "utf-8")
    (allowed / "token").write_text("abc\n", "utf-8")
    (tmp_path / "outside.properties").write_text("password=theirs\n", "utf-8")
    return allowed


def test_references_of_all_kinds_are_replaced_in_the_middle_of_a_value(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_HOST", "db.example")
    file = folder / "db.properties"

    resolved = variables(folder).resolve(
        {
            "url": f"db://${{file:{file}:user}}:${{file:{file}:password}}@${{env:DB_HOST}}/x",
            "token": f"${{dir:{folder}:token}}",
            "plain": "as it is",
        },
        "connector c",
    )

    assert resolved.values == {"url": "db://alice:s3cret@db.example/x", "token": "abc\n", "plain": "as it is"}
    assert "s3cret" not in repr(resolved)


@pytest.mark.parametrize("text", ["${nobody:a:b}", "${topic}", "$1-${2}", "${}", "${a"])
def test_what_names_no_provider_stays_as_in_java(folder: Path, text: str) -> None:
    assert variables(folder).resolve({"key": text}, "connector c").values == {"key": text}


def test_a_usual_provider_that_the_worker_does_not_name_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    assert Variables().resolve({"password": "${file:/x:y}"}, "connector c").values == {"password": "${file:/x:y}"}

    assert caplog.messages == [
        "${file:/x:y} in password of connector c is left unchanged: config.providers of the worker does not name file"
    ]


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("${file:%/db.properties:none}", "there is no 'none' in %/db.properties."),
        ("${file:%/none.properties:x}", "the file %/none.properties cannot be read: No such file or directory."),
        ("${file:%/../outside.properties:password}", "%/../outside.properties is not within allowed.paths."),
        ("${file:password}", "no path is given."),
        ("${dir:%:none}", "there is no 'none' in %."),
        ("${dir:%:../outside.properties}", "there is no '../outside.properties' in %."),
        ("${dir:%/none:x}", "the folder %/none does not exist."),
        ("${env:KCONNECT_TEST_NONE}", "there is no variable 'KCONNECT_TEST_NONE'."),
        ("${env:/path:HOME}", "an environment variable has no path, but '/path' was given."),
    ],
)
def test_what_is_not_there_is_reported_with_variable_provider_and_connector(
    folder: Path, reference: str, why: str
) -> None:
    written = reference.replace("%", str(folder))
    provider = written[2:].split(":")[0]

    with pytest.raises(ConfigError) as reported:
        variables(folder).resolve({"password": written}, "connector orders")

    lead = f"{written} in password of connector orders cannot be resolved by the config provider {provider}: "
    assert str(reported.value) == lead + why.replace("%", str(folder))
    assert reported.value.hint


def test_a_link_out_of_the_allowed_paths_is_refused(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "outside.properties")

    with pytest.raises(ConfigError, match=r"is not within allowed\.paths"):
        variables(folder).resolve({"a": f"${{dir:{folder}:link}}"}, "connector c")


def test_environment_variables_are_kept_to_the_pattern(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_X", "1")
    monkeypatch.setenv("OTHER", "2")
    only_app = variables(folder, env__allowlist_pattern="APP_.*")

    assert only_app.resolve({"a": "${env:APP_X}"}, "connector c").values == {"a": "1"}
    with pytest.raises(ConfigError, match=r"the variable OTHER does not match allowlist\.pattern"):
        only_app.resolve({"a": "${env:OTHER}"}, "connector c")


def test_the_shortest_ttl_counts(folder: Path) -> None:
    both = variables(folder, file__ttl_ms="5000", dir__ttl_ms="700")
    config = {"a": f"${{file:{folder}/db.properties:user}}", "b": f"${{dir:{folder}:token}}"}

    assert both.resolve(config, "connector c").ttl_ms == 700
    assert variables(folder).resolve(config, "connector c").ttl_ms is None


@pytest.mark.parametrize(
    ("props", "reported"),
    [
        ({"config.providers": "x"}, "config.providers names x, but config.providers.x.class is missing."),
        (
            {"config.providers": "x", "config.providers.x.class": "no.such.Provider"},
            "The config provider x cannot be set up: config.providers.x.class=no.such.Provider is not a config "
            "provider",
        ),
        (
            {"config.providers": "x", "config.providers.x.class": "kconnect.errors.ConfigError"},
            "The config provider x cannot be set up: config.providers.x.class=kconnect.errors.ConfigError is no",
        ),
        (
            {
                "config.providers": "x",
                "config.providers.x.class": "FileConfigProvider",
                "config.providers.x.param.allowed.paths": "relative",
            },
            "The config provider x cannot be set up: Path relative is not absolute",
        ),
        (
            {
                "config.providers": "x",
                "config.providers.x.class": "EnvVar",
                "config.providers.x.param.allowlist.pattern": "(",
            },
            "The config provider x cannot be set up: Invalid value ( for configuration allowlist.pattern",
        ),
    ],
)
def test_a_provider_that_can_not_be_set_up_is_reported(props: dict[str, str], reported: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Variables.of_worker(props)

    assert str(refused.value).startswith(reported)


class Vault(ConfigProvider):
    """A provider of a user's own."""

    def get(self, path: str, keys: Collection[str]) -> ConfigData:
        if path == "broken":
            raise OSError("vault is locked")
        return ConfigData({key: f"{path}/{key}" for key in keys}, ttl_ms=60_000)


def test_a_provider_of_ones_own_is_named_as_a_python_class(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    module = types.ModuleType("kconnect_test_vault")
    module.Vault = Vault  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kconnect_test_vault", module)
    own = Variables.of_worker({"config.providers": "v", "config.providers.v.class": "kconnect_test_vault.Vault"})

    assert own.resolve({"a": "${v:p:k}"}, "connector c").values == {"a": "p/k"}
    with pytest.raises(ConfigError, match="cannot be resolved by the config provider v: OSError: vault is locked"):
        own.resolve({"a": "${v:broken:k}"}, "connector c")


def test_task_configs_get_their_references_back(folder: Path) -> None:
    reference = f"${{file:{folder}/db.properties:password}}"
    raw = {"password": reference, "user": "alice"}
    resolved = variables(folder).resolve(raw, "connector c")

    given = [{"password": "s3cret", "user": "alice", "url": "db://alice:s3cret@x", "table": "a"}]

    assert resolved.unresolved(raw, given) == [
        {"password": reference, "user": "alice", "url": f"db://alice:{reference}@x", "table": "a"}
    ]


def test_secrets_are_known_by_their_keys_and_inside_jaas_entries() -> None:
    jaas = 'x.ScramLoginModule required username="alice" password="p4ss";'

    found = secret_values(
        {"database.password": "one", "user": "alice", "producer.override.sasl.jaas.config": jaas, "pin": "1234"},
        frozenset({"pin"}),
    )

    assert found == {"one", jaas, "p4ss", "1234"}

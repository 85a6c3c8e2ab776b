"""AvroConverter and a registry behind TLS and a login, by the settings that users have."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kconnect.api import ConfigError, DataError, RetriableError, Schema, SchemaBuilder, Struct
from kconnect.builtin.schema_registry.avro.avro_converter import AvroConverter
from kit.certificates import Authority
from kit.memory_registry import MemoryRegistry
from kit.registry_front import served, server_side

PASSWORD = "store-pass"
ORDER = SchemaBuilder.struct().name("Order").field("id", Schema.INT64_SCHEMA).build()


@pytest.fixture
def authority() -> Authority:
    return Authority()


def converter(url: str, **given: str) -> AvroConverter:
    made = AvroConverter()
    made.configure({"schema.registry.url": url, **{key.replace("_", "."): value for key, value in given.items()}})
    return made


def goes_and_comes(url: str, **given: str) -> bool:
    """Written by a converter, and read by another, which has to ask."""
    order = Struct(ORDER, {"id": 7})
    written = converter(url, **given).from_connect_data("orders", ORDER, order)
    return converter(url, **given).to_connect_data("orders", written).value["id"] == 7


def trust(authority: Authority, folder: Path, kind: str) -> dict[str, str]:
    if kind == "inline":
        return {"schema_registry_ssl_truststore_certificates": authority.pem.decode(), **type_of("PEM")}
    file = {"pem": authority.file, "p12": authority.p12_file, "jks": authority.jks_file}[kind](
        folder / f"trust.{kind}", *([] if kind == "pem" else [PASSWORD])
    )
    password = {} if kind == "pem" else {"schema_registry_ssl_truststore_password": PASSWORD}
    return {"schema_registry_ssl_truststore_location": str(file), **password}


def type_of(kind: str) -> dict[str, str]:
    return {"schema_registry_ssl_truststore_type": kind}


@pytest.mark.parametrize("kind", ["pem", "p12", "jks", "inline"])
def test_a_trust_store_of_each_kind_verifies_the_registry(authority: Authority, tmp_path: Path, kind: str) -> None:
    with served(MemoryRegistry(), server_side(tmp_path, authority.sign("registry"))) as url:
        assert goes_and_comes(url, **trust(authority, tmp_path, kind))


@pytest.mark.parametrize("kind", ["pem", "p12"])
def test_a_registry_that_wants_a_certificate_is_shown_that_of_the_key_store(
    authority: Authority, tmp_path: Path, kind: str
) -> None:
    clients = Authority("clients")
    own = clients.sign("connect")
    settings = trust(authority, tmp_path, "pem")
    if kind == "pem":
        store = own.pem_file(tmp_path / "own.pem", PASSWORD)
        shown = {"schema_registry_ssl_key_password": PASSWORD, "schema_registry_ssl_keystore_type": "PEM"}
    else:
        store = own.p12_file(tmp_path / "own.p12", PASSWORD)
        shown = {"schema_registry_ssl_keystore_password": PASSWORD, "schema_registry_ssl_keystore_type": "PKCS12"}
    with served(MemoryRegistry(), server_side(tmp_path, authority.sign("registry"), clients)) as url:
        assert goes_and_comes(url, schema_registry_ssl_keystore_location=str(store), **settings, **shown)
        with pytest.raises(RetriableError) as refused:
            goes_and_comes(url, **settings)
    assert url in str(refused.value)


@pytest.mark.parametrize(
    ("login", "header"),
    [
        (
            {"basic_auth_credentials_source": "USER_INFO", "schema_registry_basic_auth_user_info": "u:p%ß"},
            "Basic " + base64.b64encode("u:p%ß".encode()).decode(),
        ),
        ({"bearer_auth_credentials_source": "STATIC_TOKEN", "bearer_auth_token": "t0ken"}, "Bearer t0ken"),
    ],
)
def test_a_login_goes_over_tls_and_one_that_is_wrong_says_where_to_look(
    authority: Authority, tmp_path: Path, login: dict[str, str], header: str
) -> None:
    settings = trust(authority, tmp_path, "pem")
    side = server_side(tmp_path, authority.sign("registry"))
    with served(MemoryRegistry(), side, authorization=header) as url:
        assert goes_and_comes(url, **settings, **login)
        with pytest.raises(DataError, match="refused: 401 Unauthorized") as refused:
            goes_and_comes(url, **settings)
    assert f"The schema registry at {url} was asked for a place for a schema" in str(refused.value)
    assert "basic.auth.user.info or bearer.auth.token" in (refused.value.hint or "")


def test_a_certificate_of_an_unknown_authority_says_which_store_to_look_at(
    authority: Authority, tmp_path: Path
) -> None:
    settings = trust(authority, tmp_path, "pem")
    for identity, why in (
        (Authority("somebody else").sign("registry"), "shows a certificate that is not trusted"),
        (authority.sign("registry", valid_days=-1), "certificate has expired"),
    ):
        with served(MemoryRegistry(), server_side(tmp_path, identity)) as url:
            with pytest.raises(RetriableError, match=why) as refused:
                goes_and_comes(url, **settings)
            assert f"The schema registry at {url} was asked for" in str(refused.value)
            assert "schema.registry.ssl.truststore.location" in (refused.value.hint or "")


def test_a_certificate_of_another_host_is_refused_unless_hosts_are_not_compared(
    authority: Authority, tmp_path: Path
) -> None:
    settings = trust(authority, tmp_path, "pem")
    with served(MemoryRegistry(), server_side(tmp_path, authority.sign("registry")), host="127.0.0.2") as url:
        with pytest.raises(RetriableError, match=r"not valid for '127\.0\.0\.2'"):
            goes_and_comes(url, **settings)
        assert goes_and_comes(url, schema_registry_ssl_endpoint_identification_algorithm="", **settings)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"schema_registry_ssl_truststore_location": "/no/such.jks"}, "schema.registry.ssl.truststore.location"),
        ({"schema_registry_ssl_truststore_password": "wr0ng"}, "schema.registry.ssl.truststore.password"),
        ({"schema_registry_ssl_keystore_location": "/no/such.p12"}, "schema.registry.ssl.keystore.location"),
    ],
)
def test_stores_that_cannot_be_used_are_refused_when_the_task_starts(
    authority: Authority, tmp_path: Path, given: dict[str, str], names: str
) -> None:
    with pytest.raises(ConfigError, match=names.replace(".", r"\.")):
        converter("https://localhost:1", **{**trust(authority, tmp_path, "jks"), **given})

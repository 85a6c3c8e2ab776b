"""TLS and SASL settings of Java clients as librdkafka wants them: PEM and PKCS12 stores, JAAS entries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kconnect.config.security_keys import SASL, SSL
from kconnect.errors import ConfigError

__all__ = ["SECURITY_KEYS", "parse_jaas", "security_settings"]

SECURITY_KEYS: Final = frozenset(row[0] for row in (*SSL, *SASL))
"""Every `ssl.*` and `sasl.*` setting that a Java client has."""

_SAME: Final = {
    "sasl.kerberos.min.time.before.relogin": "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "sasl.mechanism": "sasl.mechanism",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope": "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "ssl.cipher.suites": "ssl.cipher.suites",
    "ssl.key.password": "ssl.key.password",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}
_STORES: Final = frozenset(
    {
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_JAAS_TOKEN: Final = re.compile(r"""\s*(?:([\w.$]+)(?:\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;"']+))?|(;))""")


def security_settings(java: Mapping[str, str]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What librdkafka needs for the `ssl.*` and `sasl.*` keys of `java`, and what can not be translated.

    Shape: warnings as pairs of the key and why it has no effect.
    Errors: ConfigError when a JAAS entry can not be read.
    """
    settings: dict[str, Any] = {}
    warnings: list[tuple[str, str]] = []
    for key in java:
        if key in _SAME:
            settings[_SAME[key]] = java[key]
        elif key == "ssl.endpoint.identification.algorithm":
            settings[key] = java[key].strip().lower() or "none"
        elif key == "sasl.jaas.config":
            settings |= _login(java[key])
        elif key in SECURITY_KEYS and key not in _STORES:
            warnings.append((key, "librdkafka has nothing like it"))
    if "sasl.oauthbearer.token.endpoint.url" in settings:
        settings["sasl.oauthbearer.method"] = "oidc"
    if "ssl.cipher.suites" in settings:  # a list in Java, a text with colons in OpenSSL
        settings["ssl.cipher.suites"] = ":".join(re.split(r"\s*,\s*", settings["ssl.cipher.suites"].strip()))
    for found, problem in (_key_store(java), _trust_store(java)):
        settings |= found
        warnings += problem
    return settings, warnings


def parse_jaas(entry: str) -> tuple[str, dict[str, str]]:
    """Login module and options of a `sasl.jaas.config` such as `x.PlainLoginModule required username="u" ...;`.

    Errors: ConfigError, without the entry in it, because it holds a password.
    """
    words = list(_jaas_words(entry))
    if len(words) < 2 or any(value is not None for _, value in words[:2]):
        raise _bad_jaas()
    options = {}
    for name, value in words[2:]:
        if value is None:
            raise _bad_jaas()
        options[name] = value
    return words[0][0], options


def _jaas_words(entry: str) -> Iterator[tuple[str, str | None]]:
    position = 0
    while position < len(entry):
        found = _JAAS_TOKEN.match(entry, position)
        if found is None:
            break
        position = found.end()
        name, value, end = found.groups()
        if end:
            if entry[position:].strip():
                raise _bad_jaas()
            return
        if value is not None and value[0] in "\"'":
            value = re.sub(r"\\(.)", r"\1", value[1:-1])
        yield name, value
    raise _bad_jaas()


def _bad_jaas() -> ConfigError:
    return ConfigError(
        "sasl.jaas.config can not be read.",
        hint='write it as `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" '
        'password="p";`, with the semicolon',
    )


def _login(entry: str) -> dict[str, Any]:
    module, options = parse_jaas(entry)
    kind = module.rsplit(".", 1)[-1]
    names = {
        "PlainLoginModule": {"username": "sasl.username", "password": "sasl.password"},
        "ScramLoginModule": {"username": "sasl.username", "password": "sasl.password"},
        "Krb5LoginModule": {
            "keyTab": "sasl.kerberos.keytab",
            "principal": "sasl.kerberos.principal",
            "serviceName": "sasl.kerberos.service.name",
        },
        "OAuthBearerLoginModule": {
            "clientId": "sasl.oauthbearer.client.id",
            "clientSecret": "sasl.oauthbearer.client.secret",
            "scope": "sasl.oauthbearer.scope",
            "extension_logicalCluster": "sasl.oauthbearer.extensions",
        },
    }.get(kind)
    if names is None:
        raise ConfigError(
            f"sasl.jaas.config names the login module {module}, which is not known here.",
            hint="use PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule or Krb5LoginModule",
        )
    found = {names[option]: value for option, value in options.items() if option in names}
    if "sasl.oauthbearer.extensions" in found:
        found["sasl.oauthbearer.extensions"] = f"logicalCluster={found['sasl.oauthbearer.extensions']}"
    subject = options.get("unsecuredLoginStringClaim_sub")
    if kind == "OAuthBearerLoginModule" and subject is not None:
        found |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={subject}"}
    return found


def _key_store(java: Mapping[str, str]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    location, password = java.get("ssl.keystore.location"), java.get("ssl.keystore.password")
    if location is None:
        return {}, []
    match java.get("ssl.keystore.type", "JKS").strip().upper():
        case "PEM":  # one file with the key and the chain
            return {"ssl.key.location": location, "ssl.certificate.location": location}, []
        case "PKCS12":
            return {"ssl.keystore.location": location, "ssl.keystore.password": password or ""}, []
        case other:
            return {}, [("ssl.keystore.location", f"a key store of type {other} must be converted to PKCS12 or PEM")]


def _trust_store(java: Mapping[str, str]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    location = java.get("ssl.truststore.location")
    if location is None:
        return {}, []
    kind = java.get("ssl.truststore.type", "JKS").strip().upper()
    if kind == "PEM":
        return {"ssl.ca.location": location}, []
    return {}, [("ssl.truststore.location", f"a trust store of type {kind} must be converted to PEM")]

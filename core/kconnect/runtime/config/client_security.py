"""TLS and SASL settings of Java clients translated for librdkafka: stores to PEM, JAAS entries to single settings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from kconnect.errors import ConfigError, ConfigProblem
from kconnect.java.compat.key_stores import key_store, trust_store
from kconnect.runtime.config.security_keys import SASL, SSL

# Under any prefix: a connector's own clients have theirs, such as `source.cluster.`; REST sees to its listeners itself
_ANY: Final = r"^(?!(?:admin\.)?listeners\.)(?:[\w-]+\.)*"
_SECURITY: Final = re.compile(_ANY + r"(?:ssl|sasl)\.")
_FILE: Final = re.compile(_ANY + r"(?:ssl\.[a-z.]+\.location|sasl\.oauthbearer\.assertion\.(?:[a-z.]+\.)?file)$")
SECURITY_KEYS: Final = frozenset(row[0] for row in (*SSL, *SASL))
"""Every `ssl.*` and `sasl.*` setting that a Java client has."""

_SAME: Final = {
    "sasl.kerberos.min.time.before.relogin": "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name": "sasl.kerberos.service.name",
    "sasl.mechanism": "sasl.mechanism",
    **{
        f"sasl.oauthbearer.assertion.{name}": f"sasl.oauthbearer.assertion.{name}"
        for name in (
            *("algorithm", "claim.aud", "claim.exp.seconds", "claim.iss", "claim.jti.include", "claim.nbf.seconds"),
            *("claim.sub", "file", "private.key.file", "private.key.passphrase"),
        )
    },
    "sasl.oauthbearer.assertion.template.file": "sasl.oauthbearer.assertion.jwt.template.file",
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope": "sasl.oauthbearer.scope",
    "sasl.oauthbearer.token.endpoint.url": "sasl.oauthbearer.token.endpoint.url",
    "ssl.cipher.suites": "ssl.cipher.suites",
}
_STORES: Final = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
_JAVA_CLASSES: Final = {
    "sasl.login.callback.handler.class": {
        f"{_OAUTH}OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    },
    "sasl.oauthbearer.jwt.retriever.class": {
        f"{_OAUTH}{name}JwtRetriever" for name in ("Default", "ClientCredentials", "JwtBearer")
    },
    "sasl.oauthbearer.jwt.validator.class": {f"{_OAUTH}{name}JwtValidator" for name in ("Default", "Client")},
}
"""Classes whose function librdkafka provides too."""
_HANDLER: Final = "sasl.login.callback.handler.class"
_STRIMZI_HANDLERS: Final = ("io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler",)
_MSK_MODULE: Final = "software.amazon.msk.auth.iam.IAMLoginModule"
_MSK_HANDLERS: Final = {
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    _HANDLER: "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler",
}
"""Holds those of AWS_MSK_IAM and of OAUTHBEARER, by which librdkafka logs in for either."""
_INSTEAD_OF_HANDLERS: Final = {
    "com.google.cloud.hosted.kafka.auth.": "Run Google's authentication server for clients that are not Java's beside "
    "the worker (kafka_gcp_credentials_server.py), leave the handler out, and set "
    "sasl.oauthbearer.token.endpoint.url=http://localhost:14293, with clientId='unused' and clientSecret='unused' in "
    "sasl.jaas.config.",
    "io.confluent.kafka.": "Tokens of Confluent's metadata service are not supported here: let the worker log in with "
    "TLS, SCRAM or PLAIN, or with OAUTHBEARER at an identity provider.",
}
"""What to write in place of a handler whose class begins so."""
_OF_LOGIN: Final = frozenset({"sasl.mechanism", "sasl.jaas.config", _HANDLER, "sasl.client.callback.handler.class"})
_EXTENSION: Final = "extension_"
_JAAS_TOKEN: Final = re.compile(r"""\s*(?:([\w.$]+)(?:\s*=\s*("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^\s;"']+))?|(;))""")


def security_settings(java: Mapping[str, str]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Translate the `ssl.*` and `sasl.*` keys of `java` for librdkafka, with warnings for the rest.

    `java` includes `security.protocol`: stores are opened only if TLS is used, as in Java.
    Shape: warnings are pairs of the key and why it has no effect.
    Errors: ConfigError if a JAAS entry or a store cannot be read, or the client's certificate has expired.
    """
    settings: dict[str, Any] = {}
    warnings: list[tuple[str, str]] = []
    own = _own_login(java)
    for key in java:
        if own and key in _OF_LOGIN:
            continue
        if key in _SAME:
            settings[_SAME[key]] = java[key]
        elif key == "ssl.endpoint.identification.algorithm":
            settings[key] = java[key].strip().lower() or "none"
        elif key == "sasl.jaas.config":
            settings |= _login(java[key])
        elif key in _JAVA_CLASSES and java[key].strip() in _JAVA_CLASSES[key]:
            continue  # what librdkafka does by itself
        elif key in SECURITY_KEYS and key not in _STORES:
            warnings.append((key, "librdkafka has no equivalent"))
    if "sasl.oauthbearer.token.endpoint.url" in settings:
        settings["sasl.oauthbearer.method"] = "oidc"
    if java.get("sasl.oauthbearer.jwt.retriever.class", "").strip().endswith(".JwtBearerJwtRetriever"):
        settings["sasl.oauthbearer.grant.type"] = "urn:ietf:params:oauth:grant-type:jwt-bearer"
    if "ssl.cipher.suites" in settings:  # a list in Java, a colon-separated string in OpenSSL
        settings["ssl.cipher.suites"] = ":".join(re.split(r"\s*,\s*", settings["ssl.cipher.suites"].strip()))
    if java.get("security.protocol", "").strip().upper() in ("SSL", "SASL_SSL"):
        settings |= _stores(java)
    return {**settings, **own}, warnings


def client_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """The `ssl.*` and `sasl.*` settings of clients in a worker's or a connector's config, under any prefix.

    Those without a prefix are none where brokers are spoken to in plain text: REST may have them then.
    """
    is_plain = config.get("security.protocol", "PLAINTEXT").strip().upper() == "PLAINTEXT"
    return {
        key: config[key]
        for key in config
        if _SECURITY.match(key) and not (is_plain and key.startswith(("ssl.", "sasl.")))
    }


def client_files(config: Mapping[str, str]) -> tuple[Path, ...]:
    """The files that clients read for TLS and logins, by a worker's or a connector's config."""
    secrets = client_secrets(config)
    return tuple(dict.fromkeys(Path(secrets[key]) for key in secrets if _FILE.match(key) and secrets[key].strip()))


def _own_login(java: Mapping[str, str]) -> dict[str, Any]:
    """The settings of a login whose tokens we get ourselves: Amazon MSK's and Strimzi's; none of any other.

    Errors: ConfigError for a class of a login that is unknown here.
    """
    mechanism = java.get("sasl.mechanism", "").strip().upper()
    handler = java.get(_HANDLER, "").strip()
    is_msk = any(java.get(key, "").strip() == handler for key, handler in _MSK_HANDLERS.items())
    if mechanism == "AWS_MSK_IAM" or is_msk:
        from kconnect.runtime.config.tokens import msk_tokens  # here: few clusters are Amazon's

        _, options = parse_jaas(java.get("sasl.jaas.config") or f"{_MSK_MODULE} required;")
        return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": msk_tokens(options, java.get("bootstrap.servers", ""))}
    if handler in _STRIMZI_HANDLERS:
        from kconnect.runtime.config.tokens import strimzi_tokens

        _, options = parse_jaas(java.get("sasl.jaas.config") or f"{_OAUTH}OAuthBearerLoginModule required;")
        return {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": strimzi_tokens(options)}
    if mechanism == "OAUTHBEARER" and handler and handler not in _JAVA_CLASSES[_HANDLER]:
        raise ConfigError(
            f"{_HANDLER} names {handler}, which is unknown here.",
            [ConfigProblem(_HANDLER, handler, "unknown here")],
            hint=next(
                (instead for begin, instead in _INSTEAD_OF_HANDLERS.items() if handler.startswith(begin)),
                "Leave it out, set sasl.oauthbearer.token.endpoint.url, and clientId and clientSecret in "
                f"sasl.jaas.config; or use {_STRIMZI_HANDLERS[0]} with its oauth.* options.",
            ),
        )
    return {}


def parse_jaas(entry: str) -> tuple[str, dict[str, str]]:
    """Login module and options of a `sasl.jaas.config` such as `x.PlainLoginModule required username="u" ...;`.

    Errors: ConfigError, without the entry, which contains a password.
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
        "sasl.jaas.config cannot be read.",
        hint='Write it as `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" '
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
        },
    }.get(kind)
    if names is None:
        raise ConfigError(
            f"sasl.jaas.config names the login module {module}, which is unknown here.",
            hint="Use PlainLoginModule, ScramLoginModule, OAuthBearerLoginModule or Krb5LoginModule, "
            "or sasl.mechanism=AWS_MSK_IAM with IAMLoginModule",
        )
    if kind == "ScramLoginModule" and options.get("tokenauth", "").strip().lower() == "true":
        raise ConfigError(
            "sasl.jaas.config has tokenauth, for a delegation token, by which librdkafka cannot log in.",
            hint="Give the username and password of a SCRAM user, without tokenauth.",
        )
    found = {names[option]: value for option, value in options.items() if option in names}
    extensions = {key.removeprefix(_EXTENSION): value for key, value in options.items() if key.startswith(_EXTENSION)}
    if kind == "OAuthBearerLoginModule" and extensions:  # Confluent Cloud: logicalCluster, identityPoolId
        found["sasl.oauthbearer.extensions"] = ",".join(f"{key}={value}" for key, value in extensions.items())
    subject = options.get("unsecuredLoginStringClaim_sub")
    if kind == "OAuthBearerLoginModule" and subject is not None:
        found |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": f"principal={subject}"}
    return found


def _stores(java: Mapping[str, str]) -> dict[str, str]:
    """Key and trust stores of any format as in-memory PEM: nothing is written to disk. Errors: ConfigError."""
    found: dict[str, str] = {}
    own = key_store(java)
    if own is not None and own.key is not None:
        _refuse_expired(own.chain[0], java.get("ssl.keystore.location") or "ssl.keystore.certificate.chain")
        found["ssl.key.pem"] = own.key.decode()
        found["ssl.certificate.pem"] = b"".join(own.chain).decode()
    trusted = trust_store(java)
    if trusted is not None:
        found["ssl.ca.pem"] = b"".join(trusted).decode()
    return found


def _refuse_expired(certificate: bytes, place: str) -> None:
    """Differs: Java fails only when a broker asks for the certificate."""
    from cryptography.x509 import load_pem_x509_certificate

    loaded = load_pem_x509_certificate(certificate)
    if loaded.not_valid_after_utc < datetime.now(UTC):
        raise ConfigError(
            f"The certificate {loaded.subject.rfc4514_string()} in {place} expired on "
            f"{loaded.not_valid_after_utc:%Y-%m-%d}.",
            hint="Put a renewed certificate in its place.",
        )

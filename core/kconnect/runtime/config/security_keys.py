"""Settings of TLS and SASL that workers and Kafka clients share. Source: SslConfigs, SaslConfigs (Kafka 4.3)."""

from __future__ import annotations

from typing import Final

from kconnect.api.configdef import ConfigDef
from kconnect.runtime.config.key_table import Rows

BOOLEAN: Final = ConfigDef.Type.BOOLEAN
STRING: Final = ConfigDef.Type.STRING
INT: Final = ConfigDef.Type.INT
SHORT: Final = ConfigDef.Type.SHORT
LONG: Final = ConfigDef.Type.LONG
DOUBLE: Final = ConfigDef.Type.DOUBLE
LIST: Final = ConfigDef.Type.LIST
CLASS: Final = ConfigDef.Type.CLASS
PASSWORD: Final = ConfigDef.Type.PASSWORD
HIGH: Final = ConfigDef.Importance.HIGH
MEDIUM: Final = ConfigDef.Importance.MEDIUM
LOW: Final = ConfigDef.Importance.LOW
Range: Final = ConfigDef.Range
ValidList: Final = ConfigDef.ValidList
CaseInsensitiveValidString: Final = ConfigDef.CaseInsensitiveValidString

SSL: Final[Rows] = (
    ("ssl.protocol", STRING, "TLSv1.3", None, MEDIUM, "TLS version that a context is made for."),
    ("ssl.provider", STRING, None, None, MEDIUM, "Java security provider; without effect here."),
    (
        "ssl.cipher.suites",
        LIST,
        [],
        ValidList.any_non_duplicate_values(True, False),
        LOW,
        "Cipher suites that may be agreed on; the library's own list if empty.",
    ),
    (
        "ssl.enabled.protocols",
        LIST,
        ["TLSv1.2", "TLSv1.3"],
        ValidList.any_non_duplicate_values(True, False),
        MEDIUM,
        "TLS versions that may be agreed on.",
    ),
    (
        "ssl.keystore.type",
        STRING,
        "JKS",
        None,
        MEDIUM,
        "Format of the key store: JKS, PKCS12 or PEM. What the file holds decides, whatever is said here.",
    ),
    ("ssl.keystore.location", STRING, None, None, HIGH, "File with this side's key and certificate."),
    ("ssl.keystore.password", PASSWORD, None, None, HIGH, "Password of the key store file."),
    ("ssl.key.password", PASSWORD, None, None, HIGH, "Password of the private key."),
    ("ssl.keystore.key", PASSWORD, None, None, HIGH, "Private key itself, in PEM format."),
    ("ssl.keystore.certificate.chain", PASSWORD, None, None, HIGH, "Certificate chain itself, in PEM format."),
    ("ssl.truststore.certificates", PASSWORD, None, None, HIGH, "Trusted certificates themselves, in PEM format."),
    (
        "ssl.truststore.type",
        STRING,
        "JKS",
        None,
        MEDIUM,
        "Format of the trust store: JKS, PKCS12 or PEM. What the file holds decides, whatever is said here.",
    ),
    ("ssl.truststore.location", STRING, None, None, HIGH, "File with the certificates that are trusted."),
    ("ssl.truststore.password", PASSWORD, None, None, HIGH, "Password of the trust store file."),
    ("ssl.keymanager.algorithm", STRING, "SunX509", None, LOW, "Java's key manager algorithm; without effect here."),
    ("ssl.trustmanager.algorithm", STRING, "PKIX", None, LOW, "Java's trust manager algorithm; without effect here."),
    (
        "ssl.endpoint.identification.algorithm",
        STRING,
        "https",
        None,
        LOW,
        "How a server's name is checked against its certificate; empty turns the check off.",
    ),
    (
        "ssl.secure.random.implementation",
        STRING,
        None,
        None,
        LOW,
        "Java's random number generator; without effect here.",
    ),
    ("ssl.engine.factory.class", CLASS, None, None, LOW, "Java class that makes TLS engines; without effect here."),
)

SASL: Final[Rows] = (
    ("sasl.kerberos.service.name", STRING, None, None, MEDIUM, "Kerberos name of the brokers."),
    ("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit", None, LOW, "Path of kinit."),
    (
        "sasl.kerberos.ticket.renew.window.factor",
        DOUBLE,
        0.8,
        None,
        LOW,
        "Part of a ticket's life after which it is renewed.",
    ),
    ("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05, None, LOW, "Random part added to the time of renewal."),
    ("sasl.kerberos.min.time.before.relogin", LONG, 60000, None, LOW, "Shortest time between two logins."),
    (
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        Range.between(0.5, 1.0),
        LOW,
        "Part of a token's life after which it is refreshed.",
    ),
    (
        "sasl.login.refresh.window.jitter",
        DOUBLE,
        0.05,
        Range.between(0.0, 0.25),
        LOW,
        "Random part added to the time of refresh.",
    ),
    (
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        60,
        Range.between(0, 900),
        LOW,
        "Shortest time between two refreshes.",
    ),
    (
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        Range.between(0, 3600),
        LOW,
        "How long before its end a token is refreshed at the latest.",
    ),
    (
        "sasl.mechanism",
        STRING,
        "GSSAPI",
        None,
        MEDIUM,
        "SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM. Java's default GSSAPI "
        "(Kerberos) is refused: the librdkafka of the wheel is built without it.",
    ),
    (
        "sasl.jaas.config",
        PASSWORD,
        None,
        None,
        MEDIUM,
        "Login module and its options; user name and password are read from it.",
    ),
    (
        "sasl.client.callback.handler.class",
        CLASS,
        None,
        None,
        MEDIUM,
        "Java class of the SASL client; without effect here.",
    ),
    ("sasl.login.callback.handler.class", CLASS, None, None, MEDIUM, "Java class of the login; without effect here."),
    ("sasl.login.class", CLASS, None, None, MEDIUM, "Java class of the login; without effect here."),
    ("sasl.login.connect.timeout.ms", INT, None, None, LOW, "How long connecting to the identity provider may take."),
    ("sasl.login.read.timeout.ms", INT, None, None, LOW, "How long reading from the identity provider may take."),
    ("sasl.login.retry.backoff.max.ms", LONG, 10000, None, LOW, "The longest wait between two attempts to log in."),
    ("sasl.login.retry.backoff.ms", LONG, 100, None, LOW, "The first wait between two attempts to log in."),
    (
        "sasl.oauthbearer.jwt.retriever.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        None,
        MEDIUM,
        "Java class that fetches tokens; without effect here.",
    ),
    (
        "sasl.oauthbearer.jwt.validator.class",
        CLASS,
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
        None,
        MEDIUM,
        "Java class that checks tokens; without effect here.",
    ),
    ("sasl.oauthbearer.scope", STRING, None, None, MEDIUM, "Scope to ask the identity provider for."),
    (
        "sasl.oauthbearer.client.credentials.client.id",
        STRING,
        None,
        None,
        MEDIUM,
        "Client id for the client credentials grant.",
    ),
    (
        "sasl.oauthbearer.client.credentials.client.secret",
        PASSWORD,
        None,
        None,
        MEDIUM,
        "Client secret for the client credentials grant.",
    ),
    (
        "sasl.oauthbearer.assertion.algorithm",
        STRING,
        "RS256",
        CaseInsensitiveValidString.in_("ES256", "RS256"),
        MEDIUM,
        "Algorithm that assertions are signed with.",
    ),
    ("sasl.oauthbearer.assertion.claim.aud", STRING, None, None, MEDIUM, "Audience claim of assertions."),
    (
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        INT,
        300,
        Range.between(0, 86400),
        LOW,
        "How long an assertion is valid.",
    ),
    ("sasl.oauthbearer.assertion.claim.iss", STRING, None, None, MEDIUM, "Issuer claim of assertions."),
    (
        "sasl.oauthbearer.assertion.claim.jti.include",
        BOOLEAN,
        False,
        None,
        MEDIUM,
        "Whether assertions carry a unique id.",
    ),
    (
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        INT,
        60,
        Range.between(0, 3600),
        LOW,
        "How far back an assertion's validity begins.",
    ),
    ("sasl.oauthbearer.assertion.claim.sub", STRING, None, None, MEDIUM, "Subject claim of assertions."),
    ("sasl.oauthbearer.assertion.file", STRING, None, None, MEDIUM, "File with a ready-made assertion."),
    (
        "sasl.oauthbearer.assertion.private.key.file",
        STRING,
        None,
        None,
        MEDIUM,
        "File with the key that signs assertions.",
    ),
    ("sasl.oauthbearer.assertion.private.key.passphrase", PASSWORD, None, None, MEDIUM, "Password of that key."),
    ("sasl.oauthbearer.assertion.template.file", STRING, None, None, MEDIUM, "File with further claims of assertions."),
    ("sasl.oauthbearer.scope.claim.name", STRING, "scope", None, LOW, "Claim that holds the scope."),
    ("sasl.oauthbearer.sub.claim.name", STRING, "sub", None, LOW, "Claim that holds the subject."),
    (
        "sasl.oauthbearer.token.endpoint.url",
        STRING,
        None,
        None,
        MEDIUM,
        "Address of the identity provider's token endpoint.",
    ),
    ("sasl.oauthbearer.jwks.endpoint.url", STRING, None, None, MEDIUM, "Address of the identity provider's keys."),
    ("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3600000, None, LOW, "How often those keys are refreshed."),
    (
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10000,
        None,
        LOW,
        "The longest wait between two attempts to fetch them.",
    ),
    (
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        None,
        LOW,
        "The first wait between two attempts to fetch them.",
    ),
    (
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        None,
        LOW,
        "How far the clocks of broker and identity provider may differ.",
    ),
    (
        "sasl.oauthbearer.expected.audience",
        LIST,
        [],
        ValidList.any_non_duplicate_values(True, False),
        LOW,
        "Audiences of which a token must name one.",
    ),
    ("sasl.oauthbearer.expected.issuer", STRING, None, None, LOW, "Issuer that a token must name."),
    (
        "sasl.oauthbearer.header.urlencode",
        BOOLEAN,
        False,
        None,
        LOW,
        "Whether client id and secret are URL-encoded in the request's header.",
    ),
)

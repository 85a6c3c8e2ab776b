"""Security settings of a worker, for connections to its group."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest

from kconnect.errors import ConfigError
from kconnect.runtime.herder.group.errors import Unanswered
from kconnect.runtime.herder.group.security import access
from kit.certificates import Authority

PLAIN = 'x.PlainLoginModule required username="u" password="s3cret";'
SCRAM = 'x.ScramLoginModule required username="u" password="s3cret";'


def sasl(mechanism, jaas=PLAIN, **more):
    return {"security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism, "sasl.jaas.config": jaas} | more


@pytest.mark.parametrize(
    ("settings", "first"),
    [
        (sasl("PLAIN"), b"\0u\0s3cret"),
        (sasl("SCRAM-SHA-256", SCRAM), b"n,,n=u,r="),
        (sasl("SCRAM-SHA-512", SCRAM), b"n,,n=u,r="),
    ],
)
def test_a_jaas_entry_becomes_a_login(settings, first):
    found = access(settings, "me")
    assert found.tls is None
    assert found.login is not None
    assert found.login().mechanism == settings["sasl.mechanism"]
    assert found.login().first().startswith(first)
    assert "s3cret" not in repr(found)


def test_an_unsecured_token_is_made_for_test_clusters():
    found = access(sasl("OAUTHBEARER", 'x.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="me";'), "c")
    assert found.login is not None
    assert found.login().first().startswith(b"n,,\x01auth=Bearer eyJhbGciOiAibm9uZSJ9.")


OAUTH = 'x.OAuthBearerLoginModule required clientId="me" clientSecret="s3cret";'


def test_a_token_endpoint_that_says_nothing_is_given_up_in_the_time_of_the_setting():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = {"sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{silent.getsockname()[1]}/token"}
        found = access(sasl("OAUTHBEARER", OAUTH, **endpoint, **{"sasl.login.read.timeout.ms": "50"}), "me")
        with pytest.raises(
            Unanswered, match=r"it did not answer within 0\.05 s \(sasl\.login\.read\.timeout\.ms\)"
        ) as reported:
            found.login().first()
    assert "s3cret" not in str(reported.value)


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        pytest.param(b"nonsense\r\n\r\n", "it broke off: this is not HTTP: .nonsense", id="no HTTP at all"),
        pytest.param(
            b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"access',
            "it broke off: .*92 bytes before the end",
            id="cut off",
        ),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "TypeError", id="a list"),
        pytest.param(
            b'HTTP/1.1 200 OK\r\nContent-Length: 41\r\n\r\n{"access_token": "t", "expires_in": null}',
            "TypeError",
            id="no time to live",
        ),
        pytest.param(
            b'HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n{"access_token": null}',
            "TypeError.*its access_token is not a string",
            id="no token",
        ),
    ],
)
def test_a_token_endpoint_that_answers_nonsense_is_asked_again_later(answer, named):
    with socket.create_server(("127.0.0.1", 0)) as endpoint:
        serving = threading.Thread(target=answer_once, args=(endpoint, answer))
        serving.start()
        url = {"sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{endpoint.getsockname()[1]}/token"}
        login = access(sasl("OAUTHBEARER", OAUTH, **url), "me").login
        assert login is not None
        with pytest.raises(Unanswered, match=f"gives no token: {named}") as reported:
            login().first()
        serving.join(10)
    assert "s3cret" not in str(reported.value)


def answer_once(endpoint, answer):
    """As an HTTP server that says this to whatever is asked, and closes the connection."""
    connection, _ = endpoint.accept()
    with connection:
        received = b""
        while not received.endswith(b"grant_type=client_credentials"):  # bytes left unread would reset the connection
            received += connection.recv(65536)
        connection.sendall(answer)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        (sasl("OAUTHBEARER", OAUTH, **{"sasl.login.read.timeout.ms": "soon"}), r"sasl\.login\.read\.timeout\.ms"),
        ({"security.protocol": "TLS"}, r"security\.protocol"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI"),
        (sasl("GSSAPI"), "GSSAPI"),
        (sasl("OAUTHBEARER", "x.OAuthBearerLoginModule required;"), r"token\.endpoint\.url"),
        (sasl("PLAIN", "x.OAuthBearerLoginModule required;"), r"sasl\.jaas\.config"),
        (
            sasl(
                "OAUTHBEARER",
                "x.OAuthBearerLoginModule required;",
                **{
                    "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer."
                    "JwtBearerJwtRetriever"
                },
            ),
            "JwtBearerJwtRetriever",
        ),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "SSLv3"}, r"ssl\.enabled\.protocols"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "TLS_NO_WITH_NOTHING"}, r"ssl\.cipher\.suites"),
    ],
)
def test_what_can_not_be_done_is_refused_by_the_setting_s_name(settings, named):
    with pytest.raises(ConfigError, match=named):
        access(settings, "me")


def test_stores_of_java_become_a_tls_context(tmp_path):
    authority = Authority()
    store = authority.sign("worker").p12_file(tmp_path / "own.p12", "store-pass")
    settings = {
        "security.protocol": "SSL",
        "ssl.truststore.certificates": authority.pem.decode(),
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": "store-pass",
        "ssl.enabled.protocols": "TLSv1.2",
        "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    }

    tls = access(settings, "me").tls()

    assert tls is not None
    assert tls.check_hostname
    assert tls.verify_mode is ssl.CERT_REQUIRED
    assert tls.maximum_version is ssl.TLSVersion.TLSv1_2
    assert [one["name"] for one in tls.get_ciphers() if one["protocol"] == "TLSv1.2"] == [
        "ECDHE-ECDSA-AES128-GCM-SHA256"
    ]
    assert len(tls.get_ca_certs()) == 1


def test_an_empty_identification_algorithm_trusts_any_name_but_not_any_authority():
    tls = access({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""}, "me").tls()
    assert tls is not None
    assert not tls.check_hostname
    assert tls.verify_mode is ssl.CERT_REQUIRED

"""`connect check` beside schema registries and key stores: real sockets, real files, no broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from kconnect.admin.preflight.brokers import client_identities
from kconnect.admin.preflight.checks import certificate_probes, registry_probes
from kconnect.admin.preflight.probe import run
from kconnect.admin.preflight.results import Verdict
from kit.bad_servers import answering, bad_server, tls_of
from kit.certificates import Authority
from kit.pace import ample_s
from kit.ports import free_port


class Registry(BaseHTTPRequestHandler):
    """Wants a login where the path begins with /guarded."""

    def do_GET(self) -> None:
        self.send_response(401 if self.path.startswith("/guarded") else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"[]")

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def registry() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Registry) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_schema_registries_of_the_worker_and_of_connectors_are_asked_once_each(registry: str) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    worker = {
        "value.converter.schema.registry.url": f"{registry},{away}",
        "key.converter.schema.registry.url": f"{registry}/guarded",
        "key.converter.basic.auth.user.info": "u:opensesame-4",
    }
    connector = {
        "value.converter.schema.registry.url": registry,
        "key.converter.schema.registry.url": registry.replace("//", "//u:opensesame-5@") + "/guarded2",
        "header.converter.schema.registry.url": f"{registry}/guarded3",
    }
    found = run(registry_probes([worker, connector]), ample_s(10))
    reported = {one.where.removeprefix(registry): (one.verdict, one.message) for one in found}
    assert reported[""] == (Verdict.OK, "answers (200)")
    assert reported[away] == (Verdict.FAILED, "cannot be asked: nobody answers (connection refused)")
    assert reported["/guarded"] == reported["/guarded2"] == (Verdict.OK, "answers (401, it wants a login)")
    assert reported["/guarded3"] == (Verdict.WARNING, "wants a login (401), and the converter has none")
    assert len(found) == 5
    assert "opensesame" not in str(found)


def test_a_registry_over_tls_is_trusted_as_converters_trust_it(tmp_path: Path) -> None:
    server = Authority().sign("127.0.0.1")
    (tmp_path / "leaf.pem").write_bytes(server.certificate_pem)  # no root, and enough for Java
    with bad_server(answering(b"[]"), tls_of(server, tmp_path)) as address:
        asked = {"schema.registry.url": f"https://{address}"}
        (away,) = run(registry_probes([asked]), ample_s(10))
        assert (away.verdict, "not trusted" in away.message) == (Verdict.FAILED, True)
        assert "schema.registry.ssl.truststore.location" in (away.hint or "")
        own = asked | {"schema.registry.ssl.truststore.location": str(tmp_path / "leaf.pem")}
        (there,) = run(registry_probes([own]), ample_s(10))
        assert (there.verdict, there.message) == (Verdict.OK, "answers (200)")


def test_a_registry_that_leads_elsewhere_is_reported_as_converters_do_not_follow() -> None:
    moved = answering(b"", b"Location: /elsewhere", status=b"302 Found")
    with bad_server(moved) as address:
        (found,) = run(registry_probes([{"schema.registry.url": f"http://{address}"}]), ample_s(10))
    assert (found.verdict, found.message) == (Verdict.FAILED, "answers 302, which leads elsewhere")


def test_certificates_of_clients_and_listeners_are_read_with_their_dates(tmp_path: Path) -> None:
    authority = Authority()
    authority.file(tmp_path / "ca.pem")
    authority.sign("worker", valid_days=90).p12_file(tmp_path / "good.p12", "opensesame-6")
    authority.sign("old", valid_days=-1).pem_file(tmp_path / "old.pem")
    worker = {
        "bootstrap.servers": "localhost:1",
        "security.protocol": "SSL",
        "ssl.keystore.location": str(tmp_path / "good.p12"),
        "ssl.keystore.password": "opensesame-6",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "producer.security.protocol": "SSL",
        "producer.ssl.truststore.location": str(tmp_path / "none.pem"),
        "listeners": "https://:8443",
        "listeners.https.ssl.keystore.location": str(tmp_path / "old.pem"),
    }
    identities = client_identities(worker, is_distributed=True)
    found = run(certificate_probes(worker, identities), ample_s(10))
    assert [(one.where, one.verdict) for one in found] == [
        ("ssl.keystore", Verdict.OK),
        ("ssl.truststore", Verdict.WARNING),  # the authority of the tests lives for a day
        ("producer.ssl.*", Verdict.FAILED),
        ("listeners.https.ssl.keystore", Verdict.FAILED),
    ]
    assert "none.pem cannot be read: No such file or directory" in found[2].message
    assert found[3].message.startswith("CN=old expired on ")

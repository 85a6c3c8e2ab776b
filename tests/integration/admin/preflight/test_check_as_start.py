"""What `connect check` says of a fault is what a start with it says."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from kconnect.admin.preflight.checks import check_start
from kconnect.admin.preflight.results import Verdict
from kconnect.worker import DistributedWorker, StandaloneWorker
from kconnect.worker.startup_errors import StartupError
from kit.distributed_worker import cluster_settings
from kit.memory_launcher import MemoryLauncher
from kit.pace import ample_s
from kit.standalone import STRING_CONVERTERS

NOWHERE = "${folder}/none/file"
TLS = {"security.protocol": "SSL", "ssl.truststore.type": "PEM"}
STANDALONE: Mapping[str, Mapping[str, str]] = {
    "no broker listens": {},
    "a host that nobody knows": {"bootstrap.servers": "no-such-host.invalid:9092"},
    "no host and port": {"bootstrap.servers": "nowhere"},
    "a missing setting": {"key.converter": ""},
    "a class that is unknown": {"key.converter": "JsonConvertr"},
    "no number": {"offset.flush.interval.ms": "often"},
    "no number in our settings": {"kconnect.slots": "many"},
    "no security protocol": {"security.protocol": "SLL"},
    "a trust store that is not there": {**TLS, "ssl.truststore.location": NOWHERE},
    "a trust store that is none": {**TLS, "ssl.truststore.location": "${folder}/garbage"},
    "a login that cannot be read": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "x",
    },
    "a provider without its class": {"config.providers": "vault"},
    "a listener of no protocol": {"listeners": "ftp://127.0.0.1:0"},
    "a port that is taken": {"listeners": "http://127.0.0.1:${port}"},
    "https without a certificate": {"listeners": "https://127.0.0.1:0"},
    "an offsets file in no folder": {"offset.storage.file.filename": NOWHERE},
    "an offsets file that is none": {"offset.storage.file.filename": "${folder}/garbage"},
    "an offsets file that is a folder": {"offset.storage.file.filename": "${folder}"},
    "roles that are not there": {"kconnect.rest.roles.file": NOWHERE},
    "an audit log in no folder": {"kconnect.audit.log.file": NOWHERE},
    "an audit log that is a folder": {"kconnect.audit.log.file": "${folder}"},
    "an audit log that is required and nowhere": {"kconnect.audit.log.required": "true"},
    "a webhook that is no URL": {"kconnect.webhook.url": "ftp://example.com"},
}
DISTRIBUTED: Mapping[str, Mapping[str, str]] = {
    "two topics that are one": {"status.storage.topic": "g-offset"},
    "no group": {"group.id": ""},
    "no topic": {"config.storage.topic": ""},
    "an algorithm that is unknown": {"inter.worker.signature.algorithm": "HmacNone"},
    "no security protocol": {"security.protocol": "SLL"},
    "a trust store that is not there": {**TLS, "ssl.truststore.location": NOWHERE},
}


@pytest.fixture
def given(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Settings that are well, but that no broker listens."""
    (tmp_path / "garbage").write_text("this is nothing that anybody reads")
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield {
            "bootstrap.servers": f"127.0.0.1:{bound.getsockname()[1]}",
            **STRING_CONVERTERS,
            "listeners": "http://127.0.0.1:0",
            "kconnect.bootstrap.timeout.ms": "200",
            "folder": str(tmp_path),
            "port": str(taken.getsockname()[1]),
        }


def filled(given: Mapping[str, str], fault: Mapping[str, str]) -> dict[str, str]:
    """The settings with the fault; an empty value takes one away."""
    places = {name: given[name] for name in ("folder", "port")}
    found = {name: value for name, value in given.items() if name not in places} | dict(fault)
    for name, place in places.items():
        found = {key: value.replace(f"${{{name}}}", place) for key, value in found.items()}
    return {key: value for key, value in found.items() if value}


def compare(worker: type[StandaloneWorker] | type[DistributedWorker], settings: dict[str, str]) -> None:
    said = [one for one in check_start(settings, "w.properties", ample_s(20)) if one.verdict is Verdict.FAILED]
    with pytest.raises(StartupError) as refused:
        worker(settings, file=Path("w.properties"), launcher=lambda _: MemoryLauncher()).start()

    started = str(refused.value)
    shared = [one for one in said if one.message in started]
    assert shared, f"a start says {started!r}\nthe check says {[one.message for one in said]}"
    if shared[0].check != "broker":  # the start's hint names the time it waited, too
        hint = refused.value.hint or ""
        assert (shared[0].hint or "") in (hint, "", "Correct it in w.properties."), hint


@pytest.mark.parametrize("fault", STANDALONE)
def test_a_standalone_worker_is_refused_in_the_words_of_the_check(given: dict[str, str], fault: str) -> None:
    offsets = {"offset.storage.file.filename": f"{given['folder']}/offsets"}

    compare(StandaloneWorker, filled(given, {**offsets, **STANDALONE[fault]}))


@pytest.mark.parametrize("fault", DISTRIBUTED)
def test_a_worker_of_a_cluster_is_refused_in_the_words_of_the_check(given: dict[str, str], fault: str) -> None:
    compare(DistributedWorker, filled(given, {**cluster_settings("g"), **DISTRIBUTED[fault]}))

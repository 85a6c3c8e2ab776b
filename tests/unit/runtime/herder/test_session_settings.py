"""Every `inter.worker.*` setting has an effect, or is refused with a sentence."""

from __future__ import annotations

import pytest

from kconnect.client.http_exchange import Response
from kconnect.client.peers import Peers
from kconnect.errors import ConfigError
from kconnect.runtime.config import DistributedConfig
from kconnect.runtime.herder.cluster.cluster_parts import ClusterParts
from kconnect.runtime.herder.decisions.request_signatures import KeyForm, new_key
from kconnect.worker.distributed import ClusterStores, cluster_parts

WORKER = {
    "bootstrap.servers": "localhost:1",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
    "key.converter": "x",
    "value.converter": "x",
}


class _Sent(Peers):
    """Keeps what would go over the network."""

    def __init__(self):
        self.requests = []

    def send(self, url, request):
        self.requests.append(request)
        return Response(204)


def _config(**settings: str) -> DistributedConfig:
    named = {f"inter.worker.{key.replace('_', '.')}": value for key, value in settings.items()}
    return DistributedConfig.parse({**WORKER, **named}, lambda name: name)


def _parts(peers: Peers | None = None, **settings: str) -> ClusterParts:
    config = _config(**settings)
    return cluster_parts(config, ClusterStores(config), peers or _Sent())


def test_the_defaults_are_those_of_java():
    parts = _parts()
    assert parts.key_form == KeyForm("HmacSHA256", 32)
    assert parts.times.key_ttl_ms == 3_600_000
    assert list(parts.verification_algorithms) == ["HmacSHA256"]


def test_keys_are_made_as_the_settings_say():
    assert _parts(key_generation_algorithm="HmacSHA512").key_form == KeyForm("HmacSHA512", 64)
    assert _parts(key_size="512").key_form == KeyForm("HmacSHA256", 64)
    assert _parts(key_ttl_ms="0").times.key_ttl_ms == 0


def test_requests_are_signed_and_checked_with_the_algorithms_of_the_settings():
    sent = _Sent()
    parts = _parts(sent, signature_algorithm="HmacSHA1", verification_algorithms="HmacSHA256, HmacSHA1")
    assert list(parts.verification_algorithms) == ["HmacSHA256", "HmacSHA1"]
    parts.leader.put_task_configs("http://leader/", "a/b", [{"x": "ü"}], new_key(parts.key_form, 0))
    (request,) = sent.requests
    assert request.path == "/connectors/a%2Fb/tasks"
    assert request.body == '[{"x": "ü"}]'.encode()
    assert request.headers["X-Connect-Request-Signature-Algorithm"] == "HmacSHA1"


def test_without_a_key_nothing_is_signed():
    sent = _Sent()
    _parts(sent).leader.fence_zombies("http://leader/", "a", None)
    (request,) = sent.requests
    assert (request.method, request.path, request.body) == ("PUT", "/connectors/a/fence", b"")
    assert not [name for name in request.headers if name.lower().startswith("x-connect")]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"key_size": "39"}, "Key length must be at least 40 bits"),
        ({"key_size": "long"}, r"inter\.worker\.key\.size"),
        ({"key_ttl_ms": "-1"}, r"inter\.worker\.key\.ttl\.ms"),
        ({"key_generation_algorithm": "AES"}, r"inter\.worker\.key\.generation\.algorithm.*not supported"),
        ({"signature_algorithm": "HmacNope"}, r"inter\.worker\.signature\.algorithm.*not supported"),
        ({"verification_algorithms": "HmacNope"}, r"inter\.worker\.verification\.algorithms.*not supported"),
        ({"verification_algorithms": ""}, "At least one signature verification algorithm"),
        ({"signature_algorithm": "HmacSHA1"}, r"must be present in inter\.worker\.verification\.algorithms list"),
    ],
)
def test_settings_that_can_not_work_are_refused_with_a_sentence(settings, said):
    with pytest.raises(ConfigError, match=said):
        _config(**settings)

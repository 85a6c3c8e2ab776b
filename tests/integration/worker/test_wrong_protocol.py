"""A worker whose security.protocol is not the listener's: reported alike at start, in an outage and by connect
check.
"""

from __future__ import annotations

import threading

import pytest

from kconnect.admin.preflight.checks import check_start
from kconnect.errors import ConnectError, UnreachableError
from kconnect.runtime.config.worker_config import DistributedConfig
from kconnect.runtime.herder.group.connection import BrokerProbe
from kconnect.runtime.herder.group.security import access
from kconnect.runtime.herder.health.reasons import Health
from kconnect.worker.kafka_availability import KafkaAvailability
from kit.distributed_worker import worker_settings
from kit.pace import ample_s
from kit.secure_broker import SecureBroker

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

TO_TLS = "the listener may want TLS or a login: security.protocol is PLAINTEXT"
TO_PLAIN = "the listener may speak no TLS: security.protocol is SSL"


@pytest.mark.parametrize(("settings", "said"), [({}, TO_TLS), ({"security_protocol": "SSL"}, TO_PLAIN)])
def test_the_protocol_is_reported_at_start_in_an_outage_and_by_check(
    secure: SecureBroker, settings: dict[str, str], said: str
) -> None:
    address = secure.plain if settings else secure.mutual
    timeout_ms = f"{ample_s(4) * 1000:.0f}"
    props = worker_settings(address, "protocol", kconnect_bootstrap_timeout_ms=timeout_ms, **settings)
    kafka = KafkaAvailability(props, DistributedConfig.parse(props), None, Health())
    with pytest.raises(UnreachableError, match=said):
        kafka.find_cluster(threading.Event(), lambda: None)
    probe = BrokerProbe(access({**props, "bootstrap.servers": address}, "test"))
    with pytest.raises(ConnectError, match=said):
        probe.ask(ample_s(4))
    reported = [one.message for one in check_start(props, "worker.properties", ample_s(20)) if one.check == "broker"]
    assert any(said in message for message in reported), reported

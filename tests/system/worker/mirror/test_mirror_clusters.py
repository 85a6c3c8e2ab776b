"""`connect mirror` among three clusters, through kills and a failover, and with clusters that ask who is there.

`make mirror` runs them: brokers and workers, each several times.
"""

from __future__ import annotations

import os
import re
import signal
import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient

from kit.brokers import PatientBroker
from kit.mirror import Mirror, group_offsets, same_records
from kit.pace import ample_s, now
from kit.ports import free_port
from kit.secure_broker import PASSWORD, STORE_PASSWORD, Authority, scram, secure_broker
from kit.topics import consume_values, create_topic, end_offset, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]

_PARTS = range(3)


def lines_of(number: int) -> list[str]:
    return [f"{number}-{line}" for line in range(600)]


def read_as(bootstrap: str, topic: str, least: int, reset: str = "earliest") -> set[str]:
    """What a member of the group `shop` reads, until it has `least` records or none comes; commits all of it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "shop", "auto.offset.reset": reset})
    read: list[str] = []
    quiet, deadline = 0, now() + 60
    try:
        consumer.subscribe([topic])
        while len(read) < least and (not read or quiet < 5):
            assert now() < deadline, f"{len(read)} records of {least}"
            messages = consumer.consume(100, timeout=1.0)
            for message in messages:
                assert message.error() is None, message.error()
                read.append((message.value() or b"").decode())
            quiet = 0 if messages else quiet + 1
            if messages:
                consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return set(read)


def offsets_there(bootstrap: str, topic: str) -> dict[int, int]:
    """Where the group is in the target: never beyond what is there."""
    found = {part: offset for (name, part), offset in group_offsets(bootstrap, "shop").items() if name == topic}
    for part, offset in found.items():
        end = end_offset(bootstrap, topic, part)
        assert offset <= end, f"the group is at {offset} of partition {part}, which ends at {end}"
    return found


def topics_of(bootstrap: str) -> set[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must live until the answer is there
    return set(admin.list_topics(timeout=ample_s(10)).topics)


if os.environ.get("KCONNECT_MIRROR") == "long":

    @pytest.mark.timeout(600)
    def test_a_group_fails_over_after_kills_and_misses_nothing(tmp_path: Path) -> None:
        folders = [tmp_path / name for name in ("a", "b", "c", "ours")]
        for folder in folders:
            folder.mkdir()
        brokers = [PatientBroker(free_port(), folder) for folder in folders[:3]]
        with brokers[0] as source, brokers[1] as target, brokers[2] as third:
            a, b, c = source.bootstrap, target.bootstrap, third.bootstrap
            create_topic(a, "orders", partitions=len(_PARTS))
            create_topic(b, "returns")
            produce_lines(b, "returns", [f"return {number}" for number in range(50)])
            flow = {
                "clusters": "A, B, C",
                **{f"{alias}.bootstrap.servers": place for alias, place in (("A", a), ("B", b), ("C", c))},
                "A->B.enabled": "true",
                "A->B.topics": "orders",
                "B->A.enabled": "true",
                "B->A.topics": "returns",
                "A->C.enabled": "false",
                "emit.heartbeats.enabled": "false",
                "A->B.emit.heartbeats.enabled": "true",
                "B->A.emit.heartbeats.enabled": "true",
                "emit.heartbeats.interval.seconds": "1",
                "sync.group.offsets.enabled": "true",
                "A.offset.flush.interval.ms": "500",
                "B.offset.flush.interval.ms": "500",
                "A.scheduled.rebalance.max.delay.ms": "0",
                "B.scheduled.rebalance.max.delay.ms": "0",
            }
            produced: set[str] = set()
            read: set[str] = set()
            with Mirror(folders[3], flow) as mirror:
                mirror.launch()
                for number in range(3):
                    lines = lines_of(number)
                    produce_lines(a, "orders", lines)
                    produced |= set(lines)
                    read |= read_as(a, "orders", 300)
                    before = sum(end_offset(b, "A.orders", part) for part in _PARTS)

                    def goes_on(before: int = before) -> bool:
                        assert offsets_there(b, "A.orders") is not None
                        return sum(end_offset(b, "A.orders", part) for part in _PARTS) > before

                    if number < 2:  # killed somewhere in what comes now: all of it, or the workers alone
                        more = [f"more {line}" for line in lines]
                        produce_lines(a, "orders", more)
                        produced |= set(more)
                        eventually(goes_on, 120, "it mirrors")
                        if number:
                            for worker in mirror.workers():
                                worker.send_signal(signal.SIGKILL)
                        else:
                            mirror.kill()
                            mirror.launch()
                        offsets_there(b, "A.orders")

                def mirrored() -> bool:
                    ends = sum(end_offset(b, "A.orders", part) for part in _PARTS)
                    missing = produced - {str(value, "utf-8") for value in consume_values(b, "A.orders", ends) if value}
                    assert not missing, f"{len(missing)} records are missing"
                    return True

                eventually(mirrored, 120, "all records are there")
                eventually(lambda: same_records(b, "returns", a, "B.returns", 1), 60, "the way back works")
                eventually(lambda: end_offset(b, "A.heartbeats") > 0, 60, "heartbeats of one are mirrored to the other")
                eventually(lambda: end_offset(a, "B.heartbeats") > 0, 60, "and back")
                assert "B.A.orders" not in topics_of(a), "a mirrored topic does not come back"
                assert not {name for name in topics_of(c) if not name.startswith("__")}, "nobody writes into the third"

                # As with Java, a group has offsets there once it is as far as the mirror was at its last start: older
                # ones have no syncs. Then its cluster dies
                read |= read_as(a, "orders", 1_000_000)
                assert read == produced
                produce_lines(a, "orders", lines_of(9))
                produced |= set(lines_of(9))
                eventually(mirrored, 60, "the last records are there")
                read |= read_as(a, "orders", 300)
                eventually(lambda: len(offsets_there(b, "A.orders")) == len(_PARTS), 60, "the group is known there")
                source.kill()
                offsets_there(b, "A.orders")
                mirror.kill()
                there = read_as(b, "A.orders", 1_000_000, reset="error")
                assert read | there == produced
                assert lines_of(0)[0] not in there, "it went on where it was, and did not begin again"

    @pytest.mark.timeout(300)
    def test_clusters_with_certificates_and_passwords_that_nobody_gets_to_see(tmp_path: Path) -> None:
        authority = Authority()
        ours = tmp_path / "ours"
        ours.mkdir()
        secrets = tmp_path / "secrets.properties"
        secrets.write_text(f"password={PASSWORD}\nstores={STORE_PASSWORD}\n")
        trust = str(authority.pkcs12(tmp_path / "trust.p12"))
        own = str(authority.issue("mirror").pkcs12(tmp_path / "own.p12"))
        with secure_broker(tmp_path, authority.issue("broker"), authority) as broker:
            create_topic(broker.plain, "orders")
            produce_lines(broker.plain, "orders", ["one", "two", "three"])
            flow = {
                "clusters": "A, B",
                "config.providers": "file",
                "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
                "A.bootstrap.servers": broker.scram,
                "A.security.protocol": "SASL_SSL",
                "A.sasl.mechanism": "SCRAM-SHA-512",
                "A.sasl.jaas.config": scram(password=f"${{file:{secrets}:password}}"),
                "ssl.truststore.location": trust,
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.password": f"${{file:{secrets}:stores}}",
                "B.bootstrap.servers": broker.mutual,
                "B.security.protocol": "SSL",
                "B.ssl.keystore.location": own,
                "B.ssl.keystore.type": "PKCS12",
                "B.ssl.keystore.password": STORE_PASSWORD,
                "A->B.enabled": "true",
                "A->B.topics": "orders",
                "B->A.emit.heartbeats.enabled": "false",
            }
            with Mirror(ours, flow) as mirror:
                mirror.launch()
                eventually(
                    lambda: same_records(broker.plain, "orders", broker.plain, "A.orders", 1), 90, "it is mirrored"
                )
                (url,) = re.findall(r"REST at (\S+)", mirror.log_text())
                for name in ("MirrorSourceConnector", "MirrorCheckpointConnector"):
                    for place in ("", "/config", "/tasks", "/status"):
                        answer = _get(f"{url}/connectors/{name}{place}")
                        assert PASSWORD not in answer
                assert f"${{file:{secrets}:password}}" in _get(f"{url}/connectors/MirrorSourceConnector/config")
                configs = "mm2-configs.A.internal"
                written = consume_values(broker.plain, configs, end_offset(broker.plain, configs))
                assert not any(PASSWORD.encode() in (value or b"") for value in written)
                assert mirror.stop(60) == 143
            log = mirror.log_text()
            assert PASSWORD not in log
            assert STORE_PASSWORD not in log, "nor one that stands in the file itself"
            assert "Fatal Python error" not in log

    def _get(url: str) -> str:
        with urllib.request.urlopen(url, timeout=ample_s(10)) as answer:
            return str(answer.read(), "utf-8")

"""A MirrorMaker 2 of Java's and one of ours share the work of a flow; and delivery exactly once through kills.

`make mirror` runs them: brokers, workers and Java's MirrorMaker, each several times.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kconnect.java.devbroker import JarSet, find_java
from kit.brokers import PatientBroker
from kit.mirror import QUICK, Mirror, same_records
from kit.pace import ended
from kit.ports import free_port
from kit.standalone import write_properties
from kit.topics import committed_values, create_topic, end_offset, produce_lines
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java]

_TOPICS = [f"orders-{number}" for number in range(4)]


@contextmanager
def java_mirror_maker(folder: Path, properties: dict[str, str]) -> Iterator[Path]:
    """connect-mirror-maker.sh on a file; gives its log."""
    file = write_properties(folder / "java-mm2.properties", properties)
    log = folder / "java-mm2.log"
    jars = os.pathsep.join(str(jar) for jar in JarSet("connect").fetch())
    settings = folder / "log4j2.properties"
    settings.write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.o.ref = O\nappender.o.type = Console\nappender.o.name = O\n"
        "appender.o.layout.type = PatternLayout\nappender.o.layout.pattern = %p %m (%c{1})%n\n"
    )
    options = ["-Xmx512M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={settings}"]
    command = [str(find_java("MirrorMaker").executable), *options, "-cp", jars]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield log
    finally:
        process.terminate()
        ended(process, 60)


if os.environ.get("KCONNECT_MIRROR") == "long":

    @pytest.mark.timeout(300)
    def test_java_and_we_share_a_flow_and_each_goes_on_alone(tmp_path: Path) -> None:
        folders = [tmp_path / name for name in ("a", "b", "java", "ours")]
        for folder in folders:
            folder.mkdir()
        with PatientBroker(free_port(), folders[0]) as source, PatientBroker(free_port(), folders[1]) as target:
            a, b = source.bootstrap, target.bootstrap
            for topic in _TOPICS:
                create_topic(a, topic)
            flow = {
                "clusters": "A, B",
                "A.bootstrap.servers": a,
                "B.bootstrap.servers": b,
                "A->B.enabled": "true",
                "A->B.topics": "orders.*",
                "B->A.emit.heartbeats.enabled": "false",
                "B.scheduled.rebalance.max.delay.ms": "0",
                "B.offset.flush.interval.ms": "500",
                "dedicated.mode.enable.internal.rest": "true",
                "tasks.max": "4",
            }

            def mirrored(count: int) -> bool:
                """Everything is there, in order and once: nobody was killed."""
                for topic in _TOPICS:
                    same_records(a, topic, b, f"A.{topic}", 1)
                return count > 0

            def produce() -> None:
                for topic in _TOPICS:
                    produce_lines(a, topic, [f"line {number}" for number in range(300)])

            produce()
            javas = {
                **QUICK,
                **flow,
                "listeners": f"http://127.0.0.1:{free_port()}",
                "plugin.discovery": "service_load",
            }
            with Mirror(folders[3], {**flow, "listeners": f"http://127.0.0.1:{free_port()}"}) as ours:
                with java_mirror_maker(folders[2], javas) as log:
                    eventually(lambda: mirrored(1), 90, "Java alone mirrors")
                    ours.launch()
                    eventually(
                        lambda: ours.says("Assigned to partition(s): orders-"), 60, "a task of the source is here"
                    )
                    eventually(
                        lambda: "Successfully joined group with generation" in log.read_text(), 30, "both are in"
                    )
                    produce()
                    eventually(lambda: mirrored(2), 60, "both mirror")

                    # A new topic is found where the connector runs, and reported to the leader: one of them is Java's
                    create_topic(a, "orders-9")
                    produce_lines(a, "orders-9", ["late"])
                    eventually(lambda: same_records(a, "orders-9", b, "A.orders-9", 1), 60, "the new topic is mirrored")
                produce()
                eventually(lambda: mirrored(3), 90, "we alone mirror")
                assert ours.stop(60) == 143

    @pytest.mark.timeout(300)
    def test_each_record_is_there_once_whatever_is_killed_when_exactly_once_is_asked_for(tmp_path: Path) -> None:
        folders = [tmp_path / name for name in ("a", "b", "ours")]
        for folder in folders:
            folder.mkdir()
        with PatientBroker(free_port(), folders[0]) as source, PatientBroker(free_port(), folders[1]) as target:
            a, b = source.bootstrap, target.bootstrap
            create_topic(a, "orders")
            flow = {
                "clusters": "A, B",
                "A.bootstrap.servers": a,
                "B.bootstrap.servers": b,
                "A->B.enabled": "true",
                "A->B.topics": "orders",
                "B->A.emit.heartbeats.enabled": "false",
                "A.consumer.isolation.level": "read_committed",
                "B.exactly.once.source.support": "enabled",
                "B.scheduled.rebalance.max.delay.ms": "0",
            }
            wanted: list[bytes | None] = []
            with Mirror(folders[2], flow) as mirror:
                mirror.launch()
                for number in range(4):
                    lines = [f"{number}-{line}".encode() for line in range(20_000)]
                    produce_lines(a, "orders", lines)
                    wanted += lines

                    def has_some(least: int = number * 20_000 + 1) -> bool:
                        return end_offset(b, "A.orders") >= least

                    eventually(has_some, 90, "it is at work")
                    (worker,) = mirror.workers()
                    worker.send_signal(signal.SIGKILL)
                    worker.wait(10)
                eventually(lambda: committed_values(b, "A.orders") == wanted, 120, "each record is there once")
                assert mirror.stop(60) == 143

"""MBeans of Java's plugins as metrics of their tasks, without Kafka; and the ports on which their JVMs listen."""

from __future__ import annotations

import math
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kconnect.errors import EnvironmentProblemError
from kconnect.java.compat.mbean_names import DEFAULT_MBEANS
from kconnect.java.plugins import JavaSettings
from kconnect.java.plugins.host import HostProcess
from kconnect.java.plugins.hosting import java_class
from kconnect.java.plugins.index import JavaIndex
from kconnect.java.plugins.source_task import JavaSourceTask
from kconnect.logs.log_context import log_context
from kconnect.runtime.metrics import PluginMetricsRegistry
from kit.java_plugin_folder import java_plugin_folder
from kit.waiting import eventually

pytestmark = [pytest.mark.java]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(java_plugin_folder(tmp_path_factory.mktemp("plugins")) / "kit")


@contextmanager
def started(mbeans: str = DEFAULT_MBEANS, **settings: str) -> Iterator[HostProcess]:
    given = {"kconnect.java.mbeans": mbeans, **{f"kconnect.java.{key}": text for key, text in settings.items()}}
    host = HostProcess(JavaIndex(), JavaSettings.of(given))
    try:
        yield host
    finally:
        host.stop()


class Context:
    """As much of a task's context as this task asks for."""

    def __init__(self, name: str) -> None:
        self._name, self.registry = name, PluginMetricsRegistry()

    def plugin_metrics(self) -> Any:
        return self.registry.of_plugin(connector=self._name, task="0")

    def transaction_context(self) -> None:
        return None


class Source:
    def __init__(self, host: HostProcess, folder: str, name: str, **config: str) -> None:
        self.task = java_class("kit.Monitored$MonitoredTask", folder, JavaSourceTask, host)()
        self.context = Context(name)
        self.task.context = self.context  # type: ignore[assignment]  # what this task needs of it
        with log_context(name, 0):
            self.task.start({"name": name, **config})

    def shown(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], Any]:
        return {(each.name, each.tags): each.value for each in self.context.registry.values()}

    def names(self) -> set[str]:
        return {name for name, _ in self.shown()}


def _labels(name: str, context: str = "streaming", **more: str) -> tuple[tuple[str, str], ...]:
    own = {"connector": name, "task": "0", "plugin": "kit", "context": context, "name": name, **more}
    return tuple(own.items())


def test_mbeans_of_a_task_have_the_names_and_labels_of_debeziums_rules_and_each_task_has_its_own(folder: str) -> None:
    with started() as host:
        one, two = Source(host, folder, "one"), Source(host, folder, "two")
        for name, source in (("one", one), ("two", two)):
            eventually(source.shown, 20, "its MBeans are read")
            found = source.shown()
            behind = found.pop(("debezium_metrics_MilliSecondsBehindSource", _labels(name)))
            eventually(
                lambda source=source, name=name, behind=behind: (
                    source.shown()["debezium_metrics_MilliSecondsBehindSource", _labels(name)] > behind
                ),
                20,
                "they are read again",
            )
            assert math.isnan(found.pop(("debezium_metrics_Nothing", _labels(name))))
            assert found == {
                ("debezium_metrics_Connected", _labels(name)): 1,
                ("debezium_metrics_RowsScanned", _labels(name, table="shop.customers")): 3,
                ("debezium_metrics_RowsScanned", _labels(name, table="shop.orders")): 5,
            }
        one.task.stop()
        assert one.shown() == {}
        assert two.shown()
        two.task.stop()


def test_an_mbean_that_throws_or_hangs_is_named_once_and_the_others_are_shown(
    folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with started() as host:
        bad, good = Source(host, folder, "bad", bad="yes"), Source(host, folder, "good")
        for source in (bad, good):
            eventually(lambda source=source: "debezium_metrics_Connected" in source.names(), 20, "it is read")
        eventually(
            lambda: "debezium_metrics_Good" in bad.names(), 20, "the attribute beside the one that throws is read"
        )

        def warnings() -> list[str]:
            return [line.getMessage() for line in caplog.records if "MBean " in line.getMessage()]

        eventually(lambda: len(warnings()) >= 2, 20, "both are named")
        behind = good.shown()["debezium_metrics_MilliSecondsBehindSource", _labels("good")]
        for _ in range(2):  # twice more, for whoever would be named again

            def is_read_again(last: Any = behind) -> Any:
                now = good.shown()["debezium_metrics_MilliSecondsBehindSource", _labels("good")]
                return now if now > last else None

            behind = eventually(is_read_again, 20, "the others are read on")
        assert len(warnings()) == 2, warnings()
        (throws,) = (line for line in warnings() if "throws" in line)
        (hangs,) = (line for line in warnings() if "has not answered" in line)
        assert throws.startswith(
            "MBean debezium.kit:type=connector-metrics,context=throwing,server=bad cannot be read: its attribute "
            "Broken throws java.lang.IllegalStateException: the gauge is broken (kconnect.java.mbeans)"
        )
        assert hangs == (
            "MBean debezium.kit:type=connector-metrics,context=hanging,server=bad has not answered within 1000 ms and "
            "is not shown until it does (kconnect.java.mbeans)"
        )
        assert "debezium_metrics_Broken" not in bad.names()
        assert "debezium_metrics_Never" not in bad.names()
        bad.task.stop()
        good.task.stop()


def test_patterns_choose_mbeans_those_of_the_jvm_too(folder: str) -> None:
    with started("other.*,java.lang:type=Memory") as host:
        source = Source(host, folder, "chosen")
        eventually(lambda: "other_kit_hidden_Good" in source.names(), 20, "they are read")
        found = source.shown()
        tags = (("connector", "chosen"), ("task", "0"))
        assert found["other_kit_hidden_Good", (*tags, ("server", "chosen"))] == 1
        assert found["java_lang_Memory_HeapMemoryUsage_used", tags] > 100_000
        assert not any(name.startswith("debezium") for name in source.names())
        source.task.stop()
    with started("") as host:
        source = Source(host, folder, "none")
        source.task.poll()
        assert source.shown() == {}
        source.task.stop()


def test_each_jvm_listens_on_a_port_of_its_own_from_the_given_one_on(folder: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first = taken.getsockname()[1]
        options = (
            f"-Dcom.sun.management.jmxremote.port={first} -Dcom.sun.management.jmxremote.rmi.port={first} "
            "-Dcom.sun.management.jmxremote.authenticate=false -Dcom.sun.management.jmxremote.ssl=false"
        )
        with started(opts=options) as one, started(opts=options) as two:
            sources = [Source(one, folder, "one"), Source(two, folder, "two")]
            ports = [*one.ports, *two.ports]
            assert len({*ports}) == 2
            assert all(port > first for port in ports)
            for port in ports:
                socket.create_connection(("localhost", port), 5).close()
            for source in sources:
                source.task.stop()
        assert one.ports == ()


def test_an_option_that_java_does_not_know_is_named_with_its_setting(folder: str) -> None:
    with started(opts="-XX:NoSuchOption=7") as host, pytest.raises(EnvironmentProblemError) as raised:
        Source(host, folder, "refused")
    assert str(raised.value).startswith(
        f"kit.Monitored$MonitoredTask in {folder} cannot run: The JVM for Java's plugins did not start (exit code 1, "
        "option -XX:NoSuchOption=7 of kconnect.java.opts): Unrecognized VM option 'NoSuchOption=7'"
    )

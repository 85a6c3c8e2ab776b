"""What MBeans of a Java task show is in /metrics, the console and `connect describe`; `connect slots` has ports."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kit.cli import cli_run
from kit.java_plugin_folder import java_plugin_folder
from kit.java_worker import java_worker
from kit.pace import ample_s
from kit.ports import free_port
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.java, pytest.mark.spark, pytest.mark.timeout(180)]

_BEHIND = "debezium_metrics_MilliSecondsBehindSource"


def test_mbeans_are_on_every_screen_and_each_jvm_has_a_port(tmp_path: Path, broker: DevBroker) -> None:
    plugins, port = java_plugin_folder(tmp_path / "plugins"), free_port()
    options = f"-Dcom.sun.management.jmxremote.port={port} -Dcom.sun.management.jmxremote.authenticate=false"
    more = {"kconnect.java.opts": f"{options} -Dcom.sun.management.jmxremote.ssl=false"}
    home = tmp_path / "home"
    with java_worker(tmp_path, broker.bootstrap, plugins, **more) as worker:
        worker.create("shop", **{"connector.class": "kit.Monitored"})
        worker.await_running("shop")

        def read(path: str) -> str:
            return str(urllib.request.urlopen(f"{worker.url}{path}", timeout=ample_s(10)).read(), "utf-8")

        line = re.compile(
            rf'^{_BEHIND}{{connector="shop",task="0",plugin="kit",context="streaming",name="shop"}} \d+$', re.MULTILINE
        )
        eventually(lambda: line.search(read("/metrics")), 30, "the metric is there")
        assert f"# TYPE {_BEHIND} gauge" in read("/metrics")
        assert (
            'debezium_metrics_Connected{connector="shop",task="0",plugin="kit",context="streaming",name="shop"} 1'
            in read("/metrics")
        )

        def described() -> str:
            reported = cli_run("describe", "shop", "--url", worker.url, home=home, env={"COLUMNS": "200"}).stdout
            return reported if _BEHIND in reported else ""

        reported = eventually(described, 40, "describe has the MBeans of the last sample")
        assert re.search(
            rf"^  0 +{_BEHIND} +plugin=kit, context=streaming, name=shop +[\d,]+$", reported, re.MULTILINE
        ), reported
        page = "/ui/connectors/shop/activity/now"
        eventually(lambda: _BEHIND in read(page), 40, "the console plots what moves")
        assert "debezium_metrics_Connected" not in read(page)

        slots = json.loads(read("/admin/slots"))
        ports = [found for slot in slots for found in slot["java_ports"]]
        assert len(ports) == len({*ports}) == 2, f"that of the worker and that of the slot: {slots}"
        for each in ports:
            assert each >= port
            socket.create_connection(("localhost", each), ample_s(5)).close()
            assert f", listens on {each})" in worker.log_text()
        table = cli_run("slots", "--url", worker.url, home=home, env={"COLUMNS": "200"}).stdout
        assert "JAVA PORTS" in table
        assert all(str(each) in table for each in ports), table

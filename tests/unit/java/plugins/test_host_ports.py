"""Ports in options of JVMs: each JVM gets its own, from those that are given on."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kconnect.errors import EnvironmentProblemError
from kconnect.java.plugins.program import take_ports

_FORMS = (
    "-Dcom.sun.management.jmxremote.port={}",
    "-Dcom.sun.management.jmxremote.rmi.port={}",
    "-javaagent:/opt/jmx.jar={}:/opt/config.yml",
    "-javaagent:/opt/jmx.jar=localhost:{}:/opt/config.yml",
    "-javaagent:/opt/jolokia.jar=host=0.0.0.0,port={},user=x",
    "-agentlib:jdwp=transport=dt_socket,server=y,suspend=n,address=*:{}",
)


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCONNECT_CACHE", str(tmp_path))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
    return port


@pytest.mark.parametrize("form", _FORMS)
def test_the_second_jvm_gets_a_higher_port_and_a_port_that_is_released_is_taken_again(form: str) -> None:
    given = [form.format(port := free_port())]
    first = take_ports(given)
    second = take_ports(given)
    assert (first.options, first.ports) == ((given[0],), (port,))
    assert second.ports[0] > port
    assert second.options == (form.format(second.ports[0]),)
    first.release()
    again = take_ports(given)
    assert again.ports == (port,)
    for taken in (second, again):
        taken.release()


def test_all_ports_of_one_jvm_move_together() -> None:
    jmx, agent = free_port(), free_port()
    options = [f"-Dcom.sun.management.jmxremote.port={jmx}", "-Da=b", f"-javaagent:a.jar={agent}:c.yml"]
    with socket.socket() as taken:
        taken.bind(("", agent))
        taken.listen()
        found = take_ports(options)
    step = max(found.ports) - max(jmx, agent)
    assert step > 0
    assert found.options == (
        f"-Dcom.sun.management.jmxremote.port={jmx + step}",
        "-Da=b",
        f"-javaagent:a.jar={agent + step}:c.yml",
    )
    found.release()


def test_options_without_a_port_stay_as_they_are() -> None:
    options = ("-Xss1m", "-Dcom.sun.management.jmxremote.port=0", "-javaagent:a.jar", "-Dport=8080")
    found = take_ports(options)
    assert (found.options, found.ports) == (options, ())


def test_without_a_free_port_the_setting_is_named() -> None:
    with pytest.raises(EnvironmentProblemError, match=r"No port is free .* 70000 and 70199") as raised:
        take_ports(["-Dcom.sun.management.jmxremote.port=70000"])
    assert "kconnect.java.opts" in str(raised.value.hint)

"""Addresses of brokers against ClientUtils of kafka-clients: what it takes, ours takes, and the other way round."""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from kconnect.errors import ConfigError
from kconnect.java.devbroker import JarSet, find_java
from kconnect.runtime.config.addresses import parse_servers
from kit.pace import ample_s
from kit.places import KIT

PROGRAM = KIT / "java_programs/Addresses.java"
# Hosts that no name server is asked for
_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1", "", "[]", "[127.0.0.1]", "local host", "user@localhost", "ü", "a/b")
_PORTS = ("9092", "1", "65535", "65536", "70000", "99999999999", "", "abc", "-1", "+1", "09092", "9092/x", " 9092", "٣")
_PROTOCOLS = ("", "", "", "PLAINTEXT://", "http://", "://", "//", "SASL_SSL://x://")
_BETWEEN = (",", ", ", " ,", ",,", ";", " ", "\t,")

pytestmark = pytest.mark.java


def random_servers(chance: random.Random) -> str:
    parts = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        colon = chance.choice((":", ":", ":", ":", "", "::"))
        parts.append(chance.choice(_PROTOCOLS) + chance.choice(_HOSTS) + colon + chance.choice(_PORTS))
    text = parts[0] + "".join(chance.choice(_BETWEEN) + part for part in parts[1:])
    return chance.choice(("", "", "", " ", ",")) + text + chance.choice(("", "", "", " ", ","))


def ours(text: str) -> str:
    try:
        return " ".join(["ok", *(str(port) for _, port in parse_servers(text))])
    except ConfigError as err:
        return f"refused {err}"


def test_thousands_of_random_addresses_are_taken_and_refused_as_by_java() -> None:
    chance = random.Random(4092)
    texts = list(dict.fromkeys(["", "   ", *(random_servers(chance) for _ in range(5000))]))
    java = find_java("Java's addresses")
    jars = os.pathsep.join(str(jar) for jar in JarSet("connect").fetch())
    given = "".join(text.replace("\t", "\\t") + "\n" for text in texts)
    command = [str(java.executable), "-Dstdout.encoding=UTF-8", "-cp", jars, str(PROGRAM)]

    reported = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=ample_s(120), check=True, encoding="utf-8"
    )

    lines = reported.stdout.split("\n")[:-1]
    assert len(lines) == len(texts)
    different = [(text, ours(text), line) for text, line in zip(texts, lines, strict=True) if ours(text) != line]
    assert different[:5] == [], len(different)
    assert sum(line.startswith("ok") for line in lines) > 100

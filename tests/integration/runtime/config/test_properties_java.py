"""Our .properties reader and writer against java.util.Properties, over a random corpus in one JVM."""

from __future__ import annotations

import random
import shutil
import subprocess

import pytest

from kconnect.errors import ConfigError
from kconnect.java.compat.properties import dump_properties, parse_properties
from kit.pace import ample_s
from kit.places import KIT

PROGRAM = KIT / "java_programs/PropsDump.java"
# What the syntax treats in a special way, and characters just beside it.
PIECES = [
    *("a", "b", "k", "n", "t", "u", "0", "é", "\x00", "\x0b", "\x1c", "\x85", "\xa0"),
    *("\\", "\\", "\\", "\n", "\n", "\r", "\r\n", " ", " ", "\t", "\f", "=", ":", "#", "!"),
    *("\\u0041", "\\u00e9", "\\uD83D", "\\uDE00", "\\u12", "\\n"),
]

pytestmark = [
    pytest.mark.java,
    pytest.mark.filterwarnings("ignore::UserWarning"),
]


def java_reads(documents: list[bytes]) -> list[str]:
    """What the JDK makes of each document: entries in hex, sorted, or ERROR."""
    java = shutil.which("java")
    assert java is not None, "no java on the path"
    lines = "".join(document.hex() + "\n" for document in documents)
    done = subprocess.run(
        [java, str(PROGRAM)], input=lines, capture_output=True, text=True, timeout=ample_s(90), check=True
    )
    return [line if not line.startswith("ERROR") else "ERROR" for line in done.stdout.split("\n")[:-1]]


def in_hex(settings: dict[str, str]) -> str:
    def units(text: str) -> str:
        return text.encode("utf-16-be", "surrogatepass").hex()

    return " ".join(sorted(f"{units(key)}={units(value)}" for key, value in settings.items()))


def we_read(document: bytes) -> str:
    try:
        return in_hex(parse_properties(document))
    except ConfigError:
        return "ERROR"


def test_we_read_what_java_reads() -> None:
    dice = random.Random(20261121)
    documents = [
        "".join(dice.choice(PIECES) for _ in range(dice.randint(0, 14))).encode("latin-1") for _ in range(20_000)
    ]

    java = java_reads(documents)

    different = [(document, want) for document, want in zip(documents, java, strict=True) if we_read(document) != want]
    assert different == []
    assert 0 < java.count("ERROR") < len(documents) / 2


def test_java_reads_what_we_write() -> None:
    dice = random.Random(7)
    alphabet = ["a", " ", "\t", "\n", "\r", "\f", "=", ":", "#", "!", "\\", "é", "€", "😀", "\x00", "\x7f", "\x1f"]

    def text(least: int) -> str:
        return "".join(dice.choice(alphabet) for _ in range(dice.randint(least, 8)))

    written = [{text(1): text(0) for _ in range(dice.randint(1, 4))} for _ in range(2_000)]

    java = java_reads([dump_properties(settings).encode("ascii") for settings in written])

    assert java == [in_hex(settings) for settings in written]

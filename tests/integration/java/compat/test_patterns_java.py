"""Regular expressions against java.util.regex: what it takes, ours takes, with the same matches; its words if not."""

from __future__ import annotations

import base64
import random
import re
import subprocess

import pytest

from kconnect.java.compat.regex import compile_java
from kconnect.java.devbroker import find_java
from kit.pace import ample_s
from kit.places import KIT
from kit.random_patterns import PATTERN_TEXTS, random_pattern

PROGRAM = KIT / "java_programs/Patterns.java"
# As people write them
_WRITTEN = (
    *("^(?!_).*", "(?i)z5.*", ".*?-cdc", r"\p{Alpha}+", r"\Qa.b\E", "[a-z&&[^x]]+", "a++", r"x\b", "a|b|orders"),
    *(".*(?<!-internal)", "(?<=a.*)b", ".*(?<!a.*)b", r"(?<first>a)\k<first>b", "(?s).*", "[^_].*", "(?U)\\w+"),
    *("(?=.*b)(?!.*c).+", "((a|b)+?)(?:c)?", r"[\w.-]+", "a{2}{3}", "^*a$", "(?x) a b # both", "(?i:A)b"),
)

pytestmark = pytest.mark.java


def _ours(pattern: str) -> str:
    try:
        compiled = compile_java(pattern)
    except re.error as err:
        return f"refused {err.msg}"
    return "ok " + "".join("1" if compiled.fullmatch(text) else "0" for text in PATTERN_TEXTS)


def _encoded(text: str) -> str:
    return "." + base64.b64encode(text.encode()).decode()


def test_thousands_of_random_patterns_match_as_in_java() -> None:
    chance = random.Random(2017)
    patterns = list(dict.fromkeys([*_WRITTEN, *(random_pattern(chance) for _ in range(2500))]))
    texts = " ".join(map(_encoded, PATTERN_TEXTS))
    command = [str(find_java("Java's patterns").executable), "-Xss4m", str(PROGRAM)]
    given = "".join(f"{_encoded(pattern)} {texts}\n" for pattern in patterns)

    reported = subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=ample_s(120), check=True, encoding="utf-8"
    )

    lines = reported.stdout.splitlines()
    assert len(lines) == len(patterns)
    javas = [line if line[0] == "o" else f"refused {base64.b64decode(line[8:]).decode()}" for line in lines]
    pairs = [(pattern, java, _ours(pattern)) for pattern, java in zip(patterns, javas, strict=True)]
    taken = [pair for pair in pairs if pair[1].startswith("ok")]
    assert len(taken) > 1000
    other_matches = [pair for pair in taken if pair[2].startswith("ok") and pair[1] != pair[2]]
    assert other_matches == []
    not_here = [pair for pair in taken if "is not supported here" in pair[2]]
    assert [pair for pair in taken if pair[2].startswith("refused") and pair not in not_here] == []
    assert len(not_here) < len(taken) / 100
    assert not [pair for pair in not_here if pair[0] in _WRITTEN]
    refused = [pair for pair in pairs if pair[1].startswith("refused")]
    assert len(refused) > 300
    assert [pair for pair in refused if pair[2].startswith("ok")] == []
    assert sum(java == ours for _, java, ours in refused) > 0.9 * len(refused)

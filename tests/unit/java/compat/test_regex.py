"""Java regular expressions on Python's engine."""

from __future__ import annotations

import re
import warnings

import pytest

from kconnect.api import ConfigError
from kconnect.java.compat.regex import RegexValidator, compile_java, replace_first


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("(?<name>t).*", "top", True),
        (r"(?<a>x)\k<a>", "xx", True),
        (r"\Qa.b\E.*", "a.bc", True),
        (r"\Qa.b\E", "axb", False),
        (r"\p{Alpha}+", "abc", True),
        (r"[\p{Digit}_]+", "1_2", True),
        (r"\P{Digit}+", "a1", False),
        ("(?i)TOP", "top", True),
        ("[a-c&]+", "a&b", True),
        ("a++b", "aab", True),
        ("(?>a|ab)c", "abc", False),
        (r"\x{74}op", "top", True),
        (r"a\z", "a", True),
        ("(?<!x)op", "op", True),
    ],
)
def test_java_syntax_is_understood(pattern: str, text: str, matches: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (compile_java(pattern).fullmatch(text) is not None) is matches


@pytest.mark.parametrize(
    "pattern", ["[a[bc]]", "[a-z&&[^x]]", r"\p{Lu}", r"\G", r"\X", "a(?i)b", "(?d)a", "(?<=a+)b", "[]a]"]
)
def test_what_python_can_not_do_is_refused_by_name(pattern: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RegexValidator().ensure_valid("regex", pattern)
    assert str(caught.value).startswith(f"Invalid value {pattern} for configuration regex: Invalid regex: ")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("([", "Unclosed character class near index 1\n([\n ^"),
        ("(", "Unclosed group near index 1\n("),
        ("*a", "Dangling meta character '*' near index 0\n*a\n^"),
    ],
)
def test_common_mistakes_are_told_in_java_words(pattern: str, message: str) -> None:
    with pytest.raises(re.error) as caught:
        compile_java(pattern)
    assert caught.value.msg == message


@pytest.mark.parametrize(
    ("pattern", "text", "replacement", "result"),
    [
        ("(.*)", "top", "p-$1", "p-top"),
        ("(a)(b)", "ab", "$2$1", "ba"),
        ("(a)", "a", "$12", "a2"),
        ("(?<n>t).*", "top", "${n}x", "tx"),
        ("(.*)", "top", r"\$1", "$1"),
        ("(x)?a", "a", "[$1]", "[]"),
        ("a|ab", "ab", "x", "xb"),
        ("t", "top", r"\\", "\\op"),
    ],
)
def test_replacements_follow_java(pattern: str, text: str, replacement: str, result: str) -> None:
    assert replace_first(compile_java(pattern), text, replacement) == result


@pytest.mark.parametrize(
    ("replacement", "message"),
    [
        ("$2", "No group 2"),
        ("${x}", "No group with name {x}"),
        ("$", "Illegal group reference: group index is missing"),
        ("$a", "Illegal group reference"),
        ("\\", "character to be escaped is missing"),
    ],
)
def test_bad_replacements_are_told_in_java_words(replacement: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        replace_first(compile_java("(.*)"), "top", replacement)
    assert str(caught.value) == message

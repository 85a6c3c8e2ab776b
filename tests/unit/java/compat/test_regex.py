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
    ("pattern", "taken", "left"),
    [
        ("^(?!_).*", ["orders", ""], ["__consumer_offsets"]),
        ("(?i)z5.*", ["z5", "Z51"], ["y5"]),
        (".*?-cdc", ["a-cdc", "-cdc"], ["a-cdcs"]),
        ("[a-z&&[^x]]+", ["abc"], ["axc", "ABC"]),
        ("[a[x-z]]+", ["axz"], ["b"]),
        ("[]a]", ["]", "a"], ["b"]),
        ("a++", ["a", "aaa"], ["ab"]),
        (r"x\b", ["x"], ["xy"]),
        ("a(?i)b|c", ["aB", "C"], ["Ab"]),
        ("a(?-i)b", ["ab"], ["aB"]),
        ("(?x) a b # both", ["ab"], ["a b"]),
        ("(?d)a", ["a"], ["b"]),
        (r"\p{Lu}\p{IsLatin}+", ["Ab"], ["ab"]),
        (r"(?i)\p{Lower}", ["a", "A"], ["1"]),
        (r"\G\X", ["a"], ["ab"]),
        (".*(?<!-(?:internal|temp))", ["a-intern"], ["a-internal", "a-temp"]),
        ("(?<=a+)b|c", ["c"], ["b"]),
        (".*(?<=a.*)b", ["ab", "axxb"], ["b", "xb"]),
        ("a{2}{3}", ["aa"], ["aaaaaa"]),
        (r"\B", [""], ["a"]),
        (r"(a)\2", [], ["aa", "a2"]),
    ],
)
def test_all_of_javas_syntax_is_matched(pattern: str, taken: list[str], left: list[str]) -> None:
    compiled = compile_java(pattern)
    assert [text for text in taken + left if compiled.fullmatch(text)] == taken


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(?c)a", "The flag c (canonical equivalence) is not supported here near index 2"),
        (r"(?:\1(a))*", "A reference in a loop to group 1, which ends after it, is not supported here"),
        ("(?<=.*a.*)b", "A look-behind with more than 1000 ways to match is not supported here"),
        ("(?<=(a|bc))d", "A capturing group in a look-behind of several lengths is not supported here"),
        (r"\p{IsVithkuqi}", "Unknown character property name {IsVithkuqi} near index 13"),
    ],
)
def test_the_little_that_is_not_supported_is_named(pattern: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RegexValidator().ensure_valid("regex", pattern)
    assert str(caught.value).startswith(f"Invalid value {pattern} for configuration regex: Invalid regex: {why}")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("([", "Unclosed character class near index 1\n([\n ^"),
        ("(", "Unclosed group near index 1\n("),
        (")", "Unmatched closing ')'\n)"),
        ("a{,2}", "Illegal repetition near index 2\na{,2}\n  ^"),
        ("*a", "Dangling meta character '*' near index 0\n*a\n^"),
    ],
)
def test_common_mistakes_are_reported_in_java_words(pattern: str, message: str) -> None:
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
def test_bad_replacements_are_reported_in_java_words(replacement: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        replace_first(compile_java("(.*)"), "top", replacement)
    assert str(caught.value) == message

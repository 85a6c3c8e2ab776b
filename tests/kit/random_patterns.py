"""Random regular expressions of Java, most of them valid, and texts to match them with."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["PATTERN_TEXTS", "random_pattern"]

PATTERN_TEXTS: Final = (
    *("", "a", "b", "ab", "aab", "abc", "A", "aB", "a.b", "a-b", "a_b", "x", "xa", "orders", "__consumer_offsets"),
    *("Z5", "z51", "a1", "abab", "aaa", "cba", "-", "0", "c.d-e_f", "ABBA", "a\n", "a\r\nb", "aab-xb", "a b", "a#b"),
)
_PLAIN: Final = ("a", "b", "c", "x", "A", "0", "-", "_", ".", r"\.", "&", " ", "#", "]", "}", "é", r"\Qa.b\E", r"\Q\E")
_SETS: Final = (
    *(r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", r"\h", r"\H", r"\v", r"\V", "[a-c]", "[^a]", "[a-z&&[^b]]"),
    *("[a-c[x-z]]", "[ab&&bc]", "[^a-c&&[b-x]]", r"[\w&&[^_]]", r"[\-a]", "[a-]", "[]a]", "[^]a]", "[a&&&b]"),
    *("[&&a]", "[a&&]", "[a-c[d]&&]", "[a&&b&&a]", "[a-f&&[a-c]d]", "[^^a]", "[a^]", "[ a]", "[a-f&&[^d-f]&&[b-z]]"),
    *(r"\p{Alpha}", r"\P{Alpha}", r"\p{L}", r"\pL", r"\p{Lu}", r"\p{IsAlphabetic}", r"\p{javaLowerCase}"),
    *(r"\p{Punct}", r"[\p{Upper}_]", r"[^\P{Lower}]", r"\p{IsLatin}", r"\p{InBasicLatin}", r"\p{javaUpperCase}"),
    *(r"\p{IsUppercase}", r"\p{gc=Lu}", r"\p{Print}", r"\p{Cntrl}", r"\p{LC}", r"\p{IsL}", r"\p{sc=Greek}"),
    *(r"\x61", r"\u0062", r"\0141", r"\x{63}", r"\cA", r"\t", r"\N{LATIN SMALL LETTER A}"),
)
_PLACES: Final = (r"\b", r"\B", r"\A", r"\z", r"\Z", r"\G", "^", "$")
_REFERENCES: Final = (r"\1", r"\2", r"\k<n>", r"\X", r"\R")
_FLAGS: Final = ("(?i)", "(?-i)", "(?s)", "(?x)", "(?m)", "(?d)", "(?iu)", "(?-x)")
_WRONG: Final = (
    *("(?", "(?#", "[", "{", "(", ")", "*", "+", "?", "{2}", "{1,}", "{,2}", "{2,1}", "\\y", "[z-a]", r"[a-\d]"),
    *(r"\p{Foo}", r"\p", r"\k", r"\x", "(?<1>a)", "(?<n", "(?<=a|(b|c)*)"),
)
_GROUPS: Final = ("(", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?<n>", "(?i:", "(?i-s:", "(?x:")
_BOUNDED: Final = ("?", "{2}", "{1,2}", "{0,3}?")
_LOOPS: Final = ("*", "+", "*?", "+?", "??", "*+", "++", "?+", "{2}+", "{2,}")


def random_pattern(chance: random.Random, depth: int = 0, *, looks_back: bool = False) -> str:
    """A pattern of a few parts. `looks_back`: what stands in a look-behind, of a length that has a bound: without one
    Java's own sums overflow, and it finds nothing."""
    out = []
    for _ in range(chance.randint(1, 4)):
        kind = chance.random()
        if kind < 0.25 and depth < 3:
            opened = chance.choice(_GROUPS)
            back = looks_back or (opened.startswith("(?<") and opened != "(?<n>")
            out.append(f"{opened}{random_pattern(chance, depth + 1, looks_back=back)})")
        elif kind < 0.27:
            out.append(chance.choice(_WRONG))
        else:
            rare = () if looks_back else (*_REFERENCES, *_FLAGS)
            out.append(chance.choice((*_PLAIN, *_PLAIN, *_SETS, *_PLACES, *rare)))
        if chance.random() < 0.3:
            out.append(chance.choice(_BOUNDED if looks_back else (*_BOUNDED, *_LOOPS)))
        if chance.random() < 0.1:
            out.append("|")
    return "".join(out)

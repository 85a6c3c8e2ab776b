r"""Java regular expressions on Python's engine.

All that Java takes is taken, but for the flag c (canonical equivalence), references in a loop to a group that ends
after them, and look-behinds of a thousand ways to match; these are refused by name. Texts are names of topics and of
variables, which are ASCII: of Unicode's scripts and blocks only what they have there is known.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kconnect.api import ConfigError
from kconnect.java.compat.regex_characters import JavaPatternError
from kconnect.java.compat.regex_nodes import NotHereError, written
from kconnect.java.compat.regex_parser import Parser


@lru_cache(maxsize=256)
def compile_java(pattern: str) -> re.Pattern[str]:
    """Compile a pattern. Errors: re.error, with Java's description where Java refuses it too."""
    try:
        return re.compile(written(Parser(pattern).parse()), re.ASCII)
    except NotHereError as err:
        raise JavaPatternError(f"{err} is not supported here", pattern, 0) from None
    except (re.error, OverflowError, RecursionError) as err:
        if isinstance(err, JavaPatternError):
            raise
        raise JavaPatternError(f"It cannot be matched here ({err})", pattern, 0) from err


def replace_first(pattern: re.Pattern[str], text: str, replacement: str) -> str:
    r"""The text with the first match replaced; $1, ${name} and \x in the replacement as in Java's Matcher.replaceFirst.

    Errors: ConfigError for a group that the pattern does not have, or a malformed replacement.
    """
    match = pattern.search(text)
    if match is None:
        return text
    return text[: match.start()] + _expand(match, replacement) + text[match.end() :]


class RegexValidator:
    """Refuses anything but a Java regular expression that we can run.

    Source: o.a.k.connect.transforms.util.RegexValidator.
    """

    def ensure_valid(self, name: str, value: Any) -> None:
        try:
            compile_java(str(value))
        except re.error as error:
            raise ConfigError.invalid(name, value, f"Invalid regex: {error.msg}") from error

    def __str__(self) -> str:
        return "valid regex"


def _expand(match: re.Match[str], replacement: str) -> str:
    out, at = [], 0
    while at < len(replacement):
        char = replacement[at]
        at += 1
        if char == "\\":
            if at == len(replacement):
                raise ConfigError("character to be escaped is missing")
            out.append(replacement[at])
            at += 1
        elif char == "$":
            text, at = _group_reference(match, replacement, at)
            out.append(text)
        else:
            out.append(char)
    return "".join(out)


def _group_reference(match: re.Match[str], replacement: str, at: int) -> tuple[str, int]:
    """The text of the group after a $, and where to continue."""
    if replacement.startswith("{", at):
        end = replacement.find("}", at)
        if end < 0:
            raise ConfigError("named capturing group is missing trailing '}'")
        name = replacement[at + 1 : end]
        if name not in match.re.groupindex:
            raise ConfigError(f"No group with name {{{name}}}")
        return match.group(name) or "", end + 1
    if at == len(replacement):
        raise ConfigError("Illegal group reference: group index is missing")
    if replacement[at] not in "0123456789":
        raise ConfigError("Illegal group reference")
    number = int(replacement[at])
    if number > match.re.groups:
        raise ConfigError(f"No group {number}")
    at += 1
    while at < len(replacement) and replacement[at] in "0123456789":  # as many digits as still name a group
        longer = number * 10 + int(replacement[at])
        if longer > match.re.groups:
            break
        number = longer
        at += 1
    return match.group(number) or "", at

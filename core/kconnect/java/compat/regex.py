r"""Java regular expressions on Python's engine: translates what differs, refuses what is not supported.

Topic names are ASCII, so differences in Unicode handling do not matter. Refused by name: class operations
([a[b]], [a&&b]), \p{..} other than the POSIX classes, \G, \X, \R, \N, flags in the middle, flags d and U, look-behind
of variable length.
"""

from __future__ import annotations

import re
from typing import Any

from kconnect.api import ConfigError

_POSIX = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "A-Za-z",
    "Digit": "0-9",
    "Alnum": "A-Za-z0-9",
    "Punct": r"!-/:-@\[-`{-~",
    "Graph": "!-~",
    "Print": " -~",
    "Blank": r" \t",
    "Cntrl": r"\x00-\x1f\x7f",
    "XDigit": "0-9A-Fa-f",
    "Space": r" \t\n\x0b\f\r",
    "ASCII": r"\x00-\x7f",
}
_ESCAPES = {"h": r"[ \t\xa0]", "H": r"[^ \t\xa0]", "z": r"\Z", "Z": r"(?=\n?\Z)", "e": r"\x1b", "V": r"[^\n\x0b\f\r]"}
_UNSUPPORTED_ESCAPES = "GXRN"


def compile_java(pattern: str) -> re.Pattern[str]:
    """Compile a pattern. Errors: re.error, with Java's description where it has the same cause."""
    try:
        return re.compile(_Translation(pattern).run(), re.ASCII)
    except re.error as error:
        raise _in_java_words(error, pattern) from None


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


class _Translation:
    """One pass over a Java pattern; `out` grows into the Python pattern."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._class_depth = 0

    def run(self) -> str:
        out = []
        while self._at < len(self._pattern):
            out.append(self._class_item() if self._class_depth else self._item())
        return "".join(out)

    def _item(self) -> str:
        char = self._pattern[self._at]
        if char == "\\":
            return self._escape()
        if char == "[":
            self._class_depth = 1
            start = self._at
            self._at += 1
            if self._peek("^"):
                self._at += 1
            if self._peek("]"):  # a literal in Python; in Java an error or a literal, rarely intended
                raise re.error("Empty character class", self._pattern, start)
            return self._pattern[start : self._at]
        if char == "(":
            return self._group()
        self._at += 1
        return char

    def _class_item(self) -> str:
        char = self._pattern[self._at]
        if char == "\\":
            return self._escape()
        if char == "[":
            raise re.error("character classes inside character classes are not supported here", self._pattern, self._at)
        if char == "&" and self._pattern.startswith("&&", self._at):
            raise re.error("intersections of character classes (&&) are not supported here", self._pattern, self._at)
        if char == "]":
            self._class_depth = 0
        self._at += 1
        return "\\" + char if char in "|~" else char  # Python warns about these as future syntax

    def _group(self) -> str:
        rest = self._pattern[self._at :]
        named = re.match(r"\(\?<([A-Za-z][A-Za-z0-9]*)>", rest)
        if named:
            self._at += named.end()
            return f"(?P<{named.group(1)}>"
        flags = re.match(r"\(\?([a-zA-Z]*)(-[a-zA-Z]+)?([:)])", rest)
        if flags is None:
            self._at += 1
            return "("
        on, off, end = flags.group(1), flags.group(2) or "", flags.group(3)
        if set(on + off) - set("imsxu-"):
            raise re.error(f"flags {on}{off} are not supported here", self._pattern, self._at)
        on = on.replace("u", "")
        if end == ")" and (self._at or off):
            raise re.error("flags in the middle of a pattern are not supported here", self._pattern, self._at)
        self._at += flags.end()
        return "" if end == ")" and not on else f"(?{on}{off}{end}"

    def _escape(self) -> str:
        start = self._at
        char = self._pattern[start + 1] if start + 1 < len(self._pattern) else ""
        self._at += 2
        if char == "Q":
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at : end if end >= 0 else None]
            self._at = end + 2 if end >= 0 else len(self._pattern)
            return re.escape(quoted)
        if char and char in "pP":
            return self._property(char, start)
        if char == "k" and self._peek("<"):
            end = self._pattern.find(">", self._at)
            name = self._pattern[self._at + 1 : end]
            self._at = end + 1
            return f"(?P={name})"
        if char == "x" and self._peek("{"):
            end = self._pattern.find("}", self._at)
            code = int(self._pattern[self._at + 1 : end], 16)
            self._at = end + 1
            return f"\\U{code:08x}"
        if char and char in _UNSUPPORTED_ESCAPES:
            raise re.error(f"\\{char} is not supported here", self._pattern, start)
        if char in _ESCAPES and not self._class_depth:
            return _ESCAPES[char]
        return "\\" + char

    def _property(self, char: str, start: int) -> str:
        match = re.compile(r"\{(?:Is)?(\w+)\}").match(self._pattern, self._at)
        inner = _POSIX.get(match.group(1)) if match else None
        if match is None or inner is None or (char == "P" and self._class_depth):
            raise re.error(f"\\{char} of this kind is not supported here", self._pattern, start)
        self._at = match.end()
        if self._class_depth:
            return inner
        return f"[^{inner}]" if char == "P" else f"[{inner}]"

    def _peek(self, char: str) -> bool:
        return self._pattern.startswith(char, self._at)


def _in_java_words(error: re.error, pattern: str) -> re.error:
    """The error with Java's description and its marker below the position."""
    index = error.pos or 0
    message = error.msg
    if message == "unterminated character set":
        message, index = "Unclosed character class", len(pattern) - 1
    elif message == "missing ), unterminated subpattern":
        message, index = "Unclosed group", len(pattern)
    elif message in ("nothing to repeat", "multiple repeat") and index < len(pattern):
        message = f"Dangling meta character '{pattern[index]}'"
    text = f"{message} near index {index}\n{pattern}"
    if index < len(pattern):
        text += f"\n{' ' * index}^"
    return re.error(text)


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

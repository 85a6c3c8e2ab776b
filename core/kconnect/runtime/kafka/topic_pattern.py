"""Java regular expressions for topic names, translated for librdkafka (POSIX extended, marked by a leading ^)."""

from __future__ import annotations

import re

from kconnect.errors import ConfigError

# Java's character classes reduced to topic names: letters, digits, dot, underscore and minus.
_CLASSES = {"d": "0-9", "w": "a-zA-Z0-9_", "D": "a-zA-Z._-", "W": ".-"}
_UNSUPPORTED = re.compile(r"\(\?(?!:)|(?<!\\)[*+?}][?+]")


def topic_pattern(regex: str) -> str:
    """The pattern that fully matches the same topic names as Java's `regex`.

    Errors: ConfigError for what POSIX lacks: look-arounds, lazy and possessive quantifiers, references.
    Source: Consumer.subscribe(Pattern), which Java Connect gives topics.regex.
    """
    if (found := _UNSUPPORTED.search(regex)) is not None:
        raise _refused(regex, found.group())
    parts: list[str] = []
    position = 0
    while position < len(regex):
        char = regex[position]
        if char == "[":
            end = _class_end(regex, position)
            parts.append(_posix_class(regex, regex[position + 1 : end]))
            position = end + 1
        elif char == "\\":
            parts.append(_outside(regex, regex[position + 1 : position + 2]))
            position += 2
        elif regex.startswith("(?:", position):
            parts.append("(")
            position += 3
        else:
            parts.append(char)
            position += 1
    return f"^({''.join(parts)})$"


def _outside(regex: str, escaped: str) -> str:
    if escaped in _CLASSES:
        return f"[{_CLASSES[escaped]}]"
    if not escaped or escaped.isalnum():
        raise _refused(regex, f"\\{escaped}")
    return f"\\{escaped}" if escaped in ".[]{}()*+?^$|\\" else escaped


def _class_end(regex: str, start: int) -> int:
    position = start + 1
    while position < len(regex):
        if regex[position] == "\\":
            position += 2
            continue
        if regex[position] == "]" and position > start + 1:
            return position
        position += 1
    raise _refused(regex, "[")


def _posix_class(regex: str, inside: str) -> str:
    """A class without escapes, which POSIX lacks in brackets; an escaped minus goes to the end."""
    negated = inside.startswith("^")
    body = inside.removeprefix("^")
    if "[" in body or "&&" in body:
        raise _refused(regex, f"[{inside}]")
    minus = False
    parts = []
    position = 0
    while position < len(body):
        char = body[position]
        if char == "\\":
            escaped = body[position + 1 : position + 2]
            position += 2
            if escaped == "-":
                minus = True
            elif escaped in ("d", "w"):
                parts.append(_CLASSES[escaped])
            elif escaped and not escaped.isalnum() and escaped not in "]^[":
                parts.append(escaped)
            else:
                raise _refused(regex, f"\\{escaped}")
        else:
            parts.append(char)
            position += 1
    return f"[{'^' if negated else ''}{''.join(parts)}{'-' if minus else ''}]"


def _refused(regex: str, part: str) -> ConfigError:
    return ConfigError.invalid(
        "topics.regex", regex, f"'{part}' has no counterpart in the patterns that the Kafka client library takes"
    )

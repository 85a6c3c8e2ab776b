"""Java's error messages rewritten for people, for errors that a command shows and for the worker's log.

REST keeps Java's messages byte for byte, and Java workers send them; people get a sentence, the likely name, and where
to look. Pure: text in, text out. Unknown messages are left unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plain:
    """A message for people and what they can do; `hint` is None if the message is enough."""

    sentence: str
    hint: str | None = None


def plain_words(message: str) -> Plain:
    """A worker's message, ours or Java's, rewritten for people."""
    text = _WRAPPER.sub("", message)
    if found := _NO_CLASS.match(text):
        return _unknown_class(found["kind"], found["name"], text)
    if found := _INVALID.match(text):
        return _invalid(found["lines"], int(found["count"]))
    if found := _MUST_STOP.search(text):
        return Plain(
            f"Connector {found['name']} must be stopped before its offsets can be changed",
            f"Stop it first: connect connectors stop {found['name']}",
        )
    if found := _TRANSITION.match(text):
        return Plain(f"Connector {found['name']} could not be {_REACHED.get(found['state'], found['state'])}")
    if _MISSING.fullmatch(text) or _BAD_VALUE.fullmatch(text):
        return Plain(setting_problem(text))
    if _JAVA_VERSIONS.search(text):
        return Plain(
            "The worker does not have the version that connector.plugin.version requires",
            "`connect plugins list` shows the available versions.",
        )
    return Plain(text or message)


def is_unknown_class(message: str) -> bool:
    """Whether this is Java's message that a plugin class does not exist."""
    return _NO_CLASS.match(message) is not None


def is_failed_start(message: str) -> bool:
    """Whether this is Java's message that a connector did not reach a state; it does not say why."""
    return _TRANSITION.match(message) is not None


def setting_problem(message: str, key: str | None = None) -> str:
    """One problem with one setting, as `key: what is wrong`; `key` is used if the message does not name it."""
    if found := _MISSING.fullmatch(message):
        return f"{found['key']}: is required"
    if found := _BAD_VALUE.fullmatch(message):
        return f"{found['key']}: {_what_is_wrong(found['value'], found['why'] or '')}"
    problem = _what_is_wrong(None, message)
    return f"{key}: {problem}" if key is not None else problem


def log_words(text: str) -> str:
    """Log text, traces included, without the lists and addresses that only REST needs."""
    if "PluginDesc{" in text:
        text = _PLUGIN_LIST.sub("", text)
    if "You can also find the above list of errors" in text:
        text = _ENDPOINT.sub("", text)
    return text


# the exception class that Java puts before a message
_WRAPPER = re.compile(r"^(?:(?:org\.apache\.kafka|java)\.[\w.$]+(?:Exception|Error): )+")
_NO_CLASS = re.compile(
    r"Failed to find any class that implements (?P<kind>\w+) and which name matches (?P<name>.*?)"
    r"(?:, available [\w ]+ are: |$)",
    re.DOTALL,
)
_PLUGIN_LIST = re.compile(r", available [a-z ]+ are: PluginDesc\{[^}]*\}(?:, PluginDesc\{[^}]*\})*")
_KLASS = re.compile(r"klass=class ([\w.$]+)")
_INVALID = re.compile(
    r"Connector configuration is invalid and contains the following (?P<count>\d+) error\(s\):\n(?P<lines>.*?)"
    r"(?:\nYou can also find the above list of errors at the endpoint `[^`]*`)?$",
    re.DOTALL,
)
_ENDPOINT = re.compile(r"\n?You can also find the above list of errors at the endpoint `[^`]*`")
_MUST_STOP = re.compile(
    r"Connectors must be in the STOPPED state before their offsets can be modified\. "
    r".*?'/connectors/(?P<name>.*)/stop'",
    re.DOTALL,
)
_TRANSITION = re.compile(r"Failed to transition connector (?P<name>.*) to state (?P<state>[A-Z]+)$", re.DOTALL)
_REACHED = {"STARTED": "started", "PAUSED": "paused", "STOPPED": "stopped"}
# Kafka 4.3 answers this when it is asked again for a connector version that it does not have
_JAVA_VERSIONS = re.compile(r"VersionedPluginLoadingException\.availableVersions\(\)\" is null")

_MISSING = re.compile(r'Missing required configuration "(?P<key>[^"]+)" which has no default value\.?')
_BAD_VALUE = re.compile(r"Invalid value (?P<value>.*?) for configuration (?P<key>[^\s:]+)(?:: (?P<why>.*))?", re.DOTALL)
_NO_SUCH_CLASS = re.compile(r"Class (?P<name>\S+) could not be found\.(?P<more>.*)", re.DOTALL)
_OTHER_KIND = re.compile(r"Class class (?P<name>\S+) does not implement the (?P<kind>\w+) interface")
_VERSION = re.compile(
    r"Plugin (?P<name>\S+) not found that matches the version range (?P<range>.*), available versions: \[(?P<has>.*)\]"
)
_NUMBERS = {
    "INT": "a whole number",
    "LONG": "a whole number",
    "SHORT": "a whole number",
    "DOUBLE": "a number",
    "BOOLEAN": "true or false",
}
_NOT_A_NUMBER = re.compile(r"Not a number of type (?P<type>\w+)")
# A line that starts a problem; others continue the previous one, such as those of a broken pattern
_BEGINS = re.compile(r"[A-Z][a-z]+ |topics and topics\.regex ")


def _unknown_class(kind: str, name: str, text: str) -> Plain:
    from difflib import get_close_matches  # imported here: needed after a mistake only

    what = {"Connector": "connector", "HeaderConverter": "header converter"}.get(kind, kind.lower())
    if not name.strip():
        return Plain(
            f"connector.class is empty: it names the {what}", "`connect plugins list` shows what the worker has."
        )
    near = get_close_matches(name.rpartition(".")[2], _short_names(text), n=1)
    asked = f"Did you mean {near[0]}?" if near else None
    where = "`connect plugins list` shows what the worker has; its plugin.path says where it looks."
    return Plain(f"Unknown {what} class: {name}", f"{asked} {where}" if asked else where)


def _short_names(text: str) -> list[str]:
    """Short names of the plugins in Java's list, with and without the suffix for their kind."""
    simple = [name.rpartition(".")[2] for name in _KLASS.findall(text)]
    return list(dict.fromkeys([*(name.removesuffix("Connector") for name in simple), *simple]))


def _invalid(lines: str, count: int) -> Plain:
    problems = [setting_problem(message) for message in _problems(lines, count)]
    problems = list(dict.fromkeys(_without_consequences(problems)))
    if len(problems) == 1:
        return Plain(f"The connector's settings are wrong: {problems[0]}")
    return Plain("The connector's settings are wrong:\n" + "\n".join(f"  {line}" for line in problems))


def _problems(lines: str, count: int) -> list[str]:
    """The messages in the list; each may span several lines."""
    found = lines.split("\n")
    if len(found) == count:
        return found
    problems: list[str] = []
    for line in found:
        if problems and not _BEGINS.match(line):
            problems[-1] += f"\n{line}"
        else:
            problems.append(line)
    return problems


def _without_consequences(problems: Iterable[str]) -> list[str]:
    """Java reports an unreadable value twice: as not a number, then as missing."""
    listed = list(problems)
    keys = [line.partition(":")[0] for line in listed]
    return [
        line
        for line, key in zip(listed, keys, strict=True)
        if not (line == f"{key}: is required" and keys.count(key) > 1)
    ]


def _what_is_wrong(value: str | None, why: str) -> str:
    given = "" if value is None else f", not {value}" if value else ", not empty"
    if found := _NOT_A_NUMBER.fullmatch(why):
        return f"must be {_NUMBERS.get(found['type'], 'a number')}{given}"
    if why in ("Value must be non-null", "String must be non-null"):
        return "is required"
    if why == "String may not be empty":
        return "must not be empty"
    if why.startswith("Value must be "):
        return f"{why.removeprefix('Value ')}{given}"
    if why.startswith("String must be one of"):
        return f"{why.removeprefix('String ').replace('one of: ', 'one of ')}{given}"
    if found := _NO_SUCH_CLASS.fullmatch(why):
        return f"unknown class {found['name']}.{found['more']}"
    if found := _OTHER_KIND.fullmatch(why):
        return f"{found['name']} is a class, but not a {found['kind']}"
    if found := _VERSION.fullmatch(why):
        has = ", ".join(dict.fromkeys(found["has"].split(", ")))
        short = found["name"].rpartition(".")[2]
        return f"{short} is not available in version {_range_words(found['range'])}; the worker has {has}"
    if value is None:
        return why
    return f"{why} (the value is {value})" if why else f"cannot be {value}"


def _range_words(text: str) -> str:
    """`[9.9,9.9]` is the version 9.9."""
    ends = text.strip("[]").split(",")
    return ends[0] if text.startswith("[") and text.endswith("]") and len(ends) == 2 and ends[0] == ends[1] else text

"""Completion: candidates for a half-typed command line, live names among them, within half a second.

The shells' scripts (`connect completion bash|zsh|fish`) call `connect complete -- WORD.. LAST`. Each line of the answer
is a candidate, a tab, and what it is. A line `:files` tells the shell to offer files.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from kconnect.errors import ConnectError
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.labels import labels_of
from kconnect_cli.contexts.profiles import Profile
from kconnect_cli.contexts.target import find_target, without_user
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import UsageProblem

if TYPE_CHECKING:
    from kconnect_cli.options.cluster import ClusterOptions

FILES = ":files"
_END_OF_OPTIONS = "--"
# A person waits for the second tab; a worker that is there answers in 10 ms
_DEADLINE_S = 0.5
TIMEOUT = "KCONNECT_COMPLETE_TIMEOUT"
"""A variable: how long a Tab may wait for names of the cluster; half a second without it."""


class Candidate(NamedTuple):
    """A word to offer and what it is."""

    word: str
    help: str = ""


# What stands for an argument or option of this name; given what stands before it on the line.
Sources: TypeAlias = Mapping[str, Callable[[Sequence[str]], Iterable[Candidate]]]


def complete(root: Any, words: Sequence[str], sources: Sources) -> list[Candidate]:  # typer's click types are private
    """Candidates for the last of `words`, which may be empty. Never an error: a wrong line has none."""
    *before, last = words
    command, arguments, pending = _walk(root, before)
    only_arguments = _END_OF_OPTIONS in before
    if pending is not None:
        found = _values(pending, arguments, sources)
    elif last.startswith("-") and not only_arguments:
        found = [
            Candidate(opt, param.help or "") for param in _options(command) for opt in param.opts if opt[:2] == "--"
        ]
        found.append(Candidate("--help", "Show help."))
    elif _is_group(command):
        found = [
            Candidate(name, _help(sub)) for name, sub in command.commands.items() if not getattr(sub, "hidden", False)
        ]
    else:
        argument = _argument_at(command, len(arguments))
        found = [] if argument is None else _values(argument, arguments, sources)
        # A name with a leading dash would be read as an option; `--` lets it through
        found = [candidate for candidate in found if only_arguments or not candidate.word.startswith("-")]
    fitting = [candidate for candidate in found if candidate.word.startswith(last) or candidate.word == FILES]
    return [candidate for candidate in fitting if candidate.word not in arguments]


def _walk(root: Any, words: Sequence[str]) -> tuple[Any, list[str], Any]:  # as above
    """The command that words lead to, its arguments so far, and the option whose value comes next, if any."""
    command, arguments, pending, only_arguments = root, [], None, False
    for word in words:
        if pending is not None:
            pending = None
        elif only_arguments and not _is_group(command):
            arguments.append(word)
        elif word == _END_OF_OPTIONS:
            only_arguments = True
        elif word.startswith("-") and len(word) > 1:
            pending = _option_of(command, word)
        elif _is_group(command):
            found = command.get_command(None, word)
            if found is None:
                return command, [word], None
            command = found
        else:
            arguments.append(word)
    return command, arguments, pending


def _option_of(command: Any, word: str) -> Any:  # as above
    """The option a word names, when a value has to follow."""
    for param in _options(command):
        if word in param.opts and not param.is_flag:
            return param
    return None


def _values(param: Any, arguments: Sequence[str], sources: Sources) -> list[Candidate]:  # as above
    choices = getattr(getattr(param, "type_descriptor", None), "annotation", None)
    if isinstance(choices, type) and hasattr(choices, "__members__"):
        return [Candidate(str(member.value)) for member in choices]  # type: ignore[attr-defined]  # an Enum
    source = sources.get(param.name)
    return list(source(arguments)) if source else []


def _options(command: Any) -> list[Any]:  # as above
    return [
        param for param in command.params if param.param_type_name == "option" and not getattr(param, "hidden", False)
    ]


def _argument_at(command: Any, position: int) -> Any:  # as above
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    if position < len(arguments):
        return arguments[position]
    return arguments[-1] if arguments and arguments[-1].nargs == -1 else None


def _is_group(command: Any) -> bool:  # as above
    return hasattr(command, "commands")


def _help(command: Any) -> str:  # as above
    return str(command.get_short_help_str(70))


def _wait_s() -> float:
    try:
        return seconds_of(os.environ.get(TIMEOUT, ""), TIMEOUT)
    except UsageProblem:  # a Tab says nothing of what is wrong
        return _DEADLINE_S


class LiveNames:
    """Names of the cluster a line is meant for. Nothing is offered when it does not answer in time.

    One request for each completion, or two, all of it within half a second, or KCONNECT_COMPLETE_TIMEOUT.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._ends = time.monotonic() + _wait_s()

    def sources(self) -> Sources:
        """What to offer, by the names of arguments and options in the commands' functions."""
        files, states = (lambda _: [Candidate(FILES)]), (lambda _: [Candidate(state) for state in _STATES])
        live: dict[str, Callable[[Sequence[str]], Iterable[Candidate]]] = {
            "names": lambda _: self._connectors(),
            "name": lambda _: self._connectors(),
            "words": lambda seen: self._tasks(seen[0]) if seen else self._connectors(),
            "task": lambda seen: self._tasks(seen[0]) if seen else [],
            "keys": lambda seen: self._keys(seen[0]) if seen else [],
            "pairs": lambda seen: self._settings(seen[0]) if seen else [],
            "plugin": lambda _: self._plugins(),
            "logger": lambda _: [Candidate(name, str(found["level"])) for name, found in self._ask("loggers").items()],
            "level": lambda _: [Candidate(level) for level in _LEVELS],
            "log_level": lambda _: [Candidate(level) for level in _LEVELS if level not in ("TRACE", "FATAL", "OFF")],
            "context": lambda _: self._contexts(),
            "context_name": lambda _: self._contexts(),
            "scope": lambda _: [Candidate("worker"), Candidate("cluster")],
            "shell": lambda _: [Candidate(shell) for shell in ("bash", "zsh", "fish")],
            "state": states,
            "topic": lambda _: self._topics(),
            "connector": lambda _: self._connectors(),
            "labels": lambda _: self._labels(),
        }
        live |= dict.fromkeys(_FILES, files)
        return live

    def _connectors(self) -> list[Candidate]:
        if _DIRECT.intersection(self._words):
            return [Candidate(name) for name in sorted(self._in_config_topic())]
        return [Candidate(name) for name in sorted(self._ask("connectors") or ())]

    def _labels(self) -> list[Candidate]:
        """The labels that connectors have; of a worker only."""
        if _DIRECT.intersection(self._words):
            return []
        found = Counter(
            f"{key}={value}"
            for info in (self._ask("connector_infos") or {}).values()
            for key, value in (labels_of(info.config) or {}).items()
        )
        return [Candidate(label, pluralize(count, "connector")) for label, count in sorted(found.items())]

    def _in_config_topic(self) -> set[str]:
        """Connectors that have a config, as far as the topic is read in time; no value of it is looked into."""
        from kconnect.admin.direct.access import InternalTopic
        from kconnect.admin.direct.read.reader import ClusterReader
        from kconnect.runtime.storage.config_topic import CONNECTOR

        found: set[str] = set()
        try:
            with ClusterReader(self._cluster().access()) as reader:
                for record in reader.records(InternalTopic.CONFIG):
                    key = (record.key or b"").decode(errors="replace")
                    if key.startswith(CONNECTOR):
                        (found.discard if record.value is None else found.add)(key.removeprefix(CONNECTOR))
                    if time.monotonic() > self._ends:
                        break
        except (ConnectError, OSError):  # no cluster is named, or it does not answer: a tab key shows no errors
            return found
        return found

    def _topics(self) -> list[Candidate]:
        """Topics of the brokers that the line names, but Kafka's own."""
        from kconnect.runtime.kafka.admin import KafkaAdmin

        try:
            access = self._cluster().access()
            with KafkaAdmin(access.clients().admin, "completion") as admin:
                found = admin.topic_names(access.timeout_s)
        except (ConnectError, OSError):  # as above
            return []
        return [Candidate(name, pluralize(count, "partition")) for name, count in found.items() if name[:2] != "__"]

    def _cluster(self) -> ClusterOptions:
        """The brokers that the line means, with what is left of the time. Errors: ConnectError of the contexts."""
        from kconnect_cli.options.cluster import ClusterOptions

        logging.getLogger("kconnect").addHandler(logging.NullHandler())
        profile = find_target(None, _after("--context", self._words), os.environ, lambda _: None, Profile()).profile
        worker = (
            _after("--worker", self._words)
            or os.environ.get("KCONNECT_WORKER")
            or (profile.worker if profile else None)
        )
        given = [(key, _after(option, self._words)) for option, key in _SETTINGS.items()]
        settings = tuple((key, value) for key, value in given if value)
        left_ms = max(1, round((self._ends - time.monotonic()) * 1000))
        return ClusterOptions(worker, _after("--command-config", self._words), f"{left_ms}ms", settings)

    def _tasks(self, name: str) -> list[Candidate]:
        status = self._ask("connector_status", name)
        return [Candidate(str(task.id), str(task.state)) for task in status.tasks] if status else []

    def _keys(self, name: str) -> list[Candidate]:
        return [Candidate(key) for key in sorted(self._ask("connector_config", name) or ())]

    def _settings(self, name: str) -> list[Candidate]:
        """`KEY=` of what a connector has, and of everything that its class takes."""
        config = self._ask("connector_config", name)
        if not config:
            return []
        known = self._ask("plugin_config", config["connector.class"]) if "connector.class" in config else ()
        described = {str(row["name"]): _first_sentence(row.get("documentation")) for row in known or ()}
        return [Candidate(f"{key}=", described.get(key, "")) for key in sorted({*config, *described})]

    def _plugins(self) -> list[Candidate]:
        return [Candidate(str(row["class"]), str(row["type"])) for row in self._ask("plugins") or ()]

    def _contexts(self) -> list[Candidate]:
        from kconnect_cli.contexts.profiles import contexts_path, load_profiles

        return [
            Candidate(name, without_user(profile.url)[0])
            for name, profile in sorted(load_profiles(contexts_path()).known.items())
        ]

    def _ask(self, method: str, *arguments: str) -> Any:  # whatever the client's method gives
        """An answer of the worker, or an empty one when there is none in time: a tab key shows no errors."""
        from kconnect.client import ConnectClient

        left_s = self._ends - time.monotonic()
        if left_s <= 0:
            return {}
        try:
            url, context = _after("--url", self._words), _after("--context", self._words)
            user, ca, cert, key = (_after(option, self._words) for option in ("--user", "--ca", "--cert", "--key"))
            here = Profile(user=user, ca=ca, cert=cert, key=key)
            target = find_target(url, context, os.environ, lambda _: None, here)
            access = target.access(os.environ)
            left_s /= len(target.urls)
            with ConnectClient(target.urls, timeout_s=left_s, connect_timeout_s=left_s, access=access) as client:
                return getattr(client, method)(*arguments)
        except ConnectError:
            return {}


_FILES = ("file", "files", "paths", "more", "ca_file", "cert_file", "key_file", "worker", "command_config")
# Commands that go past the workers to the topics
_DIRECT = frozenset({"topics", "topic", "--direct"})
_SETTINGS = {
    "--bootstrap-servers": "bootstrap.servers",
    "--group-id": "group.id",
    "--config-topic": "config.storage.topic",
}
_STATES = ("UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED")
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")


def _first_sentence(text: object) -> str:
    return " ".join(str(text or "").split()).partition(". ")[0][:100]


def _after(option: str, words: Sequence[str]) -> str | None:
    """The value that stands behind an option on the line."""
    for index, word in enumerate(words[:-1]):
        if word == option and words[index + 1]:
            return words[index + 1]
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None

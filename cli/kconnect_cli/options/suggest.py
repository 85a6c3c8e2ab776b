"""The command that somebody most likely meant: one of another group, a misspelt one, or a verb of kubectl and kcctl."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeAlias

Path: TypeAlias = tuple[str, ...]
"""Words of a command below `connect`: ("connectors", "status")."""

_MOST = 3
# `statsu` is 0.83 of `status`; `topic` and `tasks`, 0.6 of each other, are different words
_ALIKE = 0.7

# Verbs of kubectl and kcctl, and what people try: verbs of ours that do it, the best first
_SAME: Mapping[str, Sequence[str]] = {
    "add": ("create",),
    "cancel": ("stop",),
    "delete": ("remove",),
    "describe": ("show",),
    "find": ("list",),
    "get": ("list", "show"),
    "info": ("show",),
    "inspect": ("show",),
    "ls": ("list", "show"),
    "new": ("create",),
    "log": ("status",),
    "logs": ("status",),
    "patch": ("set", "put"),
    "ps": ("list",),
    "remove": ("delete",),
    "rm": ("delete",),
    "set": ("alter", "put"),
    "start": ("resume",),
    "unpause": ("resume",),
    "update": ("apply", "set", "edit"),
    "validate": ("doctor",),
    "watch": ("status",),
}
# Alone, with no noun beside it, a verb is mostly about connectors
_ALONE: Mapping[str, Sequence[Path]] = {
    "add": (("connectors", "create"),),
    "describe": (("connectors", "show"),),
    "doctor": (("topics", "doctor"),),
    "get": (("connectors", "list"), ("config", "get")),
    "get-contexts": (("contexts", "list"),),
    "health": (("connectors", "status"), ("cluster", "show")),
    "info": (("cluster", "show"),),
    "kafka": (("broker", "start"),),
    "logs": (("connectors", "status"), ("loggers", "list")),
    "log": (("connectors", "status"), ("loggers", "list")),
    "ls": (("connectors", "list"),),
    "members": (("cluster", "members"),),
    "patch": (("config", "set"),),
    "ps": (("connectors", "list"),),
    "run": (("standalone",), ("try",)),
    "scale": (("config", "set"),),
    "set-context": (("contexts", "add"),),
    "show": (("connectors", "show"),),
    "start": (("standalone",), ("connectors", "resume")),
    "top": (("connectors", "status"), ("slots",)),
    "use-context": (("contexts", "use"),),
    "watch": (("connectors", "status"),),
    "worker": (("standalone",), ("distributed",)),
    "workers": (("cluster", "members"),),
}
# Kinds of things, as kubectl and kcctl name them before a name
_KINDS = ("connector", "connectors", "kc", "kafkaconnector", "kafkaconnectors")
_TAKES_NO_NAME = {
    "connect status": "connect status is about the whole cluster; connect connectors status NAME, or connect describe "
    "NAME, is about one connector.",
}
# A verb without a noun is looked for in these first
_FIRST = ("connectors", "config", "offsets", "topics", "plugins", "cluster")


def likely_commands(
    here: Path, word: str, rest: Sequence[str], commands: Iterable[Path], aliases: Mapping[str, str] | None = None
) -> list[Path]:
    """Commands that `word`, which is none of the group `here`, may stand for; the best first, three at most.

    `rest`: the words behind it, which may name a noun, as in kubectl's order: `get connectors`. `aliases`: other words
    for nouns.
    """
    known = sorted(commands, key=_rank)
    word = word.lower()
    nouns = {path[0] for path in known if len(path) > 1}
    noun = next((named for other in rest if (named := (aliases or {}).get(other, other)) in nouns), None)
    if here:
        places = [here, *([here[:1]] if len(here) > 1 else [])]
    elif noun is not None:
        places = [(noun,)]
    else:
        places = []
    found = [path for place in places for path in _in_group(place, word, known)]
    if not found and not here:
        found = [path for path in _ALONE.get(word, ()) if path in known]
        found = found or [path for path in known if path[-1] == word]
        found = found or _alike(word, [*known, *((noun,) for noun in sorted(nouns))])
    elif not found:
        found = [path for path in known if path[-1] == word]
    return list(dict.fromkeys(found))[:_MOST]


def hint_of_extra(command: str, params: Mapping[str, object]) -> str | None:
    """What is meant by one word too many: kubectl names the kind before the name, and other tools' status takes names.

    `params`: what the words before it were taken for. None where nothing is likely.
    """
    if any(str(value).lower() in _KINDS for value in params.values() if isinstance(value, str)):
        return f"{command} takes no kind of thing, only the connector's name: {command} NAME."
    return _TAKES_NO_NAME.get(command)


def hint_of_option(group: str, option: str, takers: Collection[str]) -> str | None:
    """What is meant by an option before the command of a group that takes it. None where no command does, or many.

    `takers`: the commands of the group that take the option.
    """
    if not 0 < len(takers) <= _MOST:
        return None
    *others, last = (f"{group} {taker}" for taker in takers)
    return f"{', '.join(others)} and {last} take {option}." if others else f"{last} takes {option}."


def _in_group(place: Path, word: str, known: Sequence[Path]) -> list[Path]:
    """Commands below a group: of this verb, of a verb that means it, of one that is spelt like it."""
    below = [path for path in known if path[: len(place)] == place and len(path) > len(place)]
    verbs = [word, *_SAME.get(word, ())]
    exact = [path for verb in verbs for path in below if path[-1] == verb]
    return exact or _alike(word, [*below, *dict.fromkeys(path[: len(place) + 1] for path in below)])


def _alike(word: str, known: Sequence[Path]) -> list[Path]:
    """The paths whose last word is spelt like it; of each word those with the fewest words before it."""
    by_word: dict[str, list[Path]] = {}
    for path in sorted(dict.fromkeys(known), key=len):
        alike = by_word.setdefault(path[-1], [])
        if not alike or len(path) == len(alike[0]):
            alike.append(path)
    return [path for near in get_close_matches(word, by_word, n=_MOST, cutoff=_ALIKE) for path in by_word[near]]


def _rank(path: Path) -> tuple[int, int]:
    """Shorter ones first, then those of the nouns that are used most."""
    return len(path), _FIRST.index(path[0]) if path[0] in _FIRST else len(_FIRST)

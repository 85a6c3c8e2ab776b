"""What a Java regular expression consists of, and how each part is written for Python's `re`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

# A look-behind of more ways to match is refused; each is written out, as `re` looks back by one length only
_MOST_WAYS: Final = 1000
# Names of topics are no longer: so far a look-behind without bound looks back
_LONGEST_NAME: Final = 249


@dataclass(frozen=True, slots=True)
class Leaf:
    """A piece of a pattern for `re`: a character or a place between two."""

    text: str


@dataclass(frozen=True, slots=True)
class Grapheme:
    r"""\X: a character with the marks that belong to it."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What a group matched. One that is not closed here has matched nothing, but in the next round of a loop."""

    number: int
    is_closed: bool
    any_case: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`high`: None without an upper bound. `mode`: what follows the quantifier."""

    node: Node
    low: int
    high: int | None
    mode: Literal["", "?", "+"]


@dataclass(frozen=True, slots=True)
class Group:
    """`kind`: how it is opened for `re`, such as `(?:` or `(?P<name>`."""

    kind: str
    node: Node
    number: int = 0
    """That references have for it; 0 for one that captures nothing."""


Node = Leaf | Grapheme | Reference | Sequence | Choice | Repeat | Group

LOOK_BEHIND: Final = ("(?<=", "(?<!")
_LOOKS: Final = ("(?=", "(?!", *LOOK_BEHIND)
_MARKS: Final = r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\u200d]"


class NotHereError(Exception):
    """Java takes it, `re` cannot do it; the text says what."""


def written(node: Node, looped: frozenset[int] = frozenset()) -> str:
    """The node for `re`. `looped`: groups inside the loops that the node is in. Errors: NotHereError."""
    match node:
        case Leaf(text):
            return text
        case Grapheme():
            return rf"(?>\r\n|[\s\S]{_MARKS}*)"
        case Reference(number, is_closed, any_case):
            if number in looped and not is_closed:
                raise NotHereError(f"A reference in a loop to group {number}, which ends after it,")
            return f"(?{'i' if any_case else ''}:\\{number})" if is_closed else "(?!)"
        case Sequence(items):
            return "".join(written(item, looped) for item in items)
        case Choice(branches):
            return "|".join(written(branch, looped) for branch in branches)
        case Repeat(inner, low, high, mode):
            text = written(inner, looped | _numbers(inner))
            return f"(?:{text}){{{low},{'' if high is None else high}}}{mode}"
        case Group(kind, inner) if kind in LOOK_BEHIND:
            return _look_behind(kind, inner)
        case Group(kind, inner):
            return f"{kind}{written(inner, looped)})"


def has_bound(node: Node) -> bool:
    """Whether Java looks back by the node. Source: Node.study (Java 17).

    Differs: Java also refuses some repetitions of single characters, and looks back too far or not at all for others,
    by an overflow of their length.
    """
    match node:
        case Leaf():
            return True
        case Grapheme() | Reference():
            return False
        case Sequence(parts) | Choice(parts):
            return all(has_bound(part) for part in parts)
        case Repeat(inner, low, high, mode):
            is_loop = isinstance(inner, Group) and inner.kind != "(?>" and mode != "+" and (low, high) != (0, 1)
            return has_bound(inner) and (not is_loop or _is_plain(inner))
        case Group(kind, inner):
            return kind in _LOOKS or has_bound(inner)


def _is_plain(node: Node) -> bool:
    """Whether there is one way to match the node only; Java counts in any other group by a loop."""
    match node:
        case Leaf():
            return True
        case Grapheme() | Reference() | Choice():
            return False
        case Sequence(items):
            return all(_is_plain(item) for item in items)
        case Repeat(inner, low, high, _):
            return low == high and _is_plain(inner)
        case Group(kind, inner):
            return kind in _LOOKS or _is_plain(inner)


def _numbers(node: Node) -> frozenset[int]:
    """The groups in a node."""
    match node:
        case Sequence(parts) | Choice(parts):
            return frozenset(number for part in parts for number in _numbers(part))
        case Repeat(inner):
            return _numbers(inner)
        case Group(_, inner, number):
            return _numbers(inner) | {number}
        case _:
            return frozenset()


def _look_behind(kind: str, node: Node) -> str:
    looks = [f"{kind}{text})" for text in dict.fromkeys(_ways(node))]
    if kind == "(?<!" or len(looks) == 1:
        return "".join(looks)
    return f"(?:{'|'.join(looks)})"


def _ways(node: Node) -> list[str]:
    """The node as patterns of one length each, which together match what it matches. Errors: NotHereError."""
    match node:
        case Sequence(items):
            return _joined([_ways(item) for item in items])
        case Choice(branches):
            return _few([text for branch in branches for text in _ways(branch)])
        case Repeat(inner, low, high, _):
            once = _ways(inner)
            counts = range(low, min(_LONGEST_NAME if high is None else high, max(_LONGEST_NAME, low)) + 1)
            if len(once) == 1:
                return [f"(?:{once[0]}){{{count}}}" for count in counts]
            return _few([text for count in counts for text in _joined([once] * count)])
        case Group(kind, inner, number) if kind not in _LOOKS:
            texts = _ways(inner)
            if len(texts) > 1 and number:
                raise NotHereError("A capturing group in a look-behind of several lengths")
            return [f"{kind}{text})" for text in texts]
        case _:
            return [written(node)]


def _joined(parts: list[list[str]]) -> list[str]:
    count = 1
    for part in parts:
        count *= len(part)
        if count > _MOST_WAYS:
            raise _too_many()
    return ["".join(texts) for texts in product(*parts)]


def _few(texts: list[str]) -> list[str]:
    if len(texts) > _MOST_WAYS:
        raise _too_many()
    return texts


def _too_many() -> NotHereError:
    return NotHereError(f"A look-behind with more than {_MOST_WAYS} ways to match")

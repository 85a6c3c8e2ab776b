"""Secrets that must never leave this process: they are replaced in logs, traces and REST responses.

Each component that learns a secret registers it here under an owner: the herder per connector, a slot per task. Kept
per process and not per thread, because clients log and fail on their own threads. Names of connectors, topics and
tables, which may have a short password in them, are registered as well and stay as they are; so do the lines of traces
that say where the code is. A password of a few small letters, which may be a common word, is hidden where it is a whole
word. What a URL or a Basic login makes of a secret is hidden like it.
"""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final
from urllib.parse import quote

HIDDEN: Final = "[hidden]"
"""What stands in place of a secret."""

# Where the code is, in Java's traces and in Python's: paths and names, never a value
_FRAMES: Final = r"(?m:^\s+at [\w.$/<>@-]+\([^()\n]*\)$|^ +File \"[^\"\n]+\", line \d+, in \S+$)"

# Of small letters alone: it may be a word of the text around it
_LONGEST_WORD: Final = 8
# Where a word begins: also behind a letter that is the end of an escape, as in password%3Dstart and in \nstart
_BEGINS: Final = r"(?:(?<![A-Za-z])|(?<=%[0-9A-Fa-f][A-Fa-f])|(?<=\\[abfnrtv])|(?<=\\x[0-9a-f]{2})|(?<=\\u[0-9a-f]{4}))"
# Shorter values are hardly secrets, and replacing them would make text unreadable.
_MIN_CHARS: Final = 3
# Seven characters of base64 at least, which no other text has by chance.
_LEAST_ENCODED_BYTES: Final = 6
# Of a form of a secret, to look for it by.
_BEGINNING: Final = 6
# So many are looked for one by one in 1 MB of text in the time in which its 1,000,000 beginnings are looked up.
_FEW: Final = 800


class _Hidden:
    """All forms of secrets, longest first. Those that may be in a text are found by their beginnings where that is less
    work: a secret has up to twelve forms.
    """

    def __init__(self, forms: Collection[str]) -> None:
        self._forms = _in_order(forms)
        self._short = tuple(form for form in self._forms if len(form) < _BEGINNING)
        self._long: dict[str, list[str]] = {}
        for form in self._forms:
            if len(form) >= _BEGINNING:
                self._long.setdefault(form[:_BEGINNING], []).append(form)

    def candidates(self, text: str) -> Sequence[str]:
        if len(self._forms) <= min(len(text), _FEW):
            return self._forms
        every = self._long
        found = [every[part] for at in range(len(text)) if (part := text[at : at + _BEGINNING]) in every]
        return _in_order({*self._short, *(form for forms in found for form in forms)}) if found else self._short


def _in_order(forms: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(forms, key=lambda form: (-len(form), form)))


class Redactor:
    """Secrets by owner, and the text without them. Threads: any.

    No pattern is compiled: with a thousand connectors that would cost more at each start than all lines together;
    looking for 2,000 secrets in a line takes 0.05 ms.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards _owned
        self._owned: dict[str, frozenset[str]] = {}
        self._names: dict[str, frozenset[str]] = {}  # by owner, guarded likewise
        self._kept: dict[str, re.Pattern[str]] = {}
        """Holds, for a secret that was met in a text, what stays: frames, and the names that have it in them."""
        self._hidden: _Hidden | None = _Hidden(())  # None: must be rebuilt from _owned

    def remember(self, owner: str, secrets: Iterable[str], names: Iterable[str] = ()) -> None:
        """Hide these from now on, instead of what the same owner registered before; but not within `names`."""
        forms = frozenset(form for secret in secrets for form in _forms(secret) if len(form) >= _MIN_CHARS)
        kept = frozenset(names)
        with self._lock:
            if self._names.get(owner, frozenset()) != kept:
                self._names[owner] = kept
                self._kept = {}
            if self._owned.get(owner, frozenset()) == forms:
                return
            self._owned[owner] = forms
            self._hidden = None

    def keep(self, owner: str, name: str) -> None:
        """Hide no secret within this name, such as that of a topic."""
        with self._lock:
            before = self._names.get(owner, frozenset())
            if name not in before:
                self._names[owner] = before | {name}
                self._kept = {}

    def forget(self, owner: str) -> None:
        """Stop hiding the secrets of this owner."""
        with self._lock:
            if self._names.pop(owner, None):
                self._kept = {}
            if self._owned.pop(owner, None):
                self._hidden = None

    def redact(self, text: str) -> str:
        """The text with all known secrets replaced, longest first, as one may contain another."""
        hidden = self._hidden
        if hidden is None:
            with self._lock:
                hidden = self._hidden = _Hidden({form for forms in self._owned.values() for form in forms})
        for secret in hidden.candidates(text):
            if secret in text:
                parts = self._names_with(secret).split(text)  # every second part is a name
                parts[::2] = [_without(secret, part) for part in parts[::2]]
                text = "".join(parts)
        return text

    def _names_with(self, secret: str) -> re.Pattern[str]:
        kept = self._kept
        if secret not in kept:
            with self._lock:
                every = {name for names in self._names.values() for name in names}
            found = sorted((name for name in every if secret in name and name != secret), key=len, reverse=True)
            # A whole name, not the beginning of a longer one; that of a task or partition ends with a number
            whole = rf"|(?<![\w-])(?:{'|'.join(map(re.escape, found))})(?!\w|-\D)" if found else ""
            kept[secret] = re.compile(f"({_FRAMES}{whole})")
        return kept[secret]


def _without(secret: str, text: str) -> str:
    if not re.fullmatch(f"[a-z]{{1,{_LONGEST_WORD}}}", secret):
        return text.replace(secret, HIDDEN)
    # Not in a longer word, nor the name of a function, nor a part of a dotted one: errors.start.max, java.lang.Error
    word = rf"{_BEGINS}(?:(?<!\w\.){secret}|{secret}(?!\.\w))(?![A-Za-z(]|\.[a-z]\w*\.)"
    return re.sub(word, HIDDEN, text)


def _forms(secret: str) -> tuple[str, ...]:
    """A secret verbatim, as `repr` and JSON write it where that differs, and as it is in URLs and Basic logins."""
    spelled = repr(secret)[1:-1]
    in_json = secret.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return tuple(dict.fromkeys((secret, secret.strip(), spelled, in_json, *_in_urls(secret), *_in_base64(secret))))


def _in_urls(secret: str) -> Iterator[str]:
    for quoted in (quote(secret, safe="", errors="replace"), quote(secret, errors="replace")):
        yield quoted
        yield quoted.replace("%20", "+")


def _in_base64(secret: str) -> Iterator[str]:
    """Base64 of it, and what stays of that behind others' bytes, such as those of `user:`, and before more."""
    data = secret.encode("utf-8", "replace")
    if len(data) < _LEAST_ENCODED_BYTES:
        return
    whole = [base64.b64encode(data).decode()]
    for before, first in ((0, 0), (1, 2), (2, 3)):  # the first characters have bits of what is before
        encoded = base64.b64encode(bytes(before) + data).decode()
        whole.append(encoded[first : (before + len(data)) * 8 // 6])
    for text in whole:
        yield text
        yield text.replace("+", "-").replace("/", "_")


_process = Redactor()
remember = _process.remember
keep = _process.keep
forget = _process.forget
redact = _process.redact

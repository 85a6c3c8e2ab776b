"""`ssl.principal.mapping.rules`: how the subject of a certificate becomes the name of a user.

Source: o.a.k.common.security.ssl.SslPrincipalMapper (Kafka 4.3).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kconnect.errors import ConfigError

SETTING: Final = "ssl.principal.mapping.rules"
_RULE: Final = r"(?P<default>DEFAULT)|RULE:(?P<pattern>(?:\\.|[^\\/])*)/(?P<new>(?:\\.|[^\\/])*)/(?P<case>[LU]?)"
_SPLIT: Final = re.compile(rf"\s*(?:{_RULE})\s*(?:,\s*|$)")
_GROUP: Final = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str] | None
    """It is None for DEFAULT."""
    replacement: str
    change_case: Callable[[str], str]

    def apply(self, subject: str) -> str | None:
        if self.pattern is None:
            return subject
        found = self.pattern.fullmatch(subject)
        return None if found is None else self.change_case(_filled(self.replacement, found))


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """The rules in order; the first that applies gives the name."""

    rules: Sequence[_Rule] = (_Rule(None, "", str),)

    @classmethod
    def parse(cls, text: str | None, setting: str = SETTING) -> PrincipalRules:
        """`RULE:pattern/replacement/[LU]` and `DEFAULT`, with commas between; None is DEFAULT. Errors: ConfigError."""
        if text is None or not text.strip():
            return cls()
        rules, position = [], 0
        text = text.strip()
        while position < len(text):
            found = _SPLIT.match(text, position)
            if found is None:
                rest = text[position : position + 40]
                raise ConfigError.invalid(setting, text, f"`{rest}` is neither DEFAULT nor RULE:pattern/replacement/")
            rules.append(_rule(found, setting))
            position = found.end()
        return cls(tuple(rules))

    def name_of(self, subject: str) -> str | None:
        """The user that a distinguished name stands for; None when no rule applies, so that it stands for nobody."""
        for rule in self.rules:
            if (name := rule.apply(subject)) is not None:
                return name or None
        return None


def _rule(found: re.Match[str], setting: str) -> _Rule:
    if found["default"]:
        return _Rule(None, "", str)
    cases: dict[str, Callable[[str], str]] = {"L": str.lower, "U": str.upper, "": str}
    try:
        pattern = re.compile(found["pattern"])
    except re.error as err:
        raise ConfigError.invalid(setting, found["pattern"], f"not a regular expression: {err}") from None
    highest = max((int(number) for _, number in _GROUP.findall(found["new"]) if number), default=0)
    if highest > pattern.groups:
        raise ConfigError.invalid(setting, found["new"], f"the pattern has no group ${highest}")
    return _Rule(pattern, found["new"], cases[found["case"]])


def _filled(replacement: str, found: re.Match[str]) -> str:
    return _GROUP.sub(lambda part: part[1] if part[1] is not None else (found[int(part[2])] or ""), replacement)

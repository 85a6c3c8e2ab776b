"""The alerts of a page, and whether they fire: Prometheus' rules as far as that page uses them."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

__all__ = ["Alert", "Scrapes", "alerts_of"]

_BLOCK = re.compile(r"```yaml\n# alerts\.yml\n(.*?)```", re.DOTALL)
_SAMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_SIMPLE = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>[^}]*)\})? (?P<op>==|!=|>=|<=|>|<) (?P<value>\S+)$")
_INCREASE = re.compile(r"^increase\((?P<name>[\w:]+)\[\w+\]\) (?P<op>>|>=) (?P<value>\S+)$")
_COMPARE = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip

Labels = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Alert:
    name: str
    expression: str


def alerts_of(page: Path) -> list[Alert]:
    """The rules in the page's block `# alerts.yml`."""
    found = _BLOCK.search(page.read_text())
    assert found, f"{page} has no block that begins with `# alerts.yml`"
    rules = [rule for group in yaml.safe_load(found[1])["groups"] for rule in group["rules"]]
    return [Alert(rule["alert"], rule["expr"]) for rule in rules]


@dataclass
class Scrapes:
    """What was scraped, one look after the other. `None`: nobody answered, and `up` is 0."""

    seen: list[dict[tuple[str, Labels], float]] = field(default_factory=list)

    def add(self, text: str | None) -> None:
        samples = {("up", frozenset({("job", "connect")})): float(text is not None)}
        for line in (text or "").splitlines():
            if not line.startswith("#"):
                sample = _SAMPLE.match(line)
                assert sample, line
                labels = frozenset(_LABEL.findall(sample["labels"] or ""))
                samples[sample["name"], labels] = float(sample["value"])
        self.seen.append(samples)

    def firing(self, alerts: Sequence[Alert]) -> set[str]:
        """Names of alerts whose expression holds in the last look; `for` is not waited for."""
        return {alert.name for alert in alerts if self._holds(alert.expression)}

    def _holds(self, expression: str) -> bool:
        if simple := _SIMPLE.match(expression):
            wanted = set(_LABEL.findall(simple["labels"] or ""))
            values = [
                value
                for (name, labels), value in self.seen[-1].items()
                if name == simple["name"] and wanted <= set(labels)
            ]
            return any(_COMPARE[simple["op"]](value, float(simple["value"])) for value in values)
        increase = _INCREASE.match(expression)
        assert increase, f"this kit does not know the expression {expression}"
        compare, bound = _COMPARE[increase["op"]], float(increase["value"])
        return any(compare(grown, bound) for grown in self._increases(increase["name"]).values())

    def _increases(self, name: str) -> Mapping[Labels, float]:
        """How much each series of a counter grew over all looks; one that begins anew began at 0."""
        grown: dict[Labels, float] = {}
        for before, after in zip(self.seen, self.seen[1:], strict=False):
            for key, value in after.items():
                if key[0] == name and key in before:
                    step = value - before[key] if value >= before[key] else value
                    grown[key[1]] = grown.get(key[1], 0.0) + step
        return grown

"""What a measurement of a connector found, and what could be changed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kconnect.logs.wording import pluralize

BETWEEN: Final = "between"
"""The stage of what the worker does between the plugins' calls: batches, records, headers."""

# A stage below this share of the time is not worth a word
_LARGE = 0.2
# A call for fewer records than this costs more than they do
_FEW = 100
# A stage that works for less than this share of its time waits for something
_WAITS = 0.5


@dataclass(slots=True)
class StageCost:
    """What one stage took: its calls, the records in them, and how long, in ns. `plugin`: the class."""

    stage: str
    plugin: str = ""
    calls: int = 0
    by_columns: int = 0
    by_lists: int = 0
    by_records: int = 0
    wall_ns: int = 0
    cpu_ns: int = 0

    def took(self, wall_ns: int, cpu_ns: int, *, records: int = 0) -> None:
        self.calls += 1
        self.by_records += records
        self.wall_ns += wall_ns
        self.cpu_ns += cpu_ns

    @property
    def records(self) -> int:
        return self.by_columns + self.by_lists + self.by_records

    @property
    def form(self) -> str:
        """How it was given its records: the form of most of them, with their share where others came otherwise."""
        if not self.records:
            return ""
        forms = {"columns": self.by_columns, "lists": self.by_lists, "records": self.by_records}
        form = max(forms, key=forms.__getitem__)
        share = forms[form] / self.records
        return form if share > 0.99 else f"{share:.0%} {form}"


@dataclass(frozen=True, slots=True)
class Measured:
    """How a connector fared: records in, records out, what each stage took.

    `others_s`: processor time of the processes that it started, such as a JVM of Java's plugins, s.
    """

    records: int
    kept: int
    stages: Sequence[StageCost]
    others_s: float
    is_busy: bool = False
    """Whether others kept the machine busy meanwhile: how long a stage waited says nothing then."""

    @property
    def wall_us(self) -> float:
        """Time a record, waits of the stages included."""
        return sum(cost.wall_ns for cost in self.stages) / 1e3 / self.records

    @property
    def cpu_us(self) -> float:
        """Processor time a record, of all processes."""
        return sum(cost.cpu_ns for cost in self.stages) / 1e3 / self.records + self.others_s * 1e6 / self.records

    @property
    def per_second(self) -> float:
        """Records a second of one task."""
        return 1e6 / self.wall_us if self.wall_us else 0.0

    def share(self, cost: StageCost) -> float:
        """The part of the time that a stage takes."""
        whole = sum(each.wall_ns for each in self.stages)
        return cost.wall_ns / whole if whole else 0.0

    @property
    def advice(self) -> list[str]:
        """What could make it faster, the most first; sentences."""
        large = [cost for cost in self.stages if self.share(cost) >= _LARGE]
        return [
            _advice_of(cost, self.share(cost), self.is_busy) for cost in sorted(large, key=self.share, reverse=True)
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "records": self.records,
            "kept": self.kept,
            "records_per_second": round(self.per_second),
            "us_per_record": round(self.wall_us, 3),
            "cpu_us_per_record": round(self.cpu_us, 3),
            "stages": [
                {
                    "stage": cost.stage,
                    "plugin": cost.plugin or None,
                    "us_per_record": round(cost.wall_ns / 1e3 / self.records, 3),
                    "cpu_us_per_record": round(cost.cpu_ns / 1e3 / self.records, 3),
                    "share": round(self.share(cost), 3),
                    "calls": cost.calls,
                    "by_columns": cost.by_columns,
                    "by_lists": cost.by_lists,
                    "by_records": cost.by_records,
                }
                for cost in self.stages
            ],
            "advice": self.advice,
        }


def _advice_of(cost: StageCost, share: float, is_busy: bool) -> str:
    lead = f"{cost.stage} takes {share:.0%} of the time"
    works = cost.cpu_ns / cost.wall_ns if cost.wall_ns else 1.0
    if cost.stage in ("poll", "put", "flush") and works < _WAITS and not is_busy:
        return f"{lead}, and waits in {1 - works:.0%} of it: several tasks (tasks.max) wait side by side."
    if cost.stage == BETWEEN:
        return f"{lead}, in the worker's own work: it is less where all stages take columns."
    if cost.stage in ("poll", "put") and cost.calls and cost.records / cost.calls < _FEW:
        often = pluralize(round(cost.records / cost.calls), "record")
        return f"{lead}, with {often} a call: more records in each call make it cheaper."
    if cost.stage == "flush":
        return f"{lead}: with fewer commits (offset.flush.interval.ms) it does it less often."
    if cost.form.endswith("records"):
        return f"{lead}, record by record: {_COLUMNS[cost.stage.partition('.')[0]]}"
    return f"{lead}, in {cost.form.rpartition(' ')[2]}."


_COLUMNS: Final = {
    "poll": "a task that returns a RecordBatch gives columns.",
    "put": "a task with supports_batches and put_batch() takes columns.",
    "transforms": "a transformation with supports_batches and apply_batch() takes columns.",
    "key": "the converter has no columns for these keys.",
    "value": "the converter has no columns for these values.",
    "header": "headers are converted one by one.",
}

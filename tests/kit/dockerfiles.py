"""A Dockerfile as its instructions, in order, by stage."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Instruction", "instructions_of"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """`stage` counts from 0; `words` is the argument as written, its lines joined."""

    stage: int
    name: str
    words: str

    @property
    def command(self) -> list[str]:
        """The exec form. Errors: ValueError for the shell form."""
        found = json.loads(self.words[self.words.index("[") :])
        assert isinstance(found, list)
        return found


def instructions_of(path: Path) -> list[Instruction]:
    text = re.sub(r"^\s*#.*\n", "", path.read_text("utf-8"), flags=re.MULTILINE)
    found = []
    stage = -1
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        name, _, words = line.strip().partition(" ")
        if not name:
            continue
        stage += name == "FROM"
        found.append(Instruction(max(stage, 0), name, words.strip()))
    return found

"""What the programs that harm a cluster have in common: a seed, a folder, what they say and how they end."""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

__all__ = ["Outcome", "Say", "options_of", "run_program"]

Say = Callable[[str], None]


class Outcome(Protocol):
    """What came of a run."""

    @property
    def is_good(self) -> bool: ...

    def to_json(self) -> dict[str, Any]: ...

    def table(self) -> str:
        """For people."""
        ...


def options_of(about: str) -> argparse.ArgumentParser:
    """Those of every such program; each adds its own."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--json", metavar="FILE", help="write the metrics there as well")
    parser.add_argument("--folder", help="where all files go, and stay; a temporary one if absent")
    return parser


def run_program(name: str, options: argparse.Namespace, run: Callable[[Path, Say], Outcome]) -> int:
    """Run it in its folder, tell what came of it, and give the exit code: 1 when that is not good."""
    signal.signal(signal.SIGTERM, _leave)
    folder = Path(options.folder or tempfile.mkdtemp(prefix=f"kconnect-{name}-"))
    try:
        outcome = run(folder, _say)
    finally:
        if options.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        Path(options.json).write_text(json.dumps(outcome.to_json(), indent=2) + "\n")
    _say(outcome.table().rstrip("\n"))
    return 0 if outcome.is_good else 1


def _leave(number: int, _frame: object) -> None:
    raise SystemExit(128 + number)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()

"""Small faults put into the product, one at a time: which tests see them? `make mutations`.

A seed draws faults from the rooms; each is put into a copy of the checkout, whose tests then run, nearest first, until
one fails: the room's unit tests, then its integration tests that reach the module. A fault that nothing sees is printed
with its line. With `--tests FOLDER` the tests of another checkout look at the same faults.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kit.places import ROOT

__all__ = ["ROOMS", "Fault", "drawn", "faults_of"]

ROOMS: Final = (
    *(f"runtime/{room}" for room in ("pipeline", "herder", "storage", "rest", "kafka")),
    "admin/direct",
)
_LEVEL_S: Final = 600.0
_COMPARED: Final = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "is not": "is"}
_COMPARED |= {"in": "not in", "not in": "in"}
_OPERATORS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Fault:
    """`old` between two places of a file becomes `new`."""

    path: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.old!r} -> {self.new!r}"

    def put_into(self, text: str) -> str:
        data = text.encode()
        assert data[self.start : self.end].decode() == self.old, "the file is another"
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()


def faults_of(path: str, text: str) -> list[Fault]:
    """Every fault that can be put into a module: conditions turned round, numbers off by one, statements left out."""
    lines = [0]
    for line in text.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def fault(node: ast.expr | ast.stmt, new: str) -> Fault:
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[(node.end_lineno or 1) - 1] + (node.end_col_offset or 0)
        return Fault(path, node.lineno, start, end, text.encode()[start:end].decode(), new)

    tree = ast.parse(text)
    quiet = _not_behaviour(tree)
    found = [fault(node, new) for node in ast.walk(tree) if id(node) not in quiet for node, new in _changes(node)]
    return sorted(found, key=lambda each: (each.start, each.end, each.new))


def _not_behaviour(tree: ast.Module) -> set[int]:
    """Nodes of annotations, decorators and log lines: faults there are no faults."""
    quiet: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            parts = [node.returns, *(arg.annotation for arg in [*node.args.args, *node.args.kwonlyargs])]
            parts += node.decorator_list
        elif isinstance(node, ast.ClassDef):
            parts = list(node.decorator_list)
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.Expr) and "log." in ast.unparse(node)[:4]:
            parts = [node]
        quiet |= {id(below) for part in parts if part is not None for below in ast.walk(part)}
    return quiet


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.Compare(ops=[operator], left=left, comparators=[right]) if type(operator) in _OPERATORS:
            other = _COMPARED[_OPERATORS[type(operator)]]
            yield node, f"({ast.unparse(left)} {other} {ast.unparse(right)})"
        case ast.BoolOp(op=operator, values=values):
            word = " or " if isinstance(operator, ast.And) else " and "
            yield node, f"({word.join(f'({ast.unparse(value)})' for value in values)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"bool({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(value)):
            yield node, str(value + 1)
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield node, "return None"
        case ast.Expr(value=ast.Call()):
            yield node, "pass"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield node, f"({ast.unparse(orelse)} if {ast.unparse(test)} else {ast.unparse(body)})"


def drawn(count: int, seed: int, rooms: Sequence[str] = ROOMS, root: Path = ROOT) -> list[Fault]:
    """So many faults, as many from each room."""
    choice = random.Random(seed)
    found: list[Fault] = []
    for number, room in enumerate(rooms):
        paths = sorted((root / "core" / "kconnect" / room).rglob("*.py"))
        every = [
            fault for path in paths for fault in faults_of(path.relative_to(root).as_posix(), path.read_text("utf-8"))
        ]
        found += choice.sample(every, count // len(rooms) + (number < count % len(rooms)))
    return found


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=Path, default=ROOT, help="the checkout whose tests look")
    parser.add_argument("--only", default="", help="lines of an earlier run: these faults alone (a file)")
    parser.add_argument("--unit", action="store_true", help="unit tests alone")
    asked = parser.parse_args(arguments)
    faults = drawn(asked.count, asked.seed)
    if asked.only:
        wanted = Path(asked.only).read_text()
        faults = [fault for fault in faults if str(fault) in wanted]
    unseen = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        place = Path(folder)
        for name in ("core", "cli", "java", "docs"):
            shutil.copytree(ROOT / name, place / name)
        for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", "CHANGELOG.md"):
            shutil.copy(ROOT / name, place / name)
        shutil.copytree(asked.tests / "tests", place / "tests")
        for fault in faults:
            began = time.monotonic()
            seen_by = _seen_by(fault, place, only_unit=asked.unit)
            unseen += seen_by is None
            took_s = time.monotonic() - began
            _tell(f"{'seen' if seen_by else 'UNSEEN'} {fault}  {seen_by or ''}  {took_s:.0f} s")
    _tell(f"{len(faults) - unseen} of {len(faults)} faults are seen")
    return 0


def _seen_by(fault: Fault, place: Path, *, only_unit: bool) -> str | None:
    """The test that fails with the fault; None when all pass."""
    file = place / fault.path
    text = file.read_text("utf-8")
    file.write_text(fault.put_into(text), "utf-8")
    try:
        for tests in _levels(fault, place)[: 1 if only_unit else None]:
            if tests and (failed := _first_failure(tests, place)):
                return failed
    finally:
        file.write_text(text, "utf-8")
    return None


def _levels(fault: Fault, place: Path) -> list[list[str]]:
    """Test files by level. Those of the room, the ones that name the module first."""
    room = "/".join(fault.path.split("/")[2:4])
    module = fault.path.removeprefix("core/").removesuffix(".py").replace("/", ".")
    levels = []
    for level in ("unit", "integration", "system"):
        paths = sorted((place / "tests" / level / room).rglob("test_*.py"))
        paths.sort(key=lambda path: module not in path.read_text("utf-8"))
        levels.append([path.relative_to(place).as_posix() for path in paths])
    return levels


def _first_failure(tests: Sequence[str], place: Path) -> str | None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(place / name) for name in ("core", "cli", "tests"))}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=place, env=env, capture_output=True, text=True, timeout=_LEVEL_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"tests that do not end ({tests[0]} ..)"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
    return lines[0].split(" - ")[0] if lines else f"exit code {done.returncode}: {done.stdout[-200:]!r}"


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

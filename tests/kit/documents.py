"""Documents as a reader follows them: their fenced blocks, and a shell that runs them from the first to the last.

    bash                      runs, and must succeed; a block of nothing but `make TARGET` is for the tests of make
    console                   `$ command` lines run, whatever their exit code; the lines below are the screen they give
    python properties yaml    a file when its first line is `# name`: it is written, for the blocks below

In a screen `..` stands for anything in a line, and a line `..` for any lines. Blanks in a row count as one.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from kit.pace import ended, now

__all__ = ["FILES", "Block", "Step", "blocks_of", "file_name", "is_for_make", "run_page", "screen_differs", "steps_of"]

FILES = ("python", "properties", "yaml", "toml")
_FENCE = re.compile(r"^(`{3,})([^\n`]*)\n(.*?)^\1 *$", re.MULTILINE | re.DOTALL)
_MARK = "@@ step"
# A broker that was asked to stop closes its port first, and then its logs
_GRACE_S = 10.0
_HEAD = f"""__step() {{ local code=$?; printf '\\n{_MARK} %s\\n' "$1"; return $code; }}
"""


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block. `language` is the first word behind the fence, `note` the rest."""

    document: str
    line: int
    language: str
    note: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line} ({f'{self.language} {self.note}'.strip() or 'no language'})"


@dataclass(frozen=True, slots=True)
class Step:
    """What the shell is given at once. `screen`: what it must print; None when nothing is said of that."""

    block: Block
    code: str
    screen: tuple[str, ...] | None = None
    may_fail: bool = False


def blocks_of(path: Path) -> list[Block]:
    """Every fenced block of a document, in its order."""
    text = path.read_text("utf-8")
    found = []
    for fence in _FENCE.finditer(text):
        language, _, note = fence[2].strip().partition(" ")
        found.append(Block(path.name, text.count("\n", 0, fence.start()) + 1, language, note.strip(), fence[3]))
    return found


def file_name(block: Block) -> str | None:
    """The file that a block is, reported by its first line."""
    named = re.match(r"# ([\w./-]+\.[a-z]+)\n", block.text) if block.language in FILES else None
    return named[1] if named else None


def is_for_make(block: Block) -> bool:
    """Whether it does nothing but make targets."""
    lines = block.text.strip().splitlines()
    return block.language == "bash" and bool(lines) and all(re.match(r"make [a-z]+\b", line) for line in lines)


def steps_of(block: Block) -> list[Step]:
    """What the shell has to do for a block; nothing for one that is not run."""
    if block.language == "console":
        return _console(block)
    if block.language == "bash" and not is_for_make(block):
        return [Step(block, block.text)]
    if name := file_name(block):
        return [Step(block, f"cat > {shlex.quote(name)} <<'END-OF-THE-BLOCK'\n{block.text}END-OF-THE-BLOCK\n")]
    return []


def _console(block: Block) -> list[Step]:
    steps: list[Step] = []
    code: list[str] = []
    screen: list[str] = []
    for line in [*block.text.splitlines(), "$ "]:
        if line.startswith("$ "):
            if code:
                steps.append(Step(block, "\n".join(code) + "\n", tuple(screen), may_fail=True))
            code, screen = [line[2:]], []
        elif line.startswith("> ") and not screen:
            code.append(line[2:])
        else:
            screen.append(line)
    return steps


def run_page(steps: Sequence[Step], folder: Path, env: Mapping[str, str], timeout_s: float) -> list[str]:
    """Run them all in one shell, in a process group of its own; gives what each printed, in order.

    Errors: AssertionError when the time is up or a block that must succeed did not; all that was printed is in it.
    """
    script = _HEAD + "\n".join(
        f"set {'+e' if step.may_fail else '-e'}\n__step {number}\n{step.code}"
        if _begins_block(steps, number)
        else f"__step {number}\n{step.code}"
        for number, step in enumerate(steps)
    )
    with tempfile.TemporaryFile("w+", encoding="utf-8") as screen:  # a pipe would stay open with a job left behind
        shell = subprocess.Popen(
            ["bash", "-uo", "pipefail", "-m", "-c", f"{script}\n__step end\nexit 0\n"],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=screen,
            stderr=screen,
            start_new_session=True,
        )
        try:
            ended(shell, timeout_s)
        except subprocess.TimeoutExpired:
            shell.kill()
            ended(shell, 10)
        left = _end_all_of(env["HOME"], grace_s=_GRACE_S if shell.returncode == 0 else 0.0)
        screen.seek(0)
        output = screen.read()
    assert shell.returncode != -signal.SIGKILL, f"not done in {timeout_s:g} s:\n{output}"
    assert shell.returncode == 0, f"exit code {shell.returncode}:\n{output}"
    assert not left, f"left running by the page: {left}\n{output}"
    return [part.partition("\n")[2].strip("\n") for part in output.split(f"{_MARK} ")[1:-1]]


def _end_all_of(home: str, grace_s: float) -> list[str]:
    """Kill what runs with this HOME when the grace time is over, detached or not; gives the command lines of it."""
    deadline = now() + grace_s
    while (running := _running_with(home)) and now() < deadline:
        time.sleep(0.05)
    for process in running:
        with suppress(psutil.NoSuchProcess):  # it ended by itself at last
            process.kill()
    return [f"process {process.pid} of the page" for process in running]


def _running_with(home: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HOME") == home and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it ended meanwhile, or is another user's
    return found


def _begins_block(steps: Sequence[Step], number: int) -> bool:
    return number == 0 or steps[number].block is not steps[number - 1].block


def screen_differs(step: Step, output: str) -> str | None:
    """How the screen in the document and the real one differ; None when they do not."""
    if step.screen is None:
        return None
    wanted = [line for line in map(_squeezed, step.screen) if line]
    got = [line for line in map(_squeezed, output.splitlines()) if line]
    pattern = "".join(r"(?:.*\n)*?" if line == ".." else f"{_line_pattern(line)}\n" for line in wanted)
    if re.fullmatch(pattern, "".join(f"{line}\n" for line in got)):
        return None
    shown, real = "\n    ".join(wanted), "\n    ".join(got)
    return f"{step.block}\n  $ {step.code.strip()}\n  the document shows\n    {shown}\n  the screen is\n    {real}"


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _line_pattern(line: str) -> str:
    return ".*?".join(re.escape(part) for part in re.split(r"(?<![.\w/])\.\.(?![./])", line))

"""Recordings of a terminal for README and docs: `make recordings`. Real commands on a real broker, as animated SVG.

`quickstart` is the first command of the README, `repair` what docs/repair.md types. Waits are cut, nothing else is.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

import pyte

from kit.cli import cli_env, connect_command
from kit.documents import blocks_of, steps_of
from kit.places import DOCS
from kit.screen import Terminal
from kit.usual_ports import usual_ports

__all__ = ["Frame", "Run", "drawn", "recorded"]

_IMAGES: Final = DOCS / "images"
_COLUMNS: Final = 110
_LINES: Final = 40
# A reader wants to see what came, not how long it took: shorter waits stay as they were
_LONGEST_WAIT_S: Final = 1.5
_READING_S: Final = 3.0
_WITHIN_S: Final = 300.0
_LINE: Final = 18
_CHARACTER: Final = 8.0
_FAMILY: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, monospace"
# Ground, text, and the colours that commands use
_COLOURS: Final[Mapping[str, Mapping[str, str]]] = {
    "light": {
        "ground": "#f6f8fa",
        "default": "#1f2328",
        "red": "#cf222e",
        "green": "#116329",
        "brown": "#7d4e00",
        "blue": "#0550ae",
        "cyan": "#1b7c83",
        "magenta": "#8250df",
    },
    "dark": {
        "ground": "#0d1117",
        "default": "#e6edf3",
        "red": "#ff7b72",
        "green": "#3fb950",
        "brown": "#d29922",
        "blue": "#58a6ff",
        "cyan": "#39c5cf",
        "magenta": "#bc8cff",
    },
}


@dataclass(frozen=True, slots=True)
class Run:
    """Characters of one look, side by side."""

    column: int
    text: str
    colour: str = "default"
    is_bold: bool = False


@dataclass(frozen=True, slots=True)
class Frame:
    """What the screen shows from a second of the recording on: the runs of each line."""

    at_s: float
    lines: tuple[tuple[Run, ...], ...]


def main(names: Sequence[str]) -> int:
    """Make those named, or all."""
    for name in names or list(_RECORDINGS):
        prepare, commands, tidy = _RECORDINGS[name]()
        with usual_ports(), tempfile.TemporaryDirectory(prefix="kconnect-recording-") as folder:
            env = cli_env(Path(folder), {"KCONNECT_WORKER": "shop.properties"})
            env["PATH"] = f"{Path(connect_command()[0]).parent}:{env['PATH']}"
            del env["NO_COLOR"]
            try:
                _shell(prepare, folder, env)
                frames = recorded(commands, folder, env)
            finally:
                _shell(tidy, folder, env)
        for kind, colours in _COLOURS.items():
            path = _IMAGES / f"{name}-{kind}.svg"
            path.write_text(drawn(frames, colours), encoding="utf-8")
            sys.stdout.write(f"{path.name}: {len(frames)} frames, {frames[-1].at_s:.0f} s\n")
    return 0


def _quickstart() -> tuple[str, list[str], str]:
    return "", ["connect quickstart"], ""


def _repair() -> tuple[str, list[str], str]:
    """The first block of the page makes the night; what the page types is what is recorded."""
    first, *others = blocks_of(DOCS / "repair.md")
    typed = [step.code.strip() for block in others for step in steps_of(block) if step.screen is not None]
    return first.text, typed[:_REPAIRED], "connect broker stop --data broker"


_RECORDINGS: Final = {"quickstart": _quickstart, "repair": _repair}
# What is wrong, what was changed and by which command it is put right: more is the page's
_REPAIRED: Final = 4


def _shell(script: str, folder: str, env: Mapping[str, str]) -> None:
    if script:
        subprocess.run(["bash", "-ec", script], cwd=folder, env=env, check=True, timeout=_WITHIN_S)


def recorded(commands: Iterable[str], folder: str, env: Mapping[str, str]) -> list[Frame]:
    """What a terminal shows while a shell runs commands one by one, each at a prompt; unused lines are left out."""
    screen = pyte.Screen(_COLUMNS, _LINES)
    stream = pyte.ByteStream(screen)
    frames: list[Frame] = []
    at_s = 0.0
    for command in commands:
        stream.feed(f"$ {command}\r\n".encode())
        frames.append(Frame(at_s, _runs(screen)))
        at_s += 1.0
        with Terminal(["bash", "-c", command], env, cwd=folder, columns=_COLUMNS, lines=_LINES) as terminal:
            began = last = time.monotonic()
            while time.monotonic() - began < _WITHIN_S:
                has_ended = terminal.process.poll() is not None
                if new := terminal.taken():
                    now = time.monotonic()
                    at_s, last = at_s + min(now - last, _LONGEST_WAIT_S), now
                    stream.feed(new)
                    frames.append(Frame(at_s, _runs(screen)))
                elif has_ended:
                    break
                time.sleep(0.05)
        at_s += _READING_S
    return _different(frames)


def _different(frames: Iterable[Frame]) -> list[Frame]:
    return [next(group) for _, group in groupby(frames, key=lambda frame: frame.lines)]


def _runs(screen: pyte.Screen) -> tuple[tuple[Run, ...], ...]:
    found = []
    for row in range(screen.lines):
        cells = [screen.buffer[row][column] for column in range(screen.columns)]
        runs = []
        for (colour, is_bold), group in groupby(enumerate(cells), key=lambda cell: (cell[1].fg, cell[1].bold)):
            places = list(group)
            text = "".join(cell.data for _, cell in places)
            if text.strip():
                runs.append(Run(places[0][0], text.rstrip(), colour, is_bold))
        found.append(tuple(runs))
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def drawn(frames: Sequence[Frame], colours: Mapping[str, str]) -> str:
    """The frames as SVG, each for its time; the last one stays, and is what shows where nothing moves."""
    height = 24 + _LINE * max(len(frame.lines) for frame in frames)
    width = round(24 + _CHARACTER * _COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="{_FAMILY}" font-size="13">',
        f'<rect width="{width}" height="{height}" rx="8" fill="{colours["ground"]}"/>',
    ]
    for frame, later in pairwise(frames):
        shown = f'<set attributeName="visibility" to="visible" begin="{frame.at_s:.2f}s" end="{later.at_s:.2f}s"/>'
        parts.append(f'<g visibility="hidden">{shown}{"".join(_texts(frame, colours))}</g>')
    hidden = f'<set attributeName="visibility" to="hidden" begin="0s" end="{frames[-1].at_s:.2f}s"/>'
    parts.append(f"<g>{hidden}{''.join(_texts(frames[-1], colours))}</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def _texts(frame: Frame, colours: Mapping[str, str]) -> Iterator[str]:
    for row, runs in enumerate(frame.lines):
        for run in runs:
            fill = colours.get(run.colour, colours["default"])
            weight = ' font-weight="bold"' if run.is_bold else ""
            x, y = 12 + _CHARACTER * run.column, 24 + _LINE * row
            # The length is said, so that columns stand where they were in any font
            length = f'textLength="{_CHARACTER * len(run.text):g}" xml:space="preserve"'
            yield f'<text x="{x:g}" y="{y}" fill="{fill}"{weight} {length}>{escape(run.text, quote=False)}</text>'


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Documents as pages that are run: which, for how long, and beside what."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from kit.cli import cli_env
from kit.documents import blocks_of, run_page, screen_differs, steps_of
from kit.places import ROOT
from kit.postgres import logical_database, psql_folder
from kit.usual_ports import usual_ports

__all__ = ["BLOCKS", "DOCUMENTS", "PAGES", "RUN", "run_document"]

_BIN = Path(sys.executable).parent
DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted((ROOT / "docs").glob("*.md"))
BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]
PAGES: Final[Mapping[str, int]] = {
    "README.md": 200,
    "repair.md": 60,
    "quickstart.md": 150,
    "operations.md": 200,
    "containers.md": 30,
    "distributed.md": 150,
    "write-a-connector.md": 90,
    "schema-registry.md": 120,
    "capacity.md": 60,
    "sql.md": 60,
    "types.md": 60,
    "databases.md": 60,
    "python-functions.md": 60,
    "stores.md": 60,
    "java-plugins.md": 150,
    "mirror.md": 120,
    "spark.md": 60,
}
"""Pages that are run from their first line to their last, and how long that may take: one shell, one folder."""
# Pages that go on where another ends, in its shell and folder
_CONTINUED: Final[Mapping[str, tuple[str, ...]]] = {
    "operations.md": ("rest.md", "secrets.md", "health.md", "monitoring.md", "offsets.md", "no-worker.md"),
}
RUN: Final = frozenset(PAGES).union(*_CONTINUED.values())
"""All pages whose blocks run."""
# Pages whose reader has a PostgreSQL that lets its changes be followed, and psql
_WITH_POSTGRES: Final = ("java-plugins.md",)


def run_document(page: str, folder: Path, home: Path) -> list[str]:
    """Run a document in an empty folder with an empty HOME and compare its screens, and those of pages that continue
    it.

    Gives what was printed.
    """
    pages = (page, *_CONTINUED.get(page, ()))
    steps = [step for each in pages for block in BLOCKS if block.document == each for step in steps_of(block)]
    (folder / ".venv").symlink_to(_BIN.parent)
    path = os.pathsep.join([str(_BIN), os.environ.get("PATH", os.defpath)])
    with ExitStack() as stack:
        stack.enter_context(usual_ports())
        if page in _WITH_POSTGRES:
            stack.enter_context(logical_database(5432))
            path += f"{os.pathsep}{psql_folder()}"
        outputs = run_page(steps, folder, cli_env(home, {"PATH": path}), PAGES[page])
    differences = [
        reported for step, output in zip(steps, outputs, strict=True) if (reported := screen_differs(step, output))
    ]
    assert not differences, "\n\n".join(differences)
    return outputs

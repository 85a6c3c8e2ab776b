"""Options of commands that change something, wherever that is; `direct.py` has those that need --direct."""

from __future__ import annotations

from typing import Annotated

import typer

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would change, without changing it.")]

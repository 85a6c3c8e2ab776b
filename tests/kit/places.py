"""Where things are, for tests that read files: no test counts the folders above it."""

from __future__ import annotations

from pathlib import Path

__all__ = ["DOCS", "GOLDEN", "KIT", "ROOT", "TESTS"]

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
KIT = TESTS / "kit"
GOLDEN = TESTS / "golden"
DOCS = ROOT / "docs"

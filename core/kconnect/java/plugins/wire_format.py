"""Numbers that Python and Java agree on."""

from __future__ import annotations

from typing import Final

NO_TIME: Final = -(2**63)
"""The timestamp of a record that has none."""

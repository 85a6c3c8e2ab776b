"""Numbers that Python and Java agree on."""

from __future__ import annotations

from typing import Final

NO_TIME: Final = -(2**63)
"""The timestamp of a record that has none."""
NO_PARTITION: Final = -(2**31)
"""The partition of a source record that has none, where Java gives it in the form of a sink's."""

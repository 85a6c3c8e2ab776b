"""The key of the address at which a worker's slots get its JVM of plugins. Apart, as each start reads it."""

from __future__ import annotations

from typing import Final

DOOR: Final = "kconnect.java.door"
"""Among settings that the worker gives on; no user's setting. Its value is a secret (java/plugins/shared_jvm.py)."""

"""Java plugins of others for tests, each by its lock; their jars are fetched once a machine."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

from kconnect.files.folders import cache_folder
from kconnect.java.plugins.install import LOCK, install

__all__ = ["give_lock", "third_party_path"]

_LOCKS = Path(__file__).with_name("plugin_locks")


def third_party_path(*artifacts: str) -> Path:
    """A plugin.path in the cache with these plugins and no others, such as `mongo-kafka-connect`."""
    path = cache_folder() / "test-plugins" / "+".join(sorted(artifacts))
    for artifact in artifacts:
        lock = _LOCKS / f"{artifact}.lock"
        coordinate = lock.read_text("utf-8").split(":")
        target = path / artifact
        target.mkdir(parents=True, exist_ok=True)
        give_lock(lock, target / LOCK)
        install(":".join(part.strip("# ") for part in coordinate[:3]), path)
    return path


def give_lock(lock: Path, target: Path) -> None:
    """Copy it in one step: another process of the run may read it just now."""
    draft = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    draft.write_bytes(lock.read_bytes())
    os.replace(draft, target)

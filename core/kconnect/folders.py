"""The user's folders: what may be made again goes to the cache, what must stay to the data folder; who may read."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from platformdirs import user_cache_path, user_data_path


def cache_folder() -> Path:
    """Where fetched jars and class archives are kept: the user's cache folder, `KCONNECT_CACHE` if set."""
    chosen = os.environ.get("KCONNECT_CACHE")
    return Path(chosen) if chosen else user_cache_path("kconnect")


def data_folder() -> Path:
    """Where the dev broker and a worker without a file keep what must last."""
    return user_data_path("kconnect")


def is_open_to_others(path: Path) -> bool:
    """Whether others than the owner may read the file; not when there is none."""
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)

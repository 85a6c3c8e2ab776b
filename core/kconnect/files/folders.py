"""The user's cache and data folders: what can be recreated goes to the cache, the rest to the data folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from platformdirs import user_cache_path, user_data_path, user_state_path


def cache_folder() -> Path:
    """Where fetched jars and class archives are kept: the user's cache folder, `KCONNECT_CACHE` if set."""
    chosen = os.environ.get("KCONNECT_CACHE")
    return Path(chosen) if chosen else user_cache_path("kconnect")


def data_folder() -> Path:
    """Where the dev broker, and a worker started without a config file, keep persistent data."""
    return user_data_path("kconnect")


def state_folder() -> Path:
    """Where a worker leaves what explains how it ended."""
    return user_state_path("kconnect")


def is_open_to_others(path: Path) -> bool:
    """Whether users other than the owner may read the file; False if it does not exist."""
    return path.exists() and bool(stat.S_IMODE(path.stat().st_mode) & 0o077)

"""The user's folders: what may be made again goes to the cache, what must stay to the data folder."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_path, user_data_path

__all__ = ["cache_folder", "data_folder"]


def cache_folder() -> Path:
    """Where fetched jars and class archives are kept: the user's cache folder, `KCONNECT_CACHE` if set."""
    chosen = os.environ.get("KCONNECT_CACHE")
    return Path(chosen) if chosen else user_cache_path("kconnect")


def data_folder() -> Path:
    """Where the dev broker and a worker without a file keep what must last."""
    return user_data_path("kconnect")

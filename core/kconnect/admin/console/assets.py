"""Static files: read once, served by names that contain their content's hash, so that browsers keep them for good."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "static"
# What pages use; README and licences are for people
_SUFFIXES: Final = frozenset({".js", ".css", ".svg"})


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. `zipped` is its content for browsers that take gzip."""

    name: str
    media_type: str
    content: bytes = field(repr=False)
    zipped: bytes = field(repr=False)

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()[:12]


@cache
def assets() -> Mapping[str, Asset]:
    """By name, `vendor/htmx.js`. Paths of requests are only looked up here: none leads elsewhere."""
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        if path.suffix in _SUFFIXES:
            name = path.relative_to(FOLDER).as_posix()
            content = path.read_bytes()
            media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
            if media_type.startswith("text/"):
                media_type += "; charset=utf-8"
            found[name] = Asset(name, media_type, content, gzip.compress(content, mtime=0))
    return found


@cache
def asset_url(name: str) -> str:
    """Where a page finds it. Errors: KeyError for one that is not there."""
    return f"/ui/static/{assets()[name].digest}/{name}"

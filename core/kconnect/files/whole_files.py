"""Files that are written as a whole: who reads one sees the old or the new content, never a part."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kconnect.errors import ConnectError

_OWNER_ONLY: Final = 0o600


def replace_file(path: Path, text: str, *, is_secret: bool = False) -> None:
    """Write a file: the one that was there stays until the new one is complete. Errors: ConnectError.

    With `is_secret` only its owner may read it.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        mode = _OWNER_ONLY if is_secret else 0o666
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)
    except OSError as err:
        raise ConnectError(f"{path} cannot be written: {err.strerror}") from err
    finally:
        beside.unlink(missing_ok=True)

"""Writes the state machine's trace to a file when a worker fails; `connect cluster trace` shows the same."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kconnect.files.folders import state_folder
from kconnect.logs.redaction import redact
from kconnect.runtime.herder.decisions.machine import HerderState

_PREFIX = "herder-trace-"
# A worker that its supervisor restarts fails repeatedly: the last of these files are enough
_KEPT_FILES = 5
# The configs of some ten thousand connectors; a larger trace omits its checkpoint, and can still be read
_MAX_CHARS = 32 * 1024 * 1024


def save_trace(state: HerderState, worker_id: str, now_ms: int) -> str:
    """Write the trace for its owner's eyes alone; a sentence that names the file. Never raises."""
    try:
        folder = state_folder()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / _file_name(worker_id, now_ms)
        text = _text(state, worker_id, now_ms, None)
        if len(text) > _MAX_CHARS:
            text = _text(state, worker_id, now_ms, 0)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        _remove_old(folder)
    except Exception as err:  # whatever the error, the failure itself must be reported
        return f"The trace of its last decisions could not be written: {type(err).__name__}: {err}"
    return f"The trace of its last decisions is in {path}"


def _text(state: HerderState, worker_id: str, now_ms: int, since: int | None) -> str:
    document: dict[str, Any] = {"worker_id": worker_id, "written_ms": now_ms, **state.trace(since, redact)}
    return json.dumps(document, separators=(",", ":")) + "\n"


def _file_name(worker_id: str, now_ms: int) -> str:
    worker = re.sub(r"[^A-Za-z0-9.-]", "_", worker_id)[:100] or "worker"
    when = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
    return f"{_PREFIX}{worker}-{when}Z.json"


def _remove_old(folder: Path) -> None:
    files = sorted(folder.glob(f"{_PREFIX}*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in files[:-_KEPT_FILES]:
        path.unlink(missing_ok=True)

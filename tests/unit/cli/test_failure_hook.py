"""What a command of --on-failure gets."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kconnect_cli.commands.connectors.watch import failure_hook


def test_a_cause_that_is_longer_than_a_variable_may_be_is_whole_on_the_input(tmp_path: Path) -> None:
    message = tmp_path / "reported.json"
    code = (
        "import json, os, sys; body = json.load(sys.stdin); "
        "json.dump([len(body['cause']), len(os.environ['KCONNECT_CAUSE'])], open(sys.argv[1], 'w'))"
    )
    (tmp_path / "hook.py").write_text(code)
    hook = failure_hook(f"{sys.executable} {tmp_path / 'hook.py'} {message}")
    event = {"event": "failed", "name": "a", "task": 0, "state": "FAILED", "worker_id": "w:1", "cause": "x" * 300_000}
    hook.tell(event)
    assert json.loads(message.read_text()) == [300_000, 10_000]

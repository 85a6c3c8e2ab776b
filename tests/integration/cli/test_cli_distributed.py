"""`connect distributed` with files that are none of a worker of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.cli import cli_run

GROUP = "group.id=g\nconfig.storage.topic=c\noffset.storage.topic=o\nstatus.storage.topic=s\n"
WORKER = (
    "bootstrap.servers=127.0.0.1:1\nkey.converter=org.apache.kafka.connect.storage.StringConverter\n"
    "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (WORKER + "offset.storage.file.filename=/tmp/o\n", "is the file of a standalone worker"),
        (WORKER + GROUP.replace("group.id=g\n", ""), "group.id"),
        (WORKER + GROUP.replace("=o\n", "=c\n"), "each of the three internal topics must be its own"),
        (WORKER + GROUP + "connect.protocol=quick\n", "connect.protocol"),
    ],
    ids=["standalone file", "no group", "one topic twice", "unknown protocol"],
)
def test_a_file_that_can_not_be_right_is_refused_with_exit_code_2(home: Path, text: str, words: str) -> None:
    file = home / "worker.properties"
    file.write_text(text)
    result = cli_run("distributed", str(file), home=home, expect=2)
    assert words in result.stderr

"""docs/cli.md and docs/configuration.md are what the commands and tables say now."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.config.worker_config import STANDALONE_CONFIG
from kconnect_cli.reference import cli_reference, configuration_reference

_DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(
    ("name", "made", "option"),
    [("cli.md", cli_reference, ""), ("configuration.md", configuration_reference, " --configuration")],
)
def test_the_reference_is_not_stale(name, made, option):
    assert (_DOCS / name).read_text(encoding="utf-8") == made(), (
        f"docs/{name} is stale: python -m kconnect_cli.reference{option} > docs/{name}"
    )


def test_every_setting_and_command_is_in_the_reference():
    text = configuration_reference()
    assert [name for name in STANDALONE_CONFIG.names() if f"| `{name}` |" not in text] == []
    for command in ("connectors apply", "tasks restart", "config edit", "loggers set", "contexts add", "completion"):
        assert f"# connect {command}\n" in cli_reference()

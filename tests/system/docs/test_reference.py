"""docs/cli.md, docs/configuration.md and docs/connectors.md are what the commands and tables say now."""

from __future__ import annotations

from typing import Any

import pytest
import typer
from typer.main import get_command

from kconnect.runtime.config.worker_config import STANDALONE_CONFIG
from kconnect_cli.app import app
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.reference import cli_reference, configuration_reference, connectors_reference
from kit.places import DOCS


@pytest.mark.parametrize(
    ("name", "made", "option"),
    [
        ("cli.md", cli_reference, ""),
        ("configuration.md", configuration_reference, " --configuration"),
        ("connectors.md", connectors_reference, " --connectors"),
    ],
)
def test_the_reference_is_not_stale(name, made, option):
    assert (DOCS / name).read_text(encoding="utf-8") == made(), (
        f"docs/{name} is stale: python -m kconnect_cli.reference{option} > docs/{name}"
    )


def all_commands():
    """Every command, those loaded only when they are called too."""

    def below(command: Any):
        if not hasattr(command, "commands"):
            yield command
            return
        for name in command.commands:
            yield from below(command.get_command(context, name))

    root: Any = get_command(app)
    context = typer.Context(root, info_name="connect")
    return list(below(root))


def test_secrets_are_shown_by_one_option_whatever_the_command():
    options = [
        tuple(param.opts)
        for command in all_commands()
        for param in command.params
        if getattr(param, "is_flag", False) and "secret" in f"{param.name} {param.help}".lower()
    ]
    assert len(options) > 10
    assert set(options) == {("--show-secrets",)}


def test_options_of_a_cluster_are_reported_once_and_referred_to():
    text = cli_reference()
    section = text.split("\n## Options of a cluster\n")[1].split("\n## ")[0]
    options = [f"--{name.replace('_', '-')}" for name in ClusterArguments.__dataclass_fields__]
    assert [option for option in options if f"| `{option}`" not in section] == []
    assert text.count("| `--status-topic`") == 1
    having = [command for command in all_commands() if any(param.name == "status_topic" for param in command.params)]
    in_contents = 1
    assert text.count("(#options-of-a-cluster)") - in_contents == len(having) > 20


def test_every_setting_and_command_is_in_the_reference():
    text = configuration_reference()
    assert [name for name in STANDALONE_CONFIG.names() if f"| `{name}` |" not in text] == []
    for command in ("connectors apply", "tasks restart", "config edit", "loggers set", "contexts add", "completion"):
        assert f"# connect {command}\n" in cli_reference()

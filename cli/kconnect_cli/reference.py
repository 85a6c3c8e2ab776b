"""Prints the reference in Markdown: docs/cli.md from the commands, docs/configuration.md from the settings' tables.

python -m kconnect_cli.reference > docs/cli.md
python -m kconnect_cli.reference --configuration > docs/configuration.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer
from typer.main import get_command

from kconnect.api.configdef import ConfigDef, ConfigKey
from kconnect_cli import exits
from kconnect_cli.app import app
from kconnect_cli.output import write_text

__all__ = ["cli_reference", "configuration_reference"]

_EVERYWHERE = ("url", "context", "retry", "output", "verbose")

_CLI_HEAD = """# Command reference

Made from the commands by `make docs`; do not edit it. `connect COMMAND --help` shows the same.

Results go to stdout, everything else to stderr. JSON and YAML keep their shape; tables are for people and may change.
Secrets are masked as `[hidden]` in all output; where a masked value comes back (`connectors apply`, `config edit`) it
stands for the secret that is there.
"""

_CONFIGURATION_HEAD = """# Configuration reference

Made from the tables that parse the settings, by `make docs`; do not edit it. Names, types and defaults are those of
Apache Kafka Connect 4.3; settings that begin with `kconnect.` are ours. Times are in milliseconds, sizes in bytes.
"""


def cli_reference() -> str:
    """docs/cli.md."""
    root: Any = get_command(app)  # typer's click types are private
    context = typer.Context(root, info_name="connect")
    parts = [_CLI_HEAD, "## Options of all commands\n", _options_everywhere(root, context)]
    for name in root.commands:
        command = root.get_command(context, name)
        parts += _command(command, f"connect {name}", 2, context)
    parts += ["## Exit codes\n", _exit_codes()]
    return "\n".join(parts)


def configuration_reference() -> str:
    """docs/configuration.md."""
    from kconnect.config.connector_keys import CONNECTOR_CONFIG, SINK_CONFIG, SOURCE_CONFIG
    from kconnect.config.worker_config import DISTRIBUTED_CONFIG, KCONNECT_CONFIG, STANDALONE_CONFIG, WITHOUT_EFFECT

    shared = STANDALONE_CONFIG.names() & DISTRIBUTED_CONFIG.names()
    connector = CONNECTOR_CONFIG.names()
    tables = (
        ("Worker", "Settings of standalone and of distributed workers.", _keys(STANDALONE_CONFIG, shared)),
        ("Standalone worker", "", _keys(STANDALONE_CONFIG, STANDALONE_CONFIG.names() - shared)),
        ("Distributed worker", "", _keys(DISTRIBUTED_CONFIG, DISTRIBUTED_CONFIG.names() - shared)),
        ("kconnect", "Our own settings of a worker.", _keys(KCONNECT_CONFIG, KCONNECT_CONFIG.names())),
        ("Connector", "Settings of every connector.", _keys(CONNECTOR_CONFIG, connector)),
        ("Source connector", "", _keys(SOURCE_CONFIG, SOURCE_CONFIG.names() - connector)),
        ("Sink connector", "", _keys(SINK_CONFIG, SINK_CONFIG.names() - connector)),
    )
    parts = [_CONFIGURATION_HEAD]
    for title, lead, keys in tables:
        parts += [f"## {title}\n", *([f"{lead}\n"] if lead else []), _settings_table(keys)]
    parts += ["## Accepted without effect\n", "These settings of Java's worker mean nothing here:\n"]
    parts.append("".join(f"- `{name}`\n" for name in sorted(WITHOUT_EFFECT)))
    return "\n".join(parts)


def _command(command: Any, path: str, level: int, context: Any) -> list[str]:  # typer's click types are private
    """A section for a command, and for each below a group."""
    own = typer.Context(command, info_name=path.rpartition(" ")[2], parent=context)
    text = (command.help or "").strip()
    parts = [f"{'#' * level} {path}\n"]
    if hasattr(command, "commands"):
        parts.append(f"{text}\n")
        for name, below in command.commands.items():
            parts += _command(below, f"{path} {name}", level + 1, own)
        return parts
    usage = " ".join([path, *_usage(command)])
    parts += [f"```\n{usage}\n```\n", f"{text}\n"]
    rows = [_parameter_row(param) for param in command.params if param.name not in _EVERYWHERE]
    rows = [row for row in rows if row[0] != "`--help`"]
    if rows:
        parts.append(_table(("Argument or option", "Default", "What it does"), rows))
    return parts


def _usage(command: Any) -> list[str]:  # as above
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = ["[OPTIONS]"] if any(param.param_type_name == "option" for param in command.params) else []
    return options + [_metavar(param) for param in arguments]


def _metavar(param: Any) -> str:  # as above
    text = str(param.metavar or param.name.upper())
    many = "..." if param.nargs == -1 and not text.endswith("...]") else ""
    return text + many


def _parameter_row(param: Any) -> tuple[str, str, str]:  # as above
    if param.param_type_name == "argument":
        return f"`{_metavar(param)}`", "", str(param.help or "")
    names = ", ".join(f"`{name}`" for name in sorted(param.opts, key=len, reverse=True))
    if param.metavar:
        names += f" {param.metavar}"
    default = "" if param.default in (None, False, ()) or callable(param.default) else f"`{param.default}`"
    return names, default, str(param.help or "")


def _options_everywhere(root: Any, context: Any) -> str:  # as above
    group = root.get_command(context, "connectors")
    params = {param.name: param for param in group.commands["list"].params}
    rows = [_parameter_row(params[name]) for name in _EVERYWHERE]
    return _table(("Option", "Default", "What it does"), rows) + (
        "\nThey stand before the noun or behind the verb. Which worker: `--url`, else `--context`, else "
        "`KCONNECT_URL`, else\n`KCONNECT_CONTEXT`, else the current context, else `http://localhost:8083`. "
        "A named URL alone takes no user and\nno certificate from a context.\n"
    )


def _exit_codes() -> str:
    lines = (exits.__doc__ or "").splitlines()
    rows = [line for line in lines if line.startswith("|")]
    rest = [line for line in lines if line.startswith("`connect standalone`")]
    return "\n".join([*rows, "", *rest]) + "\n"


def _keys(table: ConfigDef, names: Iterable[str]) -> list[ConfigKey]:
    wanted = set(names)
    return [key for name, key in sorted(table.config_keys.items()) if name in wanted and not key.internal]


def _settings_table(keys: Sequence[ConfigKey]) -> str:
    rows = [
        (
            f"`{key.name}`",
            key.type.name.lower(),
            _default(key),
            key.importance.name.lower(),
            key.doc + (f" Valid: {key.validator}." if key.validator is not None and str(key.validator) else ""),
        )
        for key in keys
    ]
    return _table(("Setting", "Type", "Default", "Importance", "What it does"), rows)


def _default(key: ConfigKey) -> str:
    if not key.has_default:
        return "required"
    text = key.default_string
    return "" if text is None or text == "" else f"`{text}`"


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *([_cell(cell) for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(arguments: Sequence[str]) -> None:
    write_text(configuration_reference() if "--configuration" in arguments else cli_reference())


if __name__ == "__main__":
    main(sys.argv[1:])

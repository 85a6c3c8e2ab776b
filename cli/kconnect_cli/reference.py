"""Prints the reference in Markdown: docs/cli.md from the commands, two more from the settings' tables.

python -m kconnect_cli.reference > docs/cli.md
python -m kconnect_cli.reference --configuration > docs/configuration.md
python -m kconnect_cli.reference --connectors > docs/connectors.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

import typer
from typer.main import get_command

from kconnect.api.config_key import ConfigKey
from kconnect.api.configdef import ConfigDef
from kconnect_cli import exits
from kconnect_cli.app import app
from kconnect_cli.contexts.target import VARIABLES
from kconnect_cli.options.cluster import ClusterArguments
from kconnect_cli.screen.output import write_text

_EVERYWHERE = ("url", "context", "user", "ca_file", "cert_file", "key_file", "retry", "wait", "output", "verbose")
_CLUSTER = frozenset(field.name for field in fields(ClusterArguments))

_CLI_HEAD = """# Command reference

Generated from the commands by `make docs`; do not edit it. `connect COMMAND --help` shows the same.

Results go to stdout, everything else to stderr. JSON and YAML keep their shape; tables are for people and may change.
Secrets are masked as `[hidden]` in all output; where a masked value comes back (`connectors apply`, `config edit`) it
stands for the secret that is there.
"""

_CONFIGURATION_HEAD = """# Configuration reference

Generated from the tables that parse the settings, by `make docs`; do not edit it. Names, types and defaults are those
of Apache Kafka Connect 4.3; settings that begin with `kconnect.` are ours. Times are in milliseconds, sizes in bytes.
"""


_CONNECTORS_HEAD = """# Connectors that come with it

Generated from the connectors' tables, by `make docs`; do not edit it. `connect plugins show NAME` shows the same, with
the settings that every connector has (`name`, `tasks.max`, converters, transforms, `errors.*`), for which see
[configuration.md](configuration.md).
"""
_CONNECTORS = {
    "HttpJsonSource": "Polls a URL for JSON; each item of the answer becomes a record. "
    "`header.NAME=VALUE` sends a header. The last cursor is the offset: after a restart it asks for newer items.",
    "SqlSource": "Reads tables of a database, or a query; also `io.confluent.connect.jdbc.JdbcSourceConnector`, whose "
    "settings and offsets it has. Needs `pip install 'kconnect[sql]'` and the database's driver: "
    "[databases.md](databases.md).",
    "ObjectSource": "Reads the rows of files and objects: in a folder, or in any store that fsspec reaches, such as S3 "
    "(`pip install 'kconnect[objects]'`, for S3 `'kconnect[s3]'`, for a folder nothing). `object.options.NAME=VALUE` "
    "is handed to fsspec: endpoint, credentials. The offset is the row in its object.",
    "ObjectSink": "Writes records as files and objects, each record in exactly one. `object.options.NAME=VALUE` is "
    "handed to fsspec, as for ObjectSource.",
    "PythonSource": "Calls a function of yours, a generator for example; what it gives becomes records: "
    "[python-functions.md](python-functions.md).",
    "PythonSink": "Calls a function of yours with each record, with lists of them, or with Arrow tables: "
    "[python-functions.md](python-functions.md).",
    "SqlSink": "Writes records as rows of a table; also `io.confluent.connect.jdbc.JdbcSinkConnector`. Through "
    "SQLAlchemy (`pip install 'kconnect[sql]'`), or through any DB-API driver of Python alone: "
    "`connection.arg.NAME=VALUE` is handed to its `connect()`. With `insert.mode=upsert` a record that arrives twice "
    "is stored once.",
    "SingerSource": "Runs a Singer tap, of which there are hundreds, and produces its records: one topic a stream, the "
    "tap's state as offset: [stores.md](stores.md).",
    "TableSink": "Writes topics as tables of Parquet files, Delta Lake or Iceberg, each record exactly once: the table "
    "keeps the offsets ([spark.md](spark.md)). `table.catalog.NAME=VALUE` is handed to PyIceberg's catalog, "
    "`table.storage.NAME=VALUE` to the store (of fsspec for parquet, of deltalake for delta), "
    "`table.properties.NAME=VALUE` to a new table.",
    "SparkSink": "Writes topics in any format that Spark can write: one query of Spark, in the worker's driver "
    "([spark.md](spark.md)). `spark.options.NAME=VALUE` is handed to the format.",
    "SparkSource": "Reads any format that Spark can read into a topic: one query of Spark, in the worker's driver "
    "([spark.md](spark.md)). `spark.options.NAME=VALUE` is handed to the format.",
    "FileStreamSource": "Reads the lines of a file, as Java's; also `org.apache.kafka.connect.file."
    "FileStreamSourceConnector`.",
    "FileStreamSink": "Appends values to a file, as Java's; also "
    "`org.apache.kafka.connect.file.FileStreamSinkConnector`.",
    "VerifiableSource": "Counts, for tests of a cluster; also "
    "`org.apache.kafka.connect.tools.VerifiableSourceConnector`.",
    "VerifiableSink": "Records what it receives, for tests; also "
    "`org.apache.kafka.connect.tools.VerifiableSinkConnector`.",
}

_WHICH_WORKER = """
They may stand before the noun or after the verb. Options take precedence over the environment, the environment over a
context, and a context over the defaults; a context that `--context` names takes precedence over the environment. The
worker is that of `--url`, else
`--context`, else `KCONNECT_URL`, else `KCONNECT_CONTEXT`, else the current context, else `http://localhost:8083`. A URL
that is given alone takes no user and no certificate from a context. A password is used only for the user, and that of a
key only for the certificate, that it was given with, or for any if it was given with none. A missing one is asked for
on a terminal. No option takes a password: other users could read it in the list of processes.

Several URLs of one cluster may be given, separated by commas, and in `contexts add` as several arguments. When a worker
refuses the connection, the next one is asked; requests that may be repeated (GET, PUT) also go to the next
one when a worker breaks off, answers 503, or does not answer in time.

| Variable | What it gives |
| --- | --- |
| `KCONNECT_CONTEXT` | Name of the context, as `--context` |
{variables}\
| `KCONNECT_COMPLETE_TIMEOUT` | How long a Tab may wait for names of the cluster, as `2s`; else half a second |

Contexts are kept in `kconnect/contexts.toml` of the user's config folder (`$XDG_CONFIG_HOME`, else `~/.config`), which
only its owner may read; there is a warning when others may and it holds a password.
"""
_VARIABLES = {
    "url": "URL of the worker, as `--url`",
    "user": "User for basic auth, as `--user`",
    "password": "The user's password",
    "password_file": "File with the user's password",
    "ca": "CA certificates to trust, PEM, as `--ca`",
    "cert": "Client certificate, PEM, as `--cert`",
    "key": "Private key of the certificate, PEM, as `--key`; not needed when it is in the same file",
    "key_password": "Password of the key",
    "key_password_file": "File with the password of the key",
}

_CLUSTER_HEAD = """
`connect topics`, and with `--direct` also the ordinary commands, work on a cluster's internal topics. A worker's file
describes the whole cluster; single options override it.
"""
_CLUSTER_TITLE = "Options of a cluster"
_CLUSTER_LINK = f"Also the [{_CLUSTER_TITLE.lower()}](#{_CLUSTER_TITLE.lower().replace(' ', '-')}).\n"


def cli_reference() -> str:
    """docs/cli.md."""
    root: Any = get_command(app)  # typer's click types are private
    context = typer.Context(root, info_name="connect")
    parts = [_CLI_HEAD, "## Options of all commands\n", _options_everywhere(root, context)]
    parts += [f"## {_CLUSTER_TITLE}\n{_CLUSTER_HEAD}", _options_of_a_cluster(root, context)]
    for name in root.commands:
        command = root.get_command(context, name)
        parts += _command(command, f"connect {name}", 2, context)
    parts += ["## Exit codes\n", _exit_codes()]
    return _with_contents("\n".join(parts))


def configuration_reference() -> str:
    """docs/configuration.md."""
    from kconnect.runtime.config.connector_keys import CONNECTOR_CONFIG, DEAD_LETTER_KEYS, SINK_CONFIG, SOURCE_CONFIG
    from kconnect.runtime.config.label_keys import LABEL_CONFIG
    from kconnect.runtime.config.restart_keys import RESTART_CONFIG, RESTART_KEYS
    from kconnect.runtime.config.slot_keys import SLOT_CONFIG, SLOT_KEYS
    from kconnect.runtime.config.worker_config import (
        DISTRIBUTED_CONFIG,
        KCONNECT_CONFIG,
        STANDALONE_CONFIG,
        WITHOUT_EFFECT,
    )

    shared = STANDALONE_CONFIG.names() & DISTRIBUTED_CONFIG.names()
    connector = CONNECTOR_CONFIG.names()
    tables = (
        ("Worker", "Settings of standalone and of distributed workers.", _keys(STANDALONE_CONFIG, shared)),
        ("Standalone worker", "", _keys(STANDALONE_CONFIG, STANDALONE_CONFIG.names() - shared)),
        ("Distributed worker", "", _keys(DISTRIBUTED_CONFIG, DISTRIBUTED_CONFIG.names() - shared)),
        ("kconnect", "Our own settings of a worker.", _keys(KCONNECT_CONFIG, KCONNECT_CONFIG.names())),
        ("Connector", "Settings of every connector.", _keys(CONNECTOR_CONFIG, connector)),
        ("Source connector", "", _keys(SOURCE_CONFIG, SOURCE_CONFIG.names() - connector)),
        ("Automatic restarts", "Settings of ours that every connector may have.", _keys(RESTART_CONFIG, RESTART_KEYS)),
        ("Slots of its own", "Settings of ours that every connector may have.", _keys(SLOT_CONFIG, SLOT_KEYS)),
        ("Labels", "A setting of ours that every connector may have.", _keys(LABEL_CONFIG, LABEL_CONFIG.names())),
        ("Dead letters of a source", "Settings that Java has for sinks alone.", _keys(SINK_CONFIG, DEAD_LETTER_KEYS)),
        ("Sink connector", "", _keys(SINK_CONFIG, SINK_CONFIG.names() - connector)),
    )
    parts = [_CONFIGURATION_HEAD]
    for title, lead, keys in tables:
        parts += [f"## {title}\n", *([f"{lead}\n"] if lead else []), _settings_table(keys)]
    parts += ["## Accepted without effect\n", "These settings of the Java worker have no effect here:\n"]
    parts.append("".join(f"- `{name}`\n" for name in sorted(WITHOUT_EFFECT)))
    return _with_contents("\n".join(parts))


def connectors_reference() -> str:
    """docs/connectors.md."""
    from kconnect.runtime.plugins import PluginRegistry

    registry = PluginRegistry.load(tells_skipped=False)
    parts = [_CONNECTORS_HEAD]
    for name, lead in _CONNECTORS.items():
        table = registry.connector_class(name)().config()
        parts += [f"## {name}\n", f"{lead}\n", _settings_table(_keys(table, table.names()))]
    return _with_contents("\n".join(parts))


def _with_contents(page: str) -> str:
    """Puts links to the sections before the first; a section of commands has those of its commands behind it."""
    lines = []
    for level, title in re.findall(r"^(##|###) (.+)$", page, re.MULTILINE):
        link = f"[{title.rpartition(' ')[2] if level == '###' else title}](#{_slug(title)})"
        if level == "##":
            lines.append(f"- {link}")
        else:
            lines[-1] += f"{',' if ': ' in lines[-1] else ':'} {link}"
    head, mark, rest = page.partition("\n## ")
    return f"{head}\n{chr(10).join(lines)}\n{mark}{rest}"


def _slug(title: str) -> str:
    """The anchor that a repository's pages have for a title."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


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
    shared = _CLUSTER if _has_cluster_options(command) else frozenset()
    params = [param for param in command.params if not _is_everywhere(param) and param.name not in shared]
    rows = [row for row in map(_parameter_row, params) if row[0] != "`--help`"]
    if rows:
        parts.append(_table(("Argument or option", "Default", "What it does"), rows))
    if shared:
        parts.append(_CLUSTER_LINK)
    return parts


def _has_cluster_options(command: Any) -> bool:  # as above
    """`contexts add` has a --worker of its own."""
    return {param.name for param in command.params} >= _CLUSTER


def _options_of_a_cluster(root: Any, context: Any) -> str:  # as above
    """Gives the options as the first command that has them has them: with_cluster gives all of them the same."""
    found = next(command for command in _commands(root, context) if _has_cluster_options(command))
    rows = [_parameter_row(param) for param in found.params if param.name in _CLUSTER]
    return _table(("Option", "Default", "What it does"), rows)


def _commands(command: Any, context: Any) -> Iterator[Any]:  # as above
    if not hasattr(command, "commands"):
        yield command
        return
    for name in command.commands:
        yield from _commands(command.get_command(context, name), context)


def _usage(command: Any) -> list[str]:  # as above
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = ["[OPTIONS]"] if any(param.param_type_name == "option" for param in command.params) else []
    return options + [_metavar(param) for param in arguments]


def _metavar(param: Any) -> str:  # as above
    text = str(param.metavar or param.name.upper())
    if not param.required and not text.startswith("["):
        text = f"[{text}]"
    return text + ("..." if param.nargs == -1 and not text.endswith("...]") else "")


def _parameter_row(param: Any) -> tuple[str, str, str]:  # as above
    if param.param_type_name == "argument":
        return f"`{_metavar(param)}`", "", str(param.help or "")
    flags = [*sorted(param.opts, key=len, reverse=True), *param.secondary_opts]
    names = ", ".join(f"`{name}`" for name in flags)
    if param.metavar:
        names += f" {param.metavar}"
    default = "" if param.default in (None, False, ()) or callable(param.default) else f"`{param.default}`"
    if param.secondary_opts:
        default = f"`{(param.opts if param.default else param.secondary_opts)[0]}`"
    return names, default, str(param.help or "")


def _options_everywhere(root: Any, context: Any) -> str:  # as above
    params = {param.name: param for param in root.params}
    rows = [_parameter_row(params[name]) for name in _EVERYWHERE]
    return _table(("Option", "Default", "What it does"), rows) + _WHICH_WORKER.format(
        variables="".join(f"| `{variable}` | {_VARIABLES[key]} |\n" for key, variable in VARIABLES.items())
    )


def _is_everywhere(param: Any) -> bool:  # as above
    """`contexts add` has options of its own under some of these names; they are shown where they are not hidden."""
    return param.name in ("url", "context", "retry", "output", "verbose") or bool(getattr(param, "hidden", False))


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
    made = {"--configuration": configuration_reference, "--connectors": connectors_reference}
    write_text(next((made[option] for option in arguments if option in made), cli_reference)())


if __name__ == "__main__":
    main(sys.argv[1:])

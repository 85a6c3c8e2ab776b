"""`connect plugins install` and `path`: Java plugins in folders of plugin.path.

install puts one there with its dependencies; path is connect-plugin-path.sh, for the jars that are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kconnect.logs.wording import pluralize
from kconnect_cli.exits import UsageProblem
from kconnect_cli.options.command_group import command_group
from kconnect_cli.screen.output import write_text
from kconnect_cli.session import Verbose, session_of


def install(
    ctx: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="PLUGIN",
            help="group:artifact:version[:classifier:packaging] of Maven, a .zip, .tar.gz or .jar, or a folder.",
            show_default=False,
        ),
    ],
    to: Annotated[
        Path,
        typer.Option("--to", metavar="DIR", help="The worker's plugin.path, or a folder of it.", show_default=False),
    ],
    as_: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="Name of its folder, so that several versions live side by side."),
    ] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="FOLDER", help="Installed plugin to add it to, such as a driver to JDBC."),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Install a Java plugin with its dependencies; from Maven it leaves a lock with the checksum of each jar.

    The version may be LATEST, RELEASE or a range: the lock has the one that was found.
    """
    from kconnect.java.plugins.install import install as put

    session = session_of(ctx)
    session.choose(None, None, verbose)
    if as_ is not None and into is not None:
        raise UsageProblem("--as and --into exclude each other.", hint="--into takes the name of an installed plugin.")
    done = put(source, to, name=as_, into=into)
    write_text(f"{done.folder}\n")
    for note in done.notes:
        session.say(f"{note}.")
    jars = pluralize(len(done.jars), "jar")
    if into is not None:
        session.say(f"{jars} added: {', '.join(done.jars)}. Workers that run have to be restarted.")
    else:
        session.say(f"{jars}. Workers whose plugin.path is {to} find it when they start.")


app = command_group("List Java's plugins in folders, with and without manifests; write the manifests they lack.")

_Locations = Annotated[
    list[Path] | None, typer.Option("--plugin-location", metavar="PATH", help="A single plugin: a jar or a folder.")
]
_Paths = Annotated[
    list[str] | None,
    typer.Option("--plugin-path", metavar="PATHS", help="Folders with plugins, comma-separated, as in plugin.path."),
]
_Configs = Annotated[
    list[Path] | None,
    typer.Option("--worker-config", metavar="FILE", help="A worker's properties, for its plugin.path."),
]


@app.command("list")
def list_(
    ctx: typer.Context,
    plugin_location: _Locations = None,
    plugin_path: _Paths = None,
    worker_config: _Configs = None,
    verbose: Verbose = False,
) -> None:
    """List the plugins in folders: version, type, whether Java can load them, whether they have a manifest."""
    from kconnect.java.plugins import JavaSettings
    from kconnect.java.plugins.plugin_path import COLUMNS, rows_of, summary

    session_of(ctx).choose(None, None, verbose)
    rows = rows_of(_places(plugin_location, plugin_path, worker_config), JavaSettings())
    lines = ["\t".join(COLUMNS), *("\t".join(row.cells()) for row in rows), "", *summary(rows)]
    write_text("".join(f"{line}\n" for line in lines))


@app.command("sync-manifests")
def sync_manifests(
    ctx: typer.Context,
    plugin_location: _Locations = None,
    plugin_path: _Paths = None,
    worker_config: _Configs = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be written.")] = False,
    keep_not_found: Annotated[
        bool, typer.Option("--keep-not-found", help="Keep manifests of plugins that cannot be loaded.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Write the manifests that plugins lack for plugin.discovery=service_load, and remove those of missing plugins."""
    from kconnect.java.plugins import JavaSettings
    from kconnect.java.plugins.manifests import Sync, carry_out, syncs
    from kconnect.java.plugins.plugin_path import rows_of

    def tell(change: Sync, lead: str = "") -> None:
        write_text("".join(f"{line}\n" for line in change.lines(lead)))

    session_of(ctx).choose(None, None, verbose)
    places = _places(plugin_location, plugin_path, worker_config)
    if dry_run:
        write_text("Dry run started: No changes will be committed.\n")
    write_text("Scanning for plugins...\n")
    changes = syncs(rows_of(places, JavaSettings()), keep_not_found=keep_not_found)
    for change in changes:
        tell(change, "Dry Run ")
    if not changes:
        write_text("No changes required.\n")
    elif dry_run:
        write_text("Dry run passed: All above changes can be committed to disk if re-run with dry run disabled.\n")
    else:
        write_text("Writing changes to plugins...\n")
        carry_out(changes, tell)
        write_text("All loadable plugins have accurate ServiceLoader manifests.\n")


def _places(locations: list[Path] | None, paths: list[str] | None, configs: list[Path] | None) -> list[Path]:
    """Errors: UsageProblem when none is given; NotFoundError for one that does not exist."""
    from kconnect.java.plugins.plugin_path import locations_of

    if not (locations or paths or configs):
        raise UsageProblem(
            "Must specify at least one --plugin-location, --plugin-path, or --worker-config",
            hint="Such as --worker-config worker.properties.",
        )
    return locations_of(configs or (), paths or (), locations or ())

"""`connect connectors`: the group of its commands."""

from kconnect_cli.commands.connectors.lifecycle import app

__all__ = ["app"]

"""`connect offsets`: the group of its commands."""

from kconnect_cli.commands.offsets.show_and_change import app

__all__ = ["app"]

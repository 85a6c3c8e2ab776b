"""`connect config`: the group of its commands."""

from kconnect_cli.commands.config.settings import app
from kconnect_cli.commands.config.versions import mount

__all__ = ["app"]

mount(app)

"""JSON files that commands read and write; - is stdin or stdout."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from kconnect.errors import ConfigError
from kconnect.files.durable_file import replace_file
from kconnect_cli.screen.output import write_text


def source_of(name: str) -> str:
    """How messages name a file that is read."""
    return "stdin" if name == "-" else name


def read_json(name: str) -> object:
    """What a file holds. Errors: ConfigError that names the file and the place; OSError."""
    try:
        return json.loads(sys.stdin.read() if name == "-" else Path(name).read_text("utf-8-sig"))
    except json.JSONDecodeError as err:
        raise ConfigError(f"{source_of(name)} is not JSON: {err.msg} at line {err.lineno}, column {err.colno}") from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{source_of(name)} is not UTF-8 text") from err
    except RecursionError:
        raise ConfigError(f"{source_of(name)} is nested too deeply") from None


def write_whole_file(name: str, text: str, *, is_secret: bool = False) -> None:
    """Write a file as a whole: the one that was there stays until the new one is complete. Errors: ConnectError.

    With `is_secret` only its owner may read it.
    """
    if name == "-":
        write_text(text)
        return
    replace_file(Path(name), text, is_secret=is_secret)

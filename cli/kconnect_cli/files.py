"""Files that commands are given; `-` is stdin."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kconnect.config.dropins import ConnectorFile, load_connector_file, load_connector_files, load_folder
from kconnect.errors import BadRequestError, ConfigError, ConnectError
from kconnect.model import offsets_from_json

if TYPE_CHECKING:
    from kconnect.model import ConnectorOffset

__all__ = ["read_connector_file", "read_connector_files", "read_offsets"]


def read_connector_file(name: str) -> ConnectorFile:
    """The connector in a .properties, .json or .toml file; stdin may hold JSON or properties."""
    return load_connector_file(Path("/dev/stdin" if name == "-" else name))


def read_connector_files(name: str) -> list[ConnectorFile]:
    """The connectors of a file, which may hold a JSON array of them, or of all connector files of a folder."""
    path = Path("/dev/stdin" if name == "-" else name)
    return load_folder(path) if path.is_dir() else load_connector_files(path)


def read_offsets(name: str) -> list[ConnectorOffset]:
    """Offsets as `connect offsets show -o json` prints them. Errors: ConnectError that names the file and the place."""
    where = "stdin" if name == "-" else name
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        return offsets_from_json(json.loads(text))
    except json.JSONDecodeError as err:
        raise ConfigError(f"{where} is not JSON: {err.msg} at line {err.lineno}, column {err.colno}") from err
    except UnicodeDecodeError as err:
        raise ConfigError(f"{where} is not UTF-8 text") from err
    except BadRequestError as err:
        raise ConnectError(f"{where}: {err}", hint="`connect offsets show NAME -o json` prints what is taken.") from err

"""Connector files that commands are given; `-` is stdin."""

from __future__ import annotations

from pathlib import Path

from kconnect.runtime.config.dropins import ConnectorFile, load_connector_file, load_connector_files, load_folder
from kconnect_cli.files.json_files import source_of


def read_connector_file(name: str) -> ConnectorFile:
    """The connector in a .properties, .json, .toml or .yaml file; stdin may hold each of them."""
    return load_connector_file(_path_of(name), source_of(name))


def read_connector_files(name: str) -> list[ConnectorFile]:
    """The connectors of a file, which may hold a JSON array of them, or of all connector files of a folder."""
    path = _path_of(name)
    return load_folder(path) if path.is_dir() else load_connector_files(path, source_of(name))


def _path_of(name: str) -> Path:
    return Path("/dev/stdin" if name == "-" else name)

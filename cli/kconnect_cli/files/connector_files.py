"""Connector files that commands are given; `-` is stdin."""

from __future__ import annotations

from pathlib import Path

from kconnect.runtime.config.dropins import ConnectorFile, load_connector_file, load_connector_files, load_folder


def read_connector_file(name: str) -> ConnectorFile:
    """The connector in a .properties, .json, .toml or .yaml file; stdin may hold each of them."""
    return load_connector_file(Path("/dev/stdin" if name == "-" else name))


def read_connector_files(name: str) -> list[ConnectorFile]:
    """The connectors of a file, which may hold a JSON array of them, or of all connector files of a folder."""
    path = Path("/dev/stdin" if name == "-" else name)
    return load_folder(path) if path.is_dir() else load_connector_files(path)

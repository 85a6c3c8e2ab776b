"""connect plugins path beside Kafka's connect-plugin-path.sh, on the same folders."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

from kit.cli import cli_run
from kit.java_finding import found_folder, kafka_tool


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plugins in a folder of jars, in a jar and in a tree of class files; two manifests name what is not there."""
    path = tmp_path_factory.mktemp("plugin-path")
    whole = found_folder(path / "whole", "1.0.0")
    with zipfile.ZipFile(whole / "stale.jar", "w") as jar:
        jar.writestr("META-INF/services/org.apache.kafka.connect.sink.SinkConnector", "gone.Sink\nfound.Found$Stamp\n")
        jar.writestr("kept.txt", "kept")
    found_folder(path / "bare", "2.0.0", only=("Stamp", "Always"), manifest=False)
    (jar_file,) = (path / "bare").glob("*.jar")
    with zipfile.ZipFile(jar_file) as archive:
        archive.extractall(path / "tree")
    jar_file.rename(path / "single.jar")
    (path / "bare").rmdir()
    return path


def table(text: str) -> tuple[list[str], set[str], list[str]]:
    """Head, rows and summary of a list."""
    rows, _, summary = text.partition("\n\n")
    head, *found = rows.splitlines()
    assert len(set(found)) == len(found)
    return head.split("\t"), set(found), summary.splitlines()


def contents(path: Path) -> dict[str, set[str] | bytes]:
    """Every file, those of jars too; of manifests the lines, whose order in Java's is that of a hash table."""
    found: dict[str, set[str] | bytes] = {}
    for file in sorted(path.rglob("*")):
        if file.suffix == ".jar":
            with zipfile.ZipFile(file) as archive:
                members = {f"{file.relative_to(path)}!{name}": archive.read(name) for name in archive.namelist()}
        else:
            members = {str(file.relative_to(path)): file.read_bytes()} if file.is_file() else {}
        for name, data in members.items():
            found[name] = set(data.decode().splitlines()) if "META-INF/services/o" in name else data
    return {name: data for name, data in found.items() if not name.endswith("/")}


def synced(text: str) -> list[str]:
    """What a sync says, with the order within each jar, and of jars, taken out."""
    return sorted(text.splitlines())


def test_list_and_sync_are_those_of_kafka(folders: Path, tmp_path: Path) -> None:
    ours = cli_run("plugins", "path", "list", "--plugin-path", str(folders), home=tmp_path, expect=0)
    assert table(ours.stdout) == table(kafka_tool("ConnectPluginPath", "list", "--plugin-path", str(folders)))

    copies = []
    for name in ("a", "b"):
        shutil.copytree(folders, tmp_path / name / "path")
        copies.append(tmp_path / name / "path")
    texts = []
    for copy, more in ((copies[0], "--dry-run"), (copies[0], "")):
        options = ["--plugin-path", str(copy), *([more] if more else [])]
        texts.append(cli_run("plugins", "path", "sync-manifests", *options, home=tmp_path, expect=0).stdout)
    java = kafka_tool("ConnectPluginPath", "sync-manifests", "--plugin-path", str(copies[1]))

    assert synced(texts[1].replace(str(copies[0]), str(copies[1]))) == synced(java)
    assert contents(copies[0]) == contents(copies[1])
    again = cli_run("plugins", "path", "sync-manifests", "--plugin-path", str(copies[1]), home=tmp_path, expect=0)
    assert again.stdout.splitlines()[-1] == "No changes required."
    dry, wet = texts
    assert dry.splitlines()[0] == "Dry run started: No changes will be committed."
    assert [line for line in dry.splitlines() if line.startswith("Dry Run Sync")] == [
        line for line in wet.splitlines() if line.startswith("Dry Run Sync")
    ]

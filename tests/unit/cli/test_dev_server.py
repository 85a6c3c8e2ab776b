"""A development server in the foreground: it never outlives the command, and its end is explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.errors import EnvironmentProblemError
from kconnect.java.devbroker.server_folder import ServerFolder
from kconnect_cli.processes.dev_server import run_until_stopped
from kconnect_cli.session import CliSession


class MemoryServer:
    """Ends with a code at its third wait, or has the wait interrupted."""

    def __init__(self, folder: ServerFolder, end: int | BaseException) -> None:
        self.folder = folder
        self.is_stopped = False
        self._waits = iter([None, None, end])

    def wait(self, timeout_s: float) -> int | None:
        code = next(self._waits)
        if isinstance(code, BaseException):
            raise code
        return code

    def stop(self) -> bool:
        self.is_stopped = True
        return True

    def detach(self) -> None:
        self._waits = iter([])


@pytest.fixture
def folder(tmp_path: Path) -> ServerFolder:
    found = ServerFolder(tmp_path, "registry", "schema registry")
    found.log.write_text("ERROR the disk is full\n")
    return found


@pytest.mark.parametrize("code", [0, 143])
def test_a_server_that_another_command_stops_is_reported(
    code: int, folder: ServerFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    server = MemoryServer(folder, code)
    run_until_stopped(CliSession(), server, None, detach=False)
    assert server.is_stopped
    said = capsys.readouterr().err.splitlines()
    assert said == ["Ctrl-C stops it.", "The schema registry was stopped by another command."]


def test_a_server_that_ends_by_itself_is_an_error_with_the_end_of_its_log(folder: ServerFolder) -> None:
    server = MemoryServer(folder, 1)
    with pytest.raises(
        EnvironmentProblemError, match=r"The schema registry exited unexpectedly \(exit code 1\)"
    ) as error:
        run_until_stopped(CliSession(), server, None, detach=False)
    assert server.is_stopped
    assert "the disk is full" in str(error.value)
    assert error.value.hint == f"The whole log is in {folder.log}."


def test_a_server_stops_with_the_command_that_is_interrupted(folder: ServerFolder) -> None:
    server = MemoryServer(folder, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run_until_stopped(CliSession(), server, None, detach=False)
    assert server.is_stopped


def test_a_server_that_is_left_running_is_reported_with_what_stops_it(
    folder: ServerFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    server = MemoryServer(folder, 0)
    run_until_stopped(CliSession(), server, folder.path, detach=True)
    assert not server.is_stopped
    said = capsys.readouterr().err
    assert said == f"It keeps running; stop it with: connect registry stop --data {folder.path}\n"

"""A real standby of a PostgreSQL server: it follows by streaming, and can only be read from."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from kit.postgres import psql_folder, socket_of
from kit.server_process import ServerProcess

__all__ = ["standby"]

_COPY_S: Final = 120.0


@contextmanager
def standby(uri: str) -> Iterator[str]:
    """Copy the server of a connection string and follow it; gives where the standby listens, as `socket_of` does."""
    owner = os.stat(socket_of(uri)).st_uid
    programs = psql_folder()
    with tempfile.TemporaryDirectory(prefix="kconnect-test-standby-", dir="/tmp") as made:
        folder = Path(made)
        os.chown(folder, owner, -1)
        folder.chmod(0o755)
        copy = [str(programs / "pg_basebackup"), "-D", str(folder / "data"), "-R", "-X", "stream", "-c", "fast"]
        copy += ["-U", "postgres", "-h", str(Path(socket_of(uri)).parent)]
        subprocess.run(copy, check=True, capture_output=True, timeout=_COPY_S, user=owner)
        address = f"host={folder} user=postgres dbname=postgres"

        def answers() -> bool:
            try:
                with psycopg.connect(address) as connection:
                    row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
            except psycopg.OperationalError as error:
                raise AssertionError(str(error)) from error
            return bool(row and row[0])

        process = ServerProcess("The standby", folder / "log", answers)
        own = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={folder}", "-c", "port=5432"]
        process.start([str(programs / "postgres"), "-D", str(folder / "data"), *own], user=owner)
        try:
            yield str(folder / ".s.PGSQL.5432")
        finally:
            process.stop()

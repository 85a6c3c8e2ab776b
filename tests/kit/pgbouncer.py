"""A real PgBouncer before a PostgreSQL server, in transaction pooling, of Debian's package pgbouncer."""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from kit.ports import free_port
from kit.postgres import socket_of
from kit.server_process import ServerProcess

__all__ = ["PgBouncer", "pgbouncer"]


class PgBouncer:
    """One pooler: `start()`, `stop()`, `kill()`; the port stays. Threads: one."""

    def __init__(self, folder: Path, uri: str, sessions: int) -> None:
        self._folder = folder
        self._user = pwd.getpwuid(os.stat(socket_of(uri)).st_uid).pw_name  # who may open the server's socket
        self._process = ServerProcess("PgBouncer", folder / "pgbouncer.log", self._answers)
        self.port = free_port()
        self._write(socket_of(uri).rpartition("/")[0], sessions)

    @property
    def url(self) -> str:
        """Of JDBC, for the server's database `postgres`."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/postgres?user=postgres"

    @property
    def address(self) -> str:
        """The same for PostgreSQL's own drivers."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def start(self) -> PgBouncer:
        """Start, and wait until it answers."""
        program = shutil.which("pgbouncer") or "/usr/sbin/pgbouncer"
        as_user = ["-u", self._user] if os.getuid() == 0 else []  # it refuses to be root
        self._process.start([program, *as_user, str(self._folder / "pgbouncer.ini")])
        return self

    def stop(self) -> None:
        self._process.stop()

    def kill(self) -> None:
        self._process.kill()

    def _write(self, sockets: str, sessions: int) -> None:
        """As people have it: clients get any free session, and what a client does not say in a startup is dropped."""
        users = self._folder / "users.txt"
        users.write_text('"postgres" ""\n')
        users.chmod(0o644)
        config = self._folder / "pgbouncer.ini"
        config.write_text(
            f"[databases]\npostgres = host={sockets} port=5432 user=postgres\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\nauth_type = trust\n"
            f"auth_file = {users}\npool_mode = transaction\ndefault_pool_size = {sessions}\nserver_reset_query =\n"
            "ignore_startup_parameters = extra_float_digits,options\n"
        )
        config.chmod(0o644)

    def _answers(self) -> bool:
        try:
            with psycopg.connect(self.address, prepare_threshold=None) as connection:
                connection.execute("SELECT 1")
        except psycopg.OperationalError as error:
            raise AssertionError(str(error)) from error
        return True


@contextmanager
def pgbouncer(folder: Path, uri: str, sessions: int = 2) -> Iterator[PgBouncer]:
    """A running pooler that shares so many sessions of the server of a connection string; stops it at the end."""
    for place in (folder, *folder.parents):  # another user reads the file
        if place.stat().st_uid == os.getuid() and not place.stat().st_mode & 0o005:
            place.chmod(place.stat().st_mode | 0o055)
    pooler = PgBouncer(folder, uri, sessions).start()
    try:
        yield pooler
    finally:
        pooler.stop()

"""`connect ui` as a person starts it: a process, and the address that it prints."""

from __future__ import annotations

import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path

from kit.cli import cli_env, connect_command
from kit.pace import ended

_SIGTERM_S = 10


@contextmanager
def connect_ui(home: Path, *arguments: str, env: Mapping[str, str] = {}) -> Iterator[str]:
    """Gives the address with its token in it. Errors: AssertionError with what it said instead, and for a bad end."""
    home.mkdir(exist_ok=True)
    command = [*connect_command(), "ui", *arguments, "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=cli_env(home, env)) as running:
        assert running.stderr is not None
        try:
            said = running.stderr.readline()
            found = re.search(r"http://\S+/ui\?token=\S+", said)
            assert found is not None, said + running.stderr.read()
            yield found[0]
        finally:
            running.terminate()
            code = ended(running, _SIGTERM_S)
    assert code == 143


@contextmanager
def connect_ui_pages(home: Path, *arguments: str) -> Iterator[Callable[[str], str]]:
    """Gives what reads one of its pages, also one that reports an error."""
    with connect_ui(home, *arguments) as address:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        opener.open(address, timeout=60).close()

        def page(path: str) -> str:
            try:
                with opener.open(address.partition("/ui")[0] + path, timeout=60) as answer:
                    return str(answer.read(), "utf-8")
            except urllib.error.HTTPError as err:
                with err:
                    return str(err.read(), "utf-8")

        yield page

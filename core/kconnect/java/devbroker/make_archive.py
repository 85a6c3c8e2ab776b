"""A process that creates the class archive of the dev broker: runs a broker, which writes its loaded classes on exit.

`python -m kconnect.java.devbroker.make_archive [--background] [FOLDER]`: FOLDER: the cache, by default the user's.
Kafka's jars are fetched first if they are missing.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kconnect.errors import ConnectError
from kconnect.files.folders import cache_folder
from kconnect.java.archives import ClassArchive, arguments, recording, run_maker
from kconnect.java.devbroker.dev_broker import DevBroker, free_port

# A broker that has just started has done little; it writes for 2 s, and ten times that on a machine under load.
_STOP_TIMEOUT_S = 40.0


def main(given: Sequence[str]) -> int:
    """Create the archive, unless it exists or another process creates it; returns the exit code."""
    background, cache = arguments(given, cache_folder())
    folder = Path(tempfile.mkdtemp(prefix="kconnect-broker-archive-"))
    try:
        return run_maker(BrokerMaking(folder, cache), background=background)
    except ConnectError as error:
        sys.stderr.write(f"Kafka's class archive was not made: {error}\n")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class BrokerMaking:
    """The broker's part of it; implements Making."""

    title = "Kafka's"

    def __init__(self, folder: Path, cache: Path) -> None:
        """Errors: EnvironmentProblemError (no Java), UnreachableError (Kafka cannot be fetched)."""
        archive = DevBroker(data_dir=folder).find_archive(cache)
        assert archive is not None, "a broker with no options of its own has one"
        self.archive: ClassArchive = archive
        self._folder = folder
        self._broker = DevBroker(free_port(), folder / "broker", jvm_options=recording(archive.unfinished))

    def make(self) -> None:
        try:
            self._broker.start()
            self._broker.stop(_STOP_TIMEOUT_S)
        finally:
            self._broker.kill()

    def abort(self) -> None:
        self._broker.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

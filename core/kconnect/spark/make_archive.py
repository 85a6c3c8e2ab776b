"""A process that makes the class archive of Spark's JVM: runs Spark once as a worker does, and has the JVM write it.

`python -m kconnect.spark.make_archive [--background] [FOLDER]`: FOLDER is the cache, the user's own by default.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from kconnect.errors import ConnectError
from kconnect.files.folders import cache_folder
from kconnect.java.archives import ClassArchive, arguments, run_maker
from kconnect.spark.application import SparkApplication
from kconnect.spark.settings import SparkSettings

# The JVM writes the archive when it ends; the maker's own limit is shorter
_END_S: Final = 600.0


def main(given: Sequence[str]) -> int:
    """Make the archive, unless there is one or another process makes it; the exit code."""
    background, cache = arguments(given, cache_folder())
    app = SparkApplication(SparkSettings(slots=1, cache=cache), records_classes=True)
    try:
        making = SparkMaking(app)
    except ConnectError as error:
        sys.stderr.write(f"Spark's class archive was not made: {error}\n")
        return 1
    return run_maker(making, background=background)


class SparkMaking:
    """Spark's part of it; implements Making."""

    title = "Spark's"

    def __init__(self, app: SparkApplication) -> None:
        self._app = app
        self.archive: ClassArchive = app.archive

    def make(self) -> None:
        try:
            self._app.start()
            self._app.run_job()
        finally:
            self._app.stop(_END_S)

    def abort(self) -> None:
        self._app.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

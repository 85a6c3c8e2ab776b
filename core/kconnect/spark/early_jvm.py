"""Spark's JVM launched before the code of a worker is loaded, which takes as long: both at once on two cores."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kconnect.errors import ConnectError
from kconnect.spark.application import SparkApplication
from kconnect.spark.settings import SparkSettings

if TYPE_CHECKING:
    from kconnect.runtime.herder.interface import Launcher

log = logging.getLogger(__name__)

# A JVM that nobody needs is killed: this is for its end
_END_S = 2.0


@contextmanager
def jvm_launched_early(
    props: Mapping[str, str], parse: Callable[[Mapping[str, str]], object]
) -> Iterator[Callable[[Mapping[str, str]], Launcher]]:
    """What makes the launcher of a worker with these properties, on a JVM that is launched now.

    Properties with references to config providers may change until then: they get a JVM when they are known. Properties
    that `parse` refuses get none: the worker says what is wrong with them.
    """
    app = None if any("${" in text for text in props.values()) else _launched(props, parse)

    def launcher(given: Mapping[str, str]) -> Launcher:
        from kconnect.spark.worker_launcher import WorkerLauncher

        settings = SparkSettings.parse(given)
        if app is not None and app.takes(settings):
            return WorkerLauncher(settings, app)
        _end(app)
        return WorkerLauncher(settings)

    try:
        yield launcher
    finally:
        _end(app)  # of a worker that stopped, or never came as far as its launcher


def _launched(props: Mapping[str, str], parse: Callable[[Mapping[str, str]], object]) -> SparkApplication | None:
    try:
        parse(props)
        app = SparkApplication(SparkSettings.parse(props))
        app.launch()
    except (ConnectError, OSError) as error:
        log.debug("Spark's JVM is not launched early: %s", error)
        return None
    return app


def _end(app: SparkApplication | None) -> None:
    if app is not None:
        app.kill()
        app.stop(_END_S)

"""Interceptors of a task's producer or consumer: made from the settings of the client, called in order.

Without any a client is used directly, so they cost nothing then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kconnect.api import ConsumerInterceptor, ProducerInterceptor
from kconnect.errors import ConfigError
from kconnect.logs.repeats import RepeatedMessages
from kconnect.runtime.config.client_config import INTERCEPTORS, InterceptorSettings
from kconnect.runtime.pipeline.plugin_call import plugin_call
from kconnect.runtime.pipeline.plugin_monitor import PluginMonitor

if TYPE_CHECKING:
    from kconnect.runtime.plugins import PluginRegistry

log = logging.getLogger(__name__)

I = TypeVar("I", ProducerInterceptor, ConsumerInterceptor)  # noqa: E741  # the kind of interceptor
V = TypeVar("V")


class Interceptors(Generic[I]):
    """The interceptors of one client, in order. What one raises is logged and otherwise ignored.

    Threads: those of the calls. Source: ProducerInterceptors, ConsumerInterceptors (Kafka 4.3).
    """

    def __init__(self, chain: Sequence[I], in_stage: Callable[[str], AbstractContextManager[None]]) -> None:
        self._chain: Sequence[I] = chain
        self._in_stage = in_stage
        self._repeats = RepeatedMessages(log)

    def __len__(self) -> int:
        return len(self._chain)

    def passed(self, method: str, value: V, copied: Callable[[V], V], checked: Callable[[Any], V]) -> V:
        """The value after each interceptor's `method`, which gets a copy of it; `checked` refuses a wrong result."""
        for interceptor in self._chain:
            try:
                value = checked(getattr(interceptor, method)(copied(value)))
            except Exception as error:  # the plugin's; Java logs it and goes on
                self._log(interceptor, method, error, "what it was given goes on unchanged")
        return value

    def tell(self, method: str, *args: object) -> None:
        """Call `method` of each."""
        for interceptor in self._chain:
            try:
                getattr(interceptor, method)(*args)
            except Exception as error:  # the plugin's; Java logs it and goes on
                self._log(interceptor, method, error, "the task continues")

    def _log(self, interceptor: I, method: str, error: Exception, outcome: str) -> None:
        """At growing intervals: it may fail for every record."""
        call = f"{type(interceptor).__name__}.{method}()"
        if self._repeats.is_due(f"{call}: {error!r}"):
            with self._in_stage("interceptors"):
                log.error("%s failed; %s", call, outcome, exc_info=error)


def make_interceptors(
    kind: type[I],
    settings: InterceptorSettings,
    plugins: PluginRegistry,
    in_stage: Callable[[str], AbstractContextManager[None]],
    monitor: PluginMonitor,
) -> Interceptors[I]:
    """The configured interceptors of a client. One that is no Python class is left out with a warning, as a Java class
    cannot run here.

    Errors: ConfigError for a class of another kind; what its constructor or configure() raises.
    """
    chain: list[I] = []
    for name in settings.names:
        try:
            found = plugins.python_class(name, kind)
        except ConfigError as error:
            raise ConfigError(f"{settings.key}: {error}", hint=error.hint) from error
        if found is None:
            log.warning(
                "%s: %s has no effect: it is not a Python class that can be imported, and a Java class cannot run here",
                settings.key,
                name,
            )
            continue
        with plugin_call(found, "__init__"):
            chain.append(found())
        with plugin_call(found, "configure"):
            chain[-1].configure(settings.configs)
        monitor.attach_to_client(chain[-1], settings.configs["client.id"], INTERCEPTORS)
    return Interceptors(chain, in_stage)

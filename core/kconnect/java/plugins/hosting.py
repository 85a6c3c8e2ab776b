"""Hosted: what all classes of ours share that stand for a Java class."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from kconnect.errors import EnvironmentProblemError
from kconnect.java.plugins.connection import Answer, JavaConnection
from kconnect.java.plugins.host import HostProcess
from kconnect.java.plugins.jvm import Event
from kconnect.logs.log_context import current_place

T = TypeVar("T")


class Hosted:
    """A class of ours that stands for a Java class; `java_class` makes them."""

    java_class: ClassVar[str] = ""
    folder: ClassVar[str | None] = None
    """The plugin's folder or jar; None for a class of Kafka's own jars."""
    host: ClassVar[HostProcess]

    @classmethod
    def connect(
        cls,
        role: str,
        *,
        answer: Answer | None = None,
        event: Event | None = None,
        thread: str | None = None,
        key: str | None = None,
    ) -> JavaConnection:
        """A connection on which Java has made an object of the class, in a role: connector, source, sink, stage,
        worker.

        `key` names one of the worker's; `worker_again` is a further connection to it.
        """
        more: dict[str, Any] = {}
        if answer is not None:
            more["answer"] = answer
        if event is not None:
            more["event"] = event
        name = thread or _thread_name(role, cls.java_class)
        try:
            made = cls.host.connect(thread=name, location=cls.folder, **more)
        except EnvironmentProblemError as err:
            where = "" if cls.folder is None else f" in {cls.folder}"
            raise EnvironmentProblemError(f"{cls.java_class}{where} cannot run: {err}", hint=err.hint) from err
        try:
            made.call(role, **{"class": cls.java_class, "folder": cls.folder}, **({"key": key} if key else {}))
        except BaseException:
            made.close()
            raise
        return made


def _thread_name(role: str, java_class: str) -> str:
    """Names the thread of a task as Java's worker does, where it is one."""
    connector, task = current_place()
    if role in ("source", "sink") and task is not None:
        return f"task-thread-{connector}-{task}"
    return f"{role}-{java_class.rpartition('.')[2]}"


class Deferrable:
    """A plugin that Java need not make before it is used."""

    is_deferred = False

    def defer(self) -> None:
        """Have configure() only keep what it is given."""
        self.is_deferred = True


def java_class(name: str, folder: str | None, base: type[T], host: HostProcess | None = None) -> type[T]:
    """A class of ours that stands for a Java class. Shape: its module and name are Java's package and name."""
    package, _, simple = name.rpartition(".")
    more = {} if host is None else {"host": host}
    return type(
        simple, (base,), {"__module__": package, "__qualname__": simple, "java_class": name, "folder": folder, **more}
    )

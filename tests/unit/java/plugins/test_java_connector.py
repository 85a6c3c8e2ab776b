"""What a connector of Java's answers a worker that asks it without having started it."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.java.plugins.connectors import JavaConnector, JavaSinkConnector, JavaSourceConnector
from kconnect.java.plugins.java_error import java_error


class Refuses:
    """Stands for the connection to a connector that gives null, and cannot alter offsets."""

    def call(self, method: str, **_: Any) -> None:
        if method == "alter_offsets":
            thrown = {"class": "java.lang.UnsupportedOperationException", "message": None, "kind": "other"}
            raise java_error({**thrown, "trace": "", "root": ""})

    def close(self) -> None: ...


class Source(JavaSourceConnector):
    @classmethod
    def connect(cls, role: str, **_: Any) -> Any:
        return Refuses()


class Sink(JavaSinkConnector):
    connect = Source.connect


@pytest.mark.parametrize("made", [Source(), Sink()])
def test_offsets_that_it_cannot_alter_are_refused_as_by_one_of_pythons(made: JavaConnector) -> None:
    assert isinstance(made, Source | Sink)
    with pytest.raises(NotImplementedError, match="UnsupportedOperationException"):
        made.alter_offsets({}, [] if isinstance(made, Source) else {})  # type: ignore[arg-type]  # each its own


def test_null_for_who_defines_transactions_is_none_and_no_error() -> None:
    assert Source().can_define_transaction_boundaries({}) is None

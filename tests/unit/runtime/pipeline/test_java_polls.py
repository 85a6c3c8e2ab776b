"""What a Java source polled and a chain in Java has made bytes of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from kconnect.java.plugins.encoded import EncodedPart, EncodedPoll
from kconnect.runtime.pipeline.java_chain import JavaPolls


def test_a_task_that_hears_of_each_record_hears_of_those_that_a_transformation_dropped() -> None:
    texts = pa.array([b"v5", b"v7"], pa.binary())
    part = EncodedPart("t", None, pa.nulls(2, pa.binary()), texts, None, None, pa.array([1, 3], pa.int32()))
    task: Any = SimpleNamespace(wants_each=True)
    poll = EncodedPoll([part], [({"p": "x"}, {"n": 8})], polled=5, done=4, first=4, begin=0, task=task)
    unused: Any = None
    polled = JavaPolls(unused)(task, poll)
    assert polled is not None
    (unit,) = polled.parts[0].units(unused)
    assert unit.tokens is not None
    found = [(token, record and record.value) for token, record in zip(unit.tokens, unit.records, strict=True)]
    assert found == [(4, None), (5, b"v5"), (6, None), (7, b"v7")]
    assert (unit.polled, unit.kept) == (4, 2)

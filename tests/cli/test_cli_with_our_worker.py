"""`connect connectors` and `connect offsets` beside our own `connect standalone`: the same steps as beside Java's."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kconnect.devbroker import DevBroker
from kit.admin_flow import Operator, sink_from_create_to_delete, source_from_create_to_delete, what_is_not_there
from kit.standalone import Standalone

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def worker(broker: DevBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("worker"), broker.bootstrap, {}) as running:
        running.start()
        yield running
        assert running.stop() == 143


@pytest.fixture
def operator(worker: Standalone, home: Path) -> Operator:
    return Operator(worker.url, home)


def test_what_is_not_there_has_an_exit_code_of_its_own(operator: Operator) -> None:
    what_is_not_there(operator)


def test_a_source_is_managed_from_create_to_delete(
    operator: Operator, broker: DevBroker, topic: str, tmp_path: Path
) -> None:
    source_from_create_to_delete(operator, broker.bootstrap, topic, tmp_path, "a b")


def test_a_sink_is_managed_from_create_to_delete(
    operator: Operator, broker: DevBroker, topic: str, tmp_path: Path
) -> None:
    sink_from_create_to_delete(operator, broker.bootstrap, topic, tmp_path, f"out-{uuid.uuid4().hex[:6]}")

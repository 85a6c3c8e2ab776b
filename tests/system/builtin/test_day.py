"""A table with every kind of column is equal, column by column, in each sink, whatever changes and whoever is killed.

`make day` runs it: minutes, with twenty-eight connectors on one worker.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from kconnect.java.devbroker import DevBroker
from kconnect.java.devbroker.dev_registry import DevRegistry
from kit.day import FORMS, READERS, Day
from kit.distributed_worker import Distributed
from kit.postgres import database
from kit.topics import create_topic
from kit.waiting import eventually

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.java]
ROWS = int(os.environ.get("KCONNECT_DAY_ROWS", "10000"))
WITHIN_S = 900.0


@pytest.mark.timeout(3600)
def test_each_sink_has_the_table_of_the_database(
    broker: DevBroker, registry: DevRegistry, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    prefix = f"day-{uuid.uuid4().hex[:6]}"
    settings = {"offset.flush.interval.ms": "1000", "kconnect.slots": "2", "exactly.once.source.support": "enabled"}
    with database() as server, Distributed(tmp_path / "worker", broker.bootstrap, prefix, settings) as worker:
        day = Day(tmp_path, server.uri, registry.url, prefix)
        for form in FORMS:
            create_topic(broker.bootstrap, day.topic(form))
        day.insert(ROWS // 5)
        worker.start()
        connectors = day.connectors()
        with worker.client() as client:
            for name, config in connectors.items():
                client.create_connector(name, config)

        def kill_slot() -> None:
            eventually(worker.slots, WITHIN_S, "there is a slot")[0].kill()

        def kill_worker() -> None:
            worker.kill()
            worker.start(WITHIN_S, running=False)

        def all_go() -> bool:
            with worker.client() as client:
                failed = [f"{name}: {task.trace}" for name in connectors for task in client.connector_status(name).tasks
                          if task.state == "FAILED"]  # fmt: skip
            assert not failed, "\n".join(failed)[:6000]
            rows = {(form, kind): len(day.found(form, kind)) for form in FORMS for kind in READERS}
            wanted = len(day.wanted())
            assert all(count >= wanted for count in rows.values()), f"{rows} of {wanted}\n{worker.log_text()[-2000:]}"
            return True

        turns = [
            (lambda: None, kill_slot),
            (day.add_columns, kill_worker),
            (day.widen_columns, kill_slot),
            (day.drop_a_column, kill_worker),
        ]
        for change, kill in turns:
            kill()
            change()
            day.update()
            day.insert(ROWS // 5)
            eventually(all_go, WITHIN_S, "all sinks have the rows", pause_s=3)
        reported: list[str] = []

        def are_equal() -> bool:
            reported[:] = [f"{form}, {kind}: {one}" for form in FORMS for kind in READERS
                       for one in day.differences(form, kind)]  # fmt: skip
            assert not reported, "\n".join(reported)
            return True

        eventually(are_equal, 60, "all are equal", pause_s=3)
        with worker.client() as client:
            for name in connectors:
                client.delete_connector(name)
        worker.stop()
    request.config.get_terminal_writer().line(f"{len(FORMS)} forms in {len(READERS)} kinds of sinks are equal")

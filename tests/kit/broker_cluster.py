"""Several brokers of one cluster, for what replicas are about. The first is the controller, and outlives the others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kit.brokers import PatientBroker
from kit.ports import free_port

_HOST = "127.0.0.1"


class NodeOfCluster(PatientBroker):
    """A broker that joins the controller of another one. It is started once."""

    def __init__(self, number: int, controller: int, folder: Path, first: PatientBroker | None = None) -> None:
        port = free_port()
        at = f"PLAINTEXT://{_HOST}:{port}"
        settings = {
            "node.id": str(number),
            "process.roles": "broker,controller" if first is None else "broker",
            "controller.quorum.voters": f"1@{_HOST}:{controller}",
            "listeners": f"{at},CONTROLLER://{_HOST}:{controller}" if first is None else at,
        }
        super().__init__(port, folder, settings=settings)
        self._number = number
        self._first = first

    def _format(self, command: Sequence[str]) -> None:
        super()._format(command)
        if self._first is not None:
            theirs = re.search(r"^cluster\.id=.*$", self._first.folder.meta.read_text("utf-8"), re.MULTILINE)
            assert theirs is not None
            text = re.sub(r"(?m)^cluster\.id=.*$", lambda _: theirs[0], self.folder.meta.read_text("utf-8"))
            self.folder.meta.write_text(re.sub(r"(?m)^node\.id=.*$", f"node.id={self._number}", text), "utf-8")


@contextmanager
def broker_cluster(folder: Path, count: int = 3) -> Iterator[list[NodeOfCluster]]:
    """Brokers with the ids 1, 2, ..; all are killed at the end."""
    controller = free_port()
    with ExitStack() as stack:
        nodes: list[NodeOfCluster] = []
        for number in range(1, count + 1):
            node = NodeOfCluster(number, controller, folder / f"broker-{number}", nodes[0] if nodes else None)
            stack.enter_context(node)
            nodes.append(node)
        yield nodes

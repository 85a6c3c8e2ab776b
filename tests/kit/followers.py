"""Two Debezium connectors that follow the same table, one here and one there: what they write is the same."""

from __future__ import annotations

from itertools import zip_longest

import psycopg

from kit.debezium import postgres_source
from kit.mixed_cluster import SETTLED_S, MixedCluster, Node
from kit.topics import consume, create_topic, end_offset
from kit.waiting import eventually

__all__ = ["Followers"]

_FLAT = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    **{f"{kind}.converter.schemas.enable": "false" for kind in ("key", "value")},
}
_ROWS = 20


class Followers:
    """The connectors `first` and `second`. Each has a replication slot of its own, so it misses nothing while stopped.

    Whatever is done is done by the table `followed`, which this makes.
    """

    names = ("first", "second")

    def __init__(self, cluster: MixedCluster, uri: str, port: int) -> None:
        self._cluster, self._uri, self._port = cluster, uri, port
        self.changes = 0

    def create(self, at: Node) -> None:
        """Create both, and wait for their snapshots; then they are stopped."""
        self._execute(
            "CREATE TABLE followed (id int PRIMARY KEY, name text, at timestamp DEFAULT now(), price numeric)"
        )
        self._execute(f"INSERT INTO followed SELECT n, 'name ' || n, now(), n / 3.0 FROM generate_series(1, {_ROWS}) n")
        for name in self.names:
            create_topic(self._cluster.bootstrap, self._topic(name))
            slot = {"slot.name": f"{name}_slot", "publication.name": f"{name}_publication"}
            slot["publication.autocreate.mode"] = "filtered"
            config = postgres_source(self._port, name, "public.followed", **_FLAT, **slot)
            at.order("POST", "/connectors", {"name": name, "config": config}, expect=201)
        for name in self.names:
            eventually(lambda name=name: self._count(name) == _ROWS, SETTLED_S, f"the snapshot of {name}", pause_s=0.2)
            eventually(lambda name=name: self.offsets(name), SETTLED_S, f"the offset of {name} is committed")
            eventually(lambda name=name: self._is_followed(name), SETTLED_S, f"{name} has its slot", pause_s=0.2)
            self.stop(name, at)

    def run(self, name: str, at: Node) -> None:
        at.order("PUT", f"/connectors/{name}/resume", expect=202)
        self._cluster.others.append(name)

    def stop(self, name: str, at: Node) -> None:
        at.order("PUT", f"/connectors/{name}/stop", expect=204)
        self._cluster.others = [one for one in self._cluster.others if one != name]

    def change(self) -> None:
        """An update, a deletion and an insertion, each a transaction of its own."""
        self.changes += 1
        n = self.changes
        self._execute(f"UPDATE followed SET name = 'changed {n}' WHERE id <= 3")
        self._execute(f"DELETE FROM followed WHERE id = {_ROWS - n}")
        self._execute(f"INSERT INTO followed VALUES ({_ROWS + n}, 'new {n}', now(), {n}.5)")

    def await_all(self, name: str) -> None:
        """Wait until the connector has written what was changed."""

        def last() -> bool:
            found = self.records(name)[-1:]
            wanted = f'"id":{_ROWS + self.changes},'.encode()
            assert any(wanted in value for _, value in found), f"{name}: {found}"
            return True

        eventually(last, SETTLED_S, f"{name} has change {self.changes}", pause_s=0.2)

    def records(self, name: str) -> list[tuple[bytes, bytes]]:
        """Keys and values of its topic; a tombstone is empty."""
        found = consume(self._cluster.bootstrap, self._topic(name), self._count(name))
        return [(message.key() or b"", message.value() or b"") for message in found]

    def offsets(self, name: str) -> list[tuple[bytes, bytes]]:
        """Its records of the offsets topic, key and value, with the connector's name left out."""
        topic = f"{self._cluster.group}-offset"
        count = sum(end_offset(self._cluster.bootstrap, topic, part) for part in range(3))
        start = f'["{name}",'.encode()
        return [
            ((message.key() or b"").replace(name.encode(), b"NAME"), message.value() or b"")
            for message in consume(self._cluster.bootstrap, topic, count)
            if (message.key() or b"").startswith(start)
        ]

    def await_equal(self) -> None:
        """Wait until both have committed the same last offset, byte for byte; their records are equal as well."""

        def equal() -> bool:
            first, second = (self.offsets(name)[-1] for name in self.names)
            assert first == second, f"{first}\n{second}"
            return True

        for name in self.names:
            self.await_all(name)
        eventually(equal, SETTLED_S, "both followers have the same offset", pause_s=0.2)
        first, second = (list(dict.fromkeys(self.records(name))) for name in self.names)
        differing = [pair for pair in zip_longest(first, second) if pair[0] != pair[1]]
        assert not differing, f"{len(differing)} of {len(first)} records differ: {differing[:3]}"

    def _topic(self, name: str) -> str:
        return f"{name}.public.followed"

    def _count(self, name: str) -> int:
        return end_offset(self._cluster.bootstrap, self._topic(name))

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self._uri, autocommit=True) as db:
            db.execute(statement.encode())

    def _is_followed(self, name: str) -> bool:
        with psycopg.connect(self._uri, autocommit=True) as db:
            found = db.execute("SELECT active FROM pg_replication_slots WHERE slot_name = %s", [f"{name}_slot"])
            return found.fetchone() == (True,)

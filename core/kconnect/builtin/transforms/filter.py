"""Filter: drops every record; made to be guarded by a predicate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from kconnect.api import ConfigDef, ConnectRecord, RecordBatch, Transformation
from kconnect.builtin.version import KAFKA_VERSION

R = TypeVar("R", bound=ConnectRecord)

CONFIG = ConfigDef()


class Filter(Transformation):
    """Source: o.a.k.connect.transforms.Filter (Kafka 4.3)."""

    supports_batches = True

    drops_all = True
    """Tells the chain that the rows of a batch which a predicate selects may just be taken out of it."""

    def configure(self, configs: Mapping[str, Any]) -> None:
        """It has nothing to configure."""

    def apply(self, record: R) -> R | None:
        return None

    def apply_batch(self, batch: RecordBatch) -> RecordBatch | None:
        return None

    def config(self) -> ConfigDef:
        return CONFIG

    def version(self) -> str:
        return KAFKA_VERSION

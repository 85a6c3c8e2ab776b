"""What a worker tells its processes about itself. Apart from `slot`, so that a worker loads no data path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSpec:
    """All a slot needs to reach its worker. Travels inside Spark's task, so it holds nothing live."""

    slot: int
    host: str
    port: int
    token: bytes = field(repr=False)
    heartbeat_interval_s: float
    heartbeat_timeout_s: float
    start_timeout_s: float
    offsets_timeout_s: float
    plugin_path: str | None
    java: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The settings kconnect.java.* and plugin.discovery of the worker."""
    log_level: int
    worker_host: str
    worker_pid: int
    connector: str | None = None
    """Whose own it is; None: connectors share it."""
    tells_demand: bool = False
    """Whether it says with each heartbeat what its tasks want of a core."""


@dataclass(frozen=True, slots=True)
class TallyAddress:
    """Where a worker takes what processes of its queries have counted. Plain values: it travels in Spark's tasks."""

    host: str
    port: int
    token: bytes = field(repr=False)

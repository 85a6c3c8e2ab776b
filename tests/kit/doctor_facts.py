"""Facts of a cluster for the doctor's tests: a healthy one, with what a test writes behind it."""

from __future__ import annotations

from kconnect.admin.direct.access import InternalTopic
from kconnect.admin.direct.doctor.diagnosis import diagnose
from kconnect.admin.direct.doctor.facts import (
    ClusterFacts,
    ConfigFacts,
    LeaderWrites,
    LiveRecords,
    OffsetFacts,
    StatusFacts,
    TopicFacts,
)
from kconnect.admin.direct.group.live_group import LiveGroup, LiveWorker
from kconnect.model import LogRecord, RunState, TargetState, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.storage.config_topic import (
    encode_commit,
    encode_connector,
    encode_session_key,
    encode_target_state,
    encode_task,
)
from kconnect.runtime.storage.session_key import SessionKey
from kconnect.runtime.storage.snapshot import ConfigFold
from kconnect.runtime.storage.status_cache import StatusCache
from kconnect.runtime.storage.status_topic import (
    StoredStatus,
    TopicUse,
    encode_status,
    encode_topic_use,
    status_key,
    topic_key,
)
from kconnect.runtime.storage.topic_offsets import OffsetCache

NOW_MS = 1_800_000_000_000
SOURCE = {"connector.class": "FileStreamSource", "topic": "t", "file": "/f"}
SINK = {"connector.class": "FileStreamSink", "topics": "t", "file": "/f"}
KEY_0, OFFSET_0 = b'["src",{"a":1,"b":2}]', b'{"position":1}'
CONFIGS = [
    encode_session_key(SessionKey(b"k" * 32, "HmacSHA256", NOW_MS - 60_000)),
    encode_connector("src", SOURCE),
    encode_task(TaskId("src", 0), SOURCE),
    encode_commit("src", 1),
    encode_target_state("src", TargetState.STARTED),
]
RUNNING = StoredStatus(RunState.RUNNING, "w1:8083", 3, None, "4.3.0")
STATUSES = [
    (status_key("src"), encode_status(RUNNING)),
    (status_key(TaskId("src", 0)), encode_status(RUNNING)),
    (topic_key("src", "t"), encode_topic_use(TopicUse("t", "src", 0, NOW_MS))),
]
OFFSETS = [(KEY_0, OFFSET_0)]
COMPACT = {"cleanup.policy": "compact", "min.insync.replicas": "1", "retention.ms": "604800000"}
TOPICS = {
    InternalTopic.CONFIG: TopicFacts("c-configs", True, 1, 3, COMPACT),
    InternalTopic.STATUS: TopicFacts("c-status", True, 5, 3, COMPACT),
    InternalTopic.OFFSET: TopicFacts("c-offsets", True, 25, 3, COMPACT),
}
EXACTLY_ONCE = {"bootstrap.servers": "b:9092", "group.id": "c", "exactly.once.source.support": "enabled"}
WORKER = {"bootstrap.servers": "b:9092", "group.id": "c"}


def group(name="c", urls=("http://w1:8083/", "http://w2:8083/"), protocol="sessioned") -> LiveGroup:
    workers = tuple(LiveWorker(url, url, "h", url, 5, Work((), ()), at == 0) for at, url in enumerate(urls))
    return LiveGroup(name, "Stable" if urls else "Empty", protocol, workers)


def log(topic, entries, *, partition=0, step_ms=1000, start_ms=NOW_MS - 10_000_000):
    return [
        LogRecord(topic, partition, at, key, value, start_ms + at * step_ms) for at, (key, value) in enumerate(entries)
    ]


def config_facts(records, end=None) -> ConfigFacts:
    fold, writes = ConfigFold(), LeaderWrites()
    for record in records:
        fold.apply(record)
        writes.apply(record)
    return ConfigFacts(fold.snapshot(), LiveRecords(records), writes.bare(end))


def status_facts(records) -> StatusFacts:
    found = StatusFacts(StatusCache(), LiveRecords())
    for record in records:
        found.apply(record)
    return found


def offset_facts(records) -> OffsetFacts:
    cache = OffsetCache()
    for record in records:
        cache.apply(record.key or b"", record.value, record.timestamp_ms)
    return OffsetFacts(cache, LiveRecords(records))


def facts(*, configs=(), statuses=(), offsets=(), end=None, step_ms=1000, records=None, **changed) -> ClusterFacts:
    """A healthy cluster, and what is written behind it; `records` are another config topic altogether."""
    known = {
        "now_ms": NOW_MS,
        "worker": WORKER,
        "brokers": 3,
        "topics": TOPICS,
        "configs": config_facts(records or log("c-configs", [*CONFIGS, *configs], step_ms=step_ms), end),
        "statuses": status_facts(log("c-status", [*STATUSES, *statuses], start_ms=NOW_MS - 9_000_000)),
        "offsets": offset_facts(log("c-offsets", [*OFFSETS, *offsets])),
        "group": group(),
    }
    return ClusterFacts(**{**known, **changed})


def found(code, degraded: ClusterFacts):
    """The findings of one code; whatever else the fault brings along is left out."""
    return [finding for finding in diagnose(degraded) if finding.code == code]

"""The trail that a worker's settings ask for."""

from __future__ import annotations

from pathlib import Path

from kconnect.errors import ConfigError, ConnectError
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.config.worker_config import WorkerConfig
from kconnect.runtime.rest.audit.file_sink import FileSink
from kconnect.runtime.rest.audit.topic_sink import TopicSink
from kconnect.runtime.rest.audit.trail import AuditTrail, Sink


def audit_trail(config: WorkerConfig) -> AuditTrail | None:
    """Not started; None without an audit log. Errors: ConfigError."""
    own, sinks = config.kconnect, list[Sink]()
    if own.audit_log_file:
        try:
            sinks.append(FileSink(Path(own.audit_log_file), own.audit_log_max_bytes, own.audit_log_max_files))
        except ConnectError as err:
            raise ConfigError.invalid("kconnect.audit.log.file", own.audit_log_file, str(err)) from err
    if own.audit_log_topic:
        props = config.originals
        sinks.append(TopicSink(own.audit_log_topic, lambda: internal_clients(props, client_id="audit-log").producer))
    if not sinks and own.audit_log_required:
        raise ConfigError.invalid(
            "kconnect.audit.log.required",
            "true",
            "there is neither kconnect.audit.log.file nor kconnect.audit.log.topic",
        )
    return AuditTrail(sinks, is_required=own.audit_log_required) if sinks else None

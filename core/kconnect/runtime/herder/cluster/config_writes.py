"""Performs a leader's writes to the config topic.

Source: DistributedHerder#putConnectorConfig, #stopConnector, #writeTaskConfigs, #checkForKeyRotation (Kafka 4.3).
"""

from __future__ import annotations

import logging

from kconnect.errors import ConflictError, TimedOutError
from kconnect.model import TargetState
from kconnect.runtime.herder.decisions.request_signatures import KeyForm, new_key
from kconnect.runtime.herder.decisions.writes import (
    ConfigWrite,
    NewSessionKey,
    PutConfig,
    PutRestart,
    PutStopped,
    PutTaskCount,
    PutTasks,
    RemoveConfig,
)
from kconnect.runtime.storage.config_store import ConfigStore

log = logging.getLogger(__name__)


def carry_out(write: ConfigWrite, configs: ConfigStore, key_form: KeyForm, sync_timeout_s: float) -> None:
    """Write it and read it back. Errors: ConnectError, as of ConfigStore; ConflictError of PutTaskCount."""
    match write:
        case PutConfig(connector, config, target_state):
            configs.put_connector_config(connector, config, target_state)
        case RemoveConfig(connector):
            configs.remove_connector_config(connector)
        case PutTasks(connector, task_configs):
            configs.put_task_configs(connector, task_configs)
        case PutTaskCount(connector, count, generation):
            if configs.snapshot().task_config_generation(connector) != generation:
                raise ConflictError("Fencing failed because new task configurations were generated for the connector")
            configs.put_task_count_record(connector, count)
        case PutStopped(connector):
            _stop(connector, configs, sync_timeout_s)
        case PutRestart(request):
            configs.put_restart_request(request)
        case NewSessionKey(created_ms):
            configs.put_session_key(new_key(key_form, created_ms))


def _stop(connector: str, configs: ConfigStore, sync_timeout_s: float) -> None:
    """Tasks first: a connector without tasks that is not STOPPED yet is fine, a STOPPED one with tasks is not."""
    configs.remove_task_configs(connector)
    configs.put_target_state(connector, TargetState.STOPPED)
    try:
        configs.refresh(sync_timeout_s)
    except TimedOutError as err:  # both are written: readers will get them
        log.warning(
            "The target state STOPPED of connector %s was written but has not been read back yet: %s", connector, err
        )


def described(write: ConfigWrite) -> str:
    """Names what is written, for a message."""
    match write:
        case PutConfig(connector):
            return f"the config of connector {connector}"
        case RemoveConfig(connector):
            return f"the removal of connector {connector}"
        case PutTasks(connector):
            return f"the task configs of connector {connector}"
        case PutTaskCount(connector):
            return f"the number of tasks of connector {connector}"
        case PutStopped(connector):
            return f"the stop of connector {connector}"
        case PutRestart(request):
            return f"a restart request for connector {request.connector}"
        case NewSessionKey():
            return "a new session key"

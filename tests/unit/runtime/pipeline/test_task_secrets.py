"""A task resolves its configs where it runs, and its reports never show what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from kconnect.logs import redaction
from kconnect.model import RunState
from kconnect.runtime.pipeline.error_texts import exception_trace
from kit.pipeline_host import RECORD_SOURCE, Behaviour, PipelineHost

PROVIDERS = {"config_providers": "file", "config_providers_file_class": "FileConfigProvider"}


@pytest.fixture(autouse=True)
def _fresh_behaviour() -> None:
    Behaviour.reset()


def failing_with(text: str, key: str) -> None:
    def poll(task: object) -> None:
        raise RuntimeError(f"{text} {Behaviour.tasks[-1].props[key]}")

    Behaviour.poll = poll


def test_a_trace_hides_secrets_that_were_referred_to(tmp_path: Path) -> None:
    file = tmp_path / "s.properties"
    file.write_text("value=from-the-file\n")
    failing_with("cannot use", "some.setting")
    with PipelineHost("127.0.0.1:1", **PROVIDERS) as host:
        spec = host.start_source("referring", RECORD_SOURCE, some_setting=f"${{file:{file}:value}}")
        host.await_state(spec, RunState.FAILED)

    trace = host.trace(spec)
    assert "cannot use [hidden]" in trace
    assert "from-the-file" not in trace


def test_a_trace_hides_plain_values_of_keys_that_name_a_secret() -> None:
    failing_with("refused:", "database.password")
    with PipelineHost("127.0.0.1:1") as host:
        spec = host.start_source("plain-secret", RECORD_SOURCE, database_password="tr0ub4dor")
        host.await_state(spec, RunState.FAILED)

    trace = host.trace(spec)
    assert "refused: [hidden]" in trace
    assert "tr0ub4dor" not in trace


def test_a_missing_secret_fails_the_task_with_one_sentence(tmp_path: Path) -> None:
    with PipelineHost("127.0.0.1:1", **PROVIDERS) as host:
        spec = host.start_source("missing", RECORD_SOURCE, password=f"${{file:{tmp_path}/none:x}}")
        host.await_state(spec, RunState.FAILED)

    where = f"${{file:{tmp_path}/none:x}} in password of connector missing"
    why = f"the file {tmp_path}/none cannot be read: No such file or directory."
    message = f"Task missing-0 failed: {where} cannot be resolved by the config provider file: {why}"
    assert host.trace(spec).startswith(message)


def test_the_trace_of_a_dead_letter_hides_secrets() -> None:
    redaction.remember("test", ["tr0ub4dor"])
    try:
        text = exception_trace(ValueError("no login with tr0ub4dor"))
    finally:
        redaction.forget("test")

    assert text.startswith("ValueError: no login with [hidden]")
    assert "tr0ub4dor" not in text

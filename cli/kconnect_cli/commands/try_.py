"""`connect try`: one connector with its transforms and converters in this process, its records stage by stage."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kconnect.errors import ConfigError, ConnectError
from kconnect.logs.wording import pluralize
from kconnect_cli.durations import seconds_of
from kconnect_cli.exits import UsageProblem
from kconnect_cli.files.connector_files import read_connector_file
from kconnect_cli.processes.signals import signals_raise
from kconnect_cli.screen.output import Column, Format, write_object, write_rows, write_text
from kconnect_cli.session import CliSession, Output, Verbose, session_of

if TYPE_CHECKING:
    from kconnect.model import ConnectorOffset
    from kconnect.runtime.config.variables import Resolved
    from kconnect.testing.measured import Measured
    from kconnect.testing.trial import Failure, InputRecord, Misspelt, Trial, TriedRecord


_SKIP_HINT = "With errors.tolerance=all in the connector's file such records are skipped."
_RETRY_HINT = "A worker keeps calling put until it succeeds; --timeout TIME tries longer here."
_HINTS = {
    "put": (
        "Raise RetriableError to have put called again with the same records; "
        "report a single bad record to context.errant_record_reporter()."
    ),
    "producer": "It comes from poll() or from a transformation. In a worker the task would be FAILED.",
    "offset": (
        "Source partitions and offsets are flat: names are text, values are text, numbers, booleans, bytes or None."
    ),
}
# Records that are shown; a measurement takes all
_LIMIT = 10
# Values longer than this are cut in the table; JSON has all of it.
_MOST_SHOWN = 300


class InputFormat(StrEnum):
    """The content of an input line."""

    LINES = "lines"
    RECORDS = "records"


def try_(
    ctx: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="CONNECTOR", help="Its file: .properties, .json, .toml, .yaml; - is stdin.")
    ],
    input_: Annotated[
        str | None, typer.Option("--input", metavar="FILE", help="What a sink reads; - is stdin.", show_default=False)
    ] = None,
    form: Annotated[
        InputFormat,
        typer.Option("--format", help="lines: each line is a value. records: JSON with topic, key, value, headers."),
    ] = InputFormat.LINES,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="How many records at most; 10, all with --measure.", show_default=False),
    ] = None,
    timeout: Annotated[
        str, typer.Option("--timeout", metavar="TIME", help="How long records, a call and retries may take.")
    ] = "5s",
    worker: Annotated[
        Path | None,
        typer.Option("--worker", metavar="FILE", help="A worker's file, for its converters.", show_default=False),
    ] = None,
    plugin_path: Annotated[
        str | None,
        typer.Option("--plugin-path", metavar="DIR", help="Folder of plugins, such as src.", show_default=False),
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Show what each stage costs a record, and no record.")
    ] = False,
    output: Output = None,
    verbose: Verbose = False,
) -> None:
    """Run one connector in this process, with no broker and no Spark, and show its records stage by stage.

    A source gives records: connector, each transform, bytes. A sink takes those of --input: bytes, converters, each
    transform, put. It actually reads and writes; no offset is stored. Exit code 1 when a record fails.

    With --measure it runs one task for --timeout, in batches as a worker does, and shows records a second, the time
    and the processor time of each stage a record, and what could be changed. A --limit above the number of records
    in --input puts them again and again. Kafka's clients come on top: see docs/capacity.md.

    JSON with --measure: an object with records, kept, records_per_second, us_per_record, cpu_us_per_record, stages
    (stage, plugin, us_per_record, cpu_us_per_record, share, calls, by_columns, by_lists, by_records), advice.
    """
    from kconnect.logs import redaction
    from kconnect.runtime.config import default_standalone_properties, read_properties
    from kconnect.runtime.config.variables import secret_values
    from kconnect.runtime.plugins import PluginRegistry
    from kconnect.testing.trial import is_source, try_sink, try_source

    session = session_of(ctx)
    session.choose(None, output, verbose)
    timeout_s = seconds_of(timeout, "--timeout")
    properties = dict(read_properties(worker)) if worker else default_standalone_properties()
    if plugin_path:
        properties["plugin.path"] = plugin_path
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(properties)
    try:
        given_file = read_connector_file(file)
        resolved = variables.resolve(given_file.config, f"connector file {file}")
        config = dict(resolved.values)
        passwords = PluginRegistry.load(properties.get("plugin.path")).password_keys(config)
        redaction.remember("try", {*secret_values(config, passwords), *resolved.references})

        def warn(reported: str) -> None:
            session.say(f"Warning: {given_file.name}: {reported}")

        reads = is_source(config, properties.get("plugin.path"))
        if reads and input_ is not None:
            raise UsageProblem(f"{file} is a source: it reads by itself", hint="Leave --input out.")
        given = () if reads else _input(file, input_, form)
        if measure:
            run = _Measuring(session, config, properties, limit, timeout_s)
            with signals_raise():
                run.show(run.source(warn) if reads else run.sink(given, warn))
            return
        screen, most = _Screen(session, resolved), limit or _LIMIT
        with signals_raise():
            if reads:
                trial = try_source(config, properties, limit=most, timeout_s=timeout_s, show=screen.show, warn=warn)
            else:
                trial = try_sink(
                    config, properties, given, limit=most, timeout_s=timeout_s, show=screen.show, warn=warn
                )
    finally:
        variables.close()
    screen.end(trial, most, timeout_s)


class _Screen:
    """Shows records as they arrive (table), or all at the end (JSON, YAML). Secrets stay references."""

    def __init__(self, session: CliSession, resolved: Resolved) -> None:
        self._session = session
        self._resolved = resolved
        self._rows: list[dict[str, Any]] = []
        self._failed: TriedRecord | None = None

    def show(self, tried: TriedRecord) -> None:
        if tried.failure is not None and not tried.failure.tolerated:
            self._failed = tried
        if self._session.output is Format.TABLE:
            write_text(self._shown(_page(tried)))
        elif self._session.output is Format.NAME:
            write_text(f"{tried.outcome}\n")
        else:
            self._rows.append(_row(tried))

    def end(self, trial: Trial, limit: int, timeout_s: float) -> None:
        """The rest of the output. Errors: ConnectError that names the record and the stage that failed."""
        if self._session.output in (Format.JSON, Format.YAML):
            text = self._shown(json.dumps(self._rows))
            write_object(json.loads(text), self._session.output)
        if self._failed is not None and self._failed.failure is not None:
            failure = self._failed.failure
            message = f"Record {self._failed.number}: {failure}{_bytes_of(self._failed)}"
            raise ConnectError(self._shown(message), hint=_hint(failure)) from failure.error
        if trial.retries:
            often = pluralize(trial.retries, "time")
            self._session.say(self._shown(f"RetriableError was raised {often}. The last: {trial.last_retriable}"))
        for item in trial.offset_updates:
            self._session.say(self._shown(f"update_offsets(): {_offset_text(item)}"))
        if trial.late_poll:
            self._session.say(self._shown(trial.late_poll))
        more = "" if trial.count >= limit else f" (--limit {limit}, --timeout {timeout_s:g} s)"
        self._session.say(f"{pluralize(trial.count, 'record')}{more}")

    def _shown(self, text: str) -> str:
        from kconnect.logs.redaction import redact

        return redact(self._resolved.shown(text))


def _offset_text(item: ConnectorOffset) -> str:
    offset = "no offset" if item.offset is None else json.dumps(dict(item.offset))
    return f"{json.dumps(dict(item.partition))} -> {offset}"


def _hint(failure: Failure) -> str:
    if failure.attempts > 1:
        return _RETRY_HINT
    if failure.stage == "put" and failure.plugin.startswith("kconnect."):  # the reader is not its author
        return (
            failure.hint or "The task would be FAILED. Once the cause is fixed: connect connectors restart --tasks NAME"
        )
    return failure.hint or _HINTS.get(failure.stage, _SKIP_HINT)


def _bytes_of(tried: TriedRecord) -> str:
    """Which record of the topic a converter could not read, and its bytes; nothing for another stage."""
    failure = tried.failure
    given = tried.stages[0].view if tried.stages and tried.stages[0].stage == "bytes" else None
    if failure is None or given is None or not failure.stage.endswith(".converter"):
        return ""
    part = "key" if failure.stage.startswith("key") else "value"
    return f". The {part} in topic {given['topic']}, partition {given.get('partition', 0)}: {_short(given[part])}"


def _row(tried: TriedRecord) -> dict[str, Any]:
    """A record's stages as JSON; its `bytes` are the input of `--format records`."""
    row: dict[str, Any] = {
        "record": tried.number,
        "outcome": tried.outcome,
        "stages": [{"stage": view.stage, "record": view.view} for view in tried.stages],
    }
    if tried.failure is not None:
        failure = tried.failure
        row["failure"] = {
            "stage": failure.stage,
            "plugin": failure.plugin,
            "error": failure.why,
            "tolerated": failure.tolerated,
        }
    return row


def _page(tried: TriedRecord) -> str:
    """A record's stages as lines: all of it first, then each stage's changes."""
    failure = tried.failure
    names = [view.stage for view in tried.stages] + ([failure.stage] if failure else [])
    width = max(len(name) for name in names)
    lines = [f"record {tried.number}: {tried.outcome}"]
    before: Mapping[str, Any] = {}
    for view in tried.stages:
        lines.append(f"  {view.stage.ljust(width)}  {_changes(before, view.view, view.stage)}")
        before = view.view or {}
    if failure is not None:
        said = "tolerated" if failure.tolerated else "FAILED"
        lines.append(f"  {failure.stage.ljust(width)}  {said}: {failure.why}")
        lines.append(f"  {''.ljust(width)}  in {failure.plugin}")
    return "\n".join(lines) + "\n"


def _changes(before: Mapping[str, Any], after: Mapping[str, Any] | None, stage: str) -> str:
    if after is None:
        return "dropped"
    if stage == "bytes":
        shown = {name: after[name] for name in ("topic", "key", "value", "headers") if name in after}
    else:
        shown = {name: value for name, value in after.items() if name not in before or before[name] != value}
        shown |= {name: None for name in before if name not in after and name != "offset"}
    return "  ".join(f"{name}={_short(value)}" for name, value in shown.items()) or (
        "taken" if stage == "put" else "unchanged"
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}.. ({len(text)} characters)"


class _Measuring:
    """A measurement of one task, and how it is shown."""

    def __init__(
        self,
        session: CliSession,
        config: Mapping[str, str],
        worker: Mapping[str, str],
        limit: int | None,
        timeout_s: float,
    ) -> None:
        self._session = session
        self._config = config
        self._worker = worker
        self._limit = limit
        self._timeout_s = timeout_s

    def source(self, warn: Misspelt) -> Measured:
        from kconnect.testing.measure import measure_source

        return measure_source(self._config, self._worker, limit=self._limit, timeout_s=self._timeout_s, warn=warn)

    def sink(self, given: Iterable[InputRecord], warn: Misspelt) -> Measured:
        from kconnect.testing.measure import measure_sink

        return measure_sink(self._config, self._worker, given, limit=self._limit, timeout_s=self._timeout_s, warn=warn)

    def show(self, measured: Measured) -> None:
        form = self._session.output
        if form in (Format.JSON, Format.YAML):
            write_object(measured.to_json(), form)
            return
        rows = [
            {
                "stage": cost.stage,
                "plugin": cost.plugin,
                "form": cost.form,
                "calls": f"{cost.calls:,}",
                "us": f"{cost.wall_ns / 1e3 / measured.records:.2f}",
                "cpu": f"{cost.cpu_ns / 1e3 / measured.records:.2f}",
                "share": f"{measured.share(cost):.0%}",
            }
            for cost in measured.stages
        ]
        write_rows(rows, _COSTS, form, "stage")
        if form is not Format.TABLE:
            return
        kept = "" if measured.kept == measured.records else f", {measured.kept:,} of them kept"
        write_text(
            f"\n{pluralize(measured.records, 'record')}{kept}: {measured.per_second:,.0f} records/s by one task, "
            f"{measured.wall_us:.2f} us a record, {measured.cpu_us:.2f} us of processor time\n"
        )
        for sentence in measured.advice:
            write_text(f"{sentence}\n")
        self._warn(measured)

    def _warn(self, measured: Measured) -> None:
        if measured.records < _FEW_MEASURED:
            self._session.say(
                f"{pluralize(measured.records, 'record')} give rough numbers only: --limit puts more of a sink's "
                "--input, --timeout reads more of a source."
            )
        if measured.is_busy:
            self._session.say("The machine was busy with other work: on a quiet one the connector is faster.")


_FEW_MEASURED = 10_000
_COSTS = (
    Column("STAGE", lambda row: row["stage"]),
    Column("PLUGIN", lambda row: row["plugin"]),
    Column("FORM", lambda row: row["form"]),
    Column("CALLS", lambda row: row["calls"]),
    Column("US/RECORD", lambda row: row["us"]),
    Column("CPU US/RECORD", lambda row: row["cpu"]),
    Column("SHARE", lambda row: row["share"]),
)


# --- input of sinks ---


def _input(file: str, name: str | None, form: InputFormat) -> Iterable[InputRecord]:
    if name is None:
        raise UsageProblem(f"{file} is a sink: it needs records", hint="Name a file of lines: --input FILE, or -.")
    raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    if form is InputFormat.RECORDS:
        return list(_records(raw, "stdin" if name == "-" else name))
    return _lines(raw)


def _lines(raw: bytes) -> Iterator[InputRecord]:
    from kconnect.testing.trial import InputRecord

    for line in raw.splitlines():
        yield InputRecord(line)


def _records(raw: bytes, where: str) -> Iterator[InputRecord]:
    """Objects, one per line or in one array; the output of `connect try SOURCE -o json` is also accepted."""
    for number, item in enumerate(_objects(raw, where), 1):
        if not isinstance(item, dict):
            raise ConfigError(f"Record {number} of {where} is not a JSON object")
        stages = item.get("stages")
        if isinstance(stages, list):
            item = next((view["record"] for view in stages if view.get("stage") == "bytes"), None)
            if item is None:
                continue  # dropped or failed on the way
        yield _record(item, f"record {number} of {where}")


def _objects(raw: bytes, where: str) -> list[Any]:
    try:
        if raw.lstrip().startswith(b"["):
            found = json.loads(raw)
            return found if isinstance(found, list) else [found]
        return [json.loads(line) for line in raw.splitlines() if line.strip()]
    except (ValueError, RecursionError) as err:
        raise ConfigError(f"{where} is not JSON: {err}", hint='One object per line: {"key": .., "value": ..}') from err


def _record(item: Mapping[str, Any], where: str) -> InputRecord:
    from kconnect.testing.trial import InputRecord

    unknown = sorted(set(item) - {"topic", "partition", "key", "value", "headers", "timestamp", "offset"})
    if unknown:
        raise ConfigError(f"{where} has unknown fields: {', '.join(unknown)}")
    headers = [(header["key"], _bytes(header.get("value"))) for header in item.get("headers") or []]
    return InputRecord(
        _bytes(item.get("value")),
        _bytes(item.get("key")),
        item.get("topic"),
        item.get("partition") or 0,
        item.get("timestamp"),
        headers,
    )


def _bytes(value: Any) -> bytes | None:
    """Text unchanged, {"base64": ..} decoded, other JSON as JSON text."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and set(value) == {"base64"}:
        return base64.b64decode(value["base64"])
    return json.dumps(value, ensure_ascii=False).encode()

"""`connect topics doctor`: problems of the internal topics, and the commands that repair them."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from kconnect.errors import ConnectError
from kconnect_cli.exits import FAILED
from kconnect_cli.options.cluster import ON_CLUSTER, ClusterOptions, cluster_of
from kconnect_cli.screen.output import Format, painted, write_object, write_text
from kconnect_cli.session import session_of

if TYPE_CHECKING:
    from kconnect.admin.direct.doctor.facts import Evidence, Finding
    from kconnect_cli.options.topic_groups import TopicGroups


# Places of one finding that people are shown; JSON has all of them
_PLACES = 5
# On a narrower terminal lines are broken by it
_LEAST_COLUMNS = 40
_COLOURS = {"error": "red", "warning": "yellow", "info": "cyan"}
_FLAGS = {
    "bootstrap.servers": "--bootstrap-servers",
    "group.id": "--group-id",
    "config.storage.topic": "--config-topic",
    "status.storage.topic": "--status-topic",
    "offset.storage.topic": "--offset-topic",
}


def mount(groups: TopicGroups) -> None:
    """Add the commands to their groups."""
    groups.topics.command("doctor", cls=ON_CLUSTER)(doctor)


def doctor(ctx: typer.Context) -> None:
    """Report problems of the internal topics, where they are visible, and which commands repair them.

    Gets the conditions of tasks from the workers, with the user and certificates of the other commands. Ends with 1 if
    there is an error or a warning. Reports what it cannot check because a topic's name or group.id is unknown.
    `-o json` is for monitoring, `-o name` prints the codes of the findings.
    """
    session = session_of(ctx)
    options = cluster_of(session)
    from kconnect.admin.direct.doctor.diagnosis import diagnose, finding_to_json, is_sick, severity_counts
    from kconnect.admin.direct.doctor.gathering import gather_facts
    from kconnect.admin.direct.read.reader import ClusterReader
    from kconnect.logs.wording import counted

    access = options.access()
    no_access: list[tuple[str, str]] = []
    try:
        to_workers = session.access_to("the workers")
    except ConnectError as err:  # such as a password that is not set: the topics are read without it
        to_workers, no_access = None, [("what workers tell the user of this context", str(err))]
    with ClusterReader(access) as reader:
        facts = gather_facts(access, reader, int(time.time() * 1000), to_workers)
    findings, cluster = diagnose(facts), _cluster_words(options)
    not_checked = [*no_access, *facts.not_checked]
    counts = severity_counts(findings)
    if session.output is Format.NAME:
        write_text("".join(f"{code}\n" for code in dict.fromkeys(finding.code for finding in findings)))
    elif session.output is Format.TABLE:
        write_text("\n".join(_screen(findings, cluster)))
        for what, why in not_checked:
            session.say(f"Not checked: {what} ({why}).")
        summary = ", ".join(counted(count, severity) for severity, count in counts.items() if count)
        session.say(f"Found: {summary}." if summary else "No problems were found in what was checked.")
    else:
        document: dict[str, Any] = {
            "ok": not is_sick(findings),
            "counts": counts,
            "findings": [finding_to_json(finding, cluster) for finding in findings],
            "not_checked": [{"what": what, "why": why} for what, why in not_checked],
        }
        write_object(document, session.output)
    if is_sick(findings):
        raise typer.Exit(FAILED)


def _cluster_words(options: ClusterOptions) -> list[str]:
    """The options that identify the cluster, for the printed commands."""
    words = ["--worker", options.worker] if options.worker else []
    for key, value in options.settings:
        words += [_FLAGS[key], value]
    return [*words, "--command-config", options.command_config] if options.command_config else words


def _screen(findings: Sequence[Finding], cluster: Sequence[str]) -> Iterator[str]:
    """Lines for people: the findings by severity, each with its locations and remedy."""
    from kconnect.admin.direct.doctor.diagnosis import command_text

    severity = None
    for finding in findings:
        if finding.severity is not severity:
            severity = finding.severity
            yield painted(str(severity).upper(), _COLOURS[severity], bold=True)
        yield from _wrapped(f"  {finding.code}: {finding.sentence}.", finding.code)
        for evidence in finding.evidence[:_PLACES]:
            yield f"    at {_place(evidence)}"
        if len(finding.evidence) > _PLACES:
            yield f"    and {len(finding.evidence) - _PLACES} more (-o json has all)"
        if finding.hint:
            yield from _wrapped(f"    {finding.hint}")
        command = command_text(finding.repair, cluster)
        if command:
            yield f"    {painted('$ ' + command, 'green')}"
    if findings:
        yield ""


def _wrapped(text: str, emphasized: str = "") -> list[str]:
    """On a terminal as wide as that is, indented; else one line. The emphasized word is bold."""
    lines = [text]
    if sys.stdout.isatty():
        width = max(shutil.get_terminal_size().columns, _LEAST_COLUMNS)
        lines = textwrap.wrap(text, width, subsequent_indent="    ", break_on_hyphens=False)
    if emphasized:
        lines[0] = lines[0].replace(emphasized, painted(emphasized, bold=True), 1)
    return lines


def _place(evidence: Evidence) -> str:
    if evidence.offset is None:
        return f"topic {evidence.topic}" if evidence.key is None else f"topic {evidence.topic}, key {evidence.key}"
    return f"{evidence.topic}-{evidence.partition}@{evidence.offset} {evidence.key}"

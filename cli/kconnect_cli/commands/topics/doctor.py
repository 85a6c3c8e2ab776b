"""`connect topics doctor`: problems of the internal topics, and the commands that repair them, `repair` among these."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from kconnect.errors import ConnectError
from kconnect_cli.exits import FOUND
from kconnect_cli.options.changes import DryRun
from kconnect_cli.options.cluster import ON_CLUSTER, ClusterOptions, cluster_of
from kconnect_cli.screen.output import Format, painted, write_object, write_text
from kconnect_cli.session import CliSession, Yes, session_of

if TYPE_CHECKING:
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
    for word, group in groups.each:
        group.command("repair", cls=ON_CLUSTER)(_repair_of(word))


def doctor(ctx: typer.Context) -> None:
    """Report problems of the internal topics, where they are visible, and which commands repair them.

    Gets the conditions of tasks from the workers, with the user and certificates of the other commands. Ends with 7 if
    there is an error or a warning, with another code if it could not look. Reports what it cannot check because a
    topic's name or group.id is unknown. `-o json` is for monitoring, `-o name` prints the codes of the findings. The
    worker looks; --worker FILE or --bootstrap-servers looks from here, for Java's workers and where none runs.
    """
    session = session_of(ctx)
    from kconnect_cli.admin.asked_worker import AskedWorker, asks_worker

    if asks_worker(session):
        with AskedWorker(session) as worker:
            found = worker.doctor()
    else:
        found = _diagnosis(session, cluster_of(session))
    _show(session, found)
    if not found["ok"]:
        raise typer.Exit(FOUND)


def _diagnosis(session: CliSession, options: ClusterOptions) -> dict[str, Any]:
    """By what this process reads."""
    from kconnect.admin.direct.doctor.diagnosis import diagnose, diagnosis_to_json
    from kconnect.admin.direct.doctor.gathering import asks_as, gather_facts
    from kconnect.admin.direct.read.reader import ClusterReader

    access = options.access()
    no_access: list[tuple[str, str]] = []
    try:
        to_workers = session.access_to("the workers")
    except ConnectError as err:  # such as a password that is not set: the topics are read without it
        to_workers, no_access = None, [("what workers tell the user of this context", str(err))]
    with ClusterReader(access) as reader:
        facts = gather_facts(access, reader, int(time.time() * 1000), asks_as(to_workers))
    return diagnosis_to_json(diagnose(facts), [*no_access, *facts.not_checked], _cluster_words(options))


def _show(session: CliSession, found: dict[str, Any]) -> None:
    from kconnect.logs.wording import pluralize

    findings = found["findings"]
    if session.output is Format.NAME:
        write_text("".join(f"{code}\n" for code in dict.fromkeys(finding["code"] for finding in findings)))
    elif session.output is Format.TABLE:
        write_text("\n".join(_screen(findings)))
        for each in found["not_checked"]:
            session.say(f"Not checked: {each['what']} ({each['why']}).")
        summary = ", ".join(pluralize(count, severity) for severity, count in found["counts"].items() if count)
        session.say(f"Found: {summary}." if summary else "No problems were found in what was checked.")
    else:
        write_object(found, session.output)


def _cluster_words(options: ClusterOptions) -> list[str]:
    """The options that identify the cluster, for the printed commands."""
    words = ["--worker", options.worker] if options.worker else []
    for key, value in options.settings:
        words += [_FLAGS[key], value]
    return [*words, "--command-config", options.command_config] if options.command_config else words


def _screen(findings: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Lines for people: the findings by severity, each with its locations and remedy."""
    severity = None
    for finding in findings:
        if finding["severity"] != severity:
            severity = finding["severity"]
            yield painted(severity.upper(), _COLOURS[severity], bold=True)
        yield from _wrapped(f"  {finding['code']}: {finding['sentence']}.", finding["code"])
        for place in finding["evidence"][:_PLACES]:
            yield f"    at {_place(**place)}"
        if len(finding["evidence"]) > _PLACES:
            yield f"    and {len(finding['evidence']) - _PLACES} more (-o json has all)"
        if finding["hint"]:
            yield from _wrapped(f"    {finding['hint']}")
        if finding["repair"]:
            yield f"    {painted('$ ' + finding['repair'], 'green')}"
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


def _place(topic: str, partition: int | None, offset: int | None, key: str | None) -> str:
    if offset is None:
        return f"topic {topic}" if key is None else f"topic {topic}, key {key}"
    return f"{topic}-{partition}@{offset} {key}"


def _repair_of(word: str) -> Callable[..., None]:
    def repair(ctx: typer.Context, dry_run: DryRun = False, yes: Yes = False) -> None:
        """Create the topic if it is missing, correct settings with which no worker starts or writes, and add replicas.

        It is created as a worker of this file would; an existing one gets cleanup.policy=compact, a replica of each
        partition on three brokers, or on as many as are up, and a min.insync.replicas that these can meet. Its records
        and leaders stay as they are. The command ends once all replicas are in sync; --timeout gives it longer.
        """
        session = session_of(ctx)
        cluster = cluster_of(session)
        from kconnect.admin.direct.doctor.repairs import topic_repair
        from kconnect.admin.direct.read.reader import ClusterReader
        from kconnect_cli.options.topic_groups import internal_topic

        access = cluster.access()
        with ClusterReader(access) as reader:
            found = topic_repair(access, reader, internal_topic(word))
            if found.is_empty:
                behind = f" {_out_of_sync(found.behind)}" if found.behind else ""
                session.say(f"Topic {found.topic}: nothing must be repaired.{behind}")
                return
            for line in found.lines():
                session.say(line)
            if dry_run:
                session.say("Nothing was changed: this was a dry run.")
                return
            session.confirm(f"Repair topic {found.topic}?", yes=yes)
            found.carry_out(access, reader)
            session.say(f"Repaired topic {found.topic}.")

    return repair


def _out_of_sync(partitions: int) -> str:
    from kconnect.logs.wording import pluralize

    have = "has" if partitions == 1 else "have"
    return (
        f"{pluralize(partitions, 'partition')} {have} replicas that are not in sync: "
        "Kafka is still copying them, or a broker is down."
    )

"""Which connectors a command is for: names, regular expressions, a prefix, labels, --all, and the state they are in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kconnect.errors import NotFoundError
from kconnect_cli.exits import UsageProblem, refused_as_usage
from kconnect_cli.options.looks import Regexp
from kconnect_cli.session import CliSession

if TYPE_CHECKING:
    from kconnect.model import ConnectorStatus
    from kconnect.runtime.config.labels import Labels, LabelSelector

STATES = ("UNASSIGNED", "RUNNING", "PAUSED", "STOPPED", "FAILED", "RESTARTING", "DESTROYED")

_NAMES_HELP = "Connector names; with --regexp regular expressions."
_STATE_HELP = f"Only those in this state, or with a task in it; may be repeated: {', '.join(STATES[:5])}."
_Names = Annotated[list[str] | None, typer.Argument(metavar="NAME", help=_NAMES_HELP, show_default=False)]
_All = Annotated[bool, typer.Option("--all", help="All connectors.")]
_PREFIX_HELP = "Connectors whose names begin with this; may be repeated."
_Prefix = Annotated[list[str] | None, typer.Option("--prefix", metavar="PREFIX", help=_PREFIX_HELP, show_default=False)]
_LABELS_HELP = "Connectors with these labels: team=x, team!=x, team, !team; comma means and; may be repeated."
LabelOption = Annotated[
    list[str] | None, typer.Option("--labels", "-l", metavar="SELECTOR", help=_LABELS_HELP, show_default=False)
]
_Failed = Annotated[bool, typer.Option("--failed", help="Short for --state FAILED.")]
_State = Annotated[list[str] | None, typer.Option("--state", metavar="STATE", help=_STATE_HELP, show_default=False)]


@dataclass(frozen=True, slots=True)
class Selection:
    """What the options say. `states`: one of them is enough; empty takes any."""

    names: tuple[str, ...] = ()
    regexp: bool = False
    all: bool = False
    states: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    labels: LabelSelector | None = None

    @classmethod
    def of(
        cls,
        names: Sequence[str] | None,
        regexp: bool,
        all_: bool,
        failed: bool,
        state: Sequence[str] | None,
        prefixes: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
    ) -> Selection:
        """Errors: UsageProblem for options that are incompatible, unknown states, bad regular expressions."""
        states = {wanted.upper() for wanted in state or ()} | ({"FAILED"} if failed else set())
        if unknown := sorted(states.difference(STATES)):
            raise UsageProblem(f"Unknown state: {unknown[0]}", hint=f"States: {', '.join(STATES[:5])}.")
        if all_ and names:
            raise UsageProblem("--all cannot be combined with names", hint="Leave out --all, or the names.")
        if prefixes and names:
            raise UsageProblem("--prefix cannot be combined with names", hint="Leave out --prefix, or the names.")
        if labels and names and not regexp:
            raise UsageProblem("--labels cannot be combined with names", hint="Leave out --labels, or the names.")
        if regexp:
            _compiled(names or ())
        begins = checked_prefixes(prefixes)
        return cls(tuple(dict.fromkeys(names or ())), regexp, all_, frozenset(states), begins, parsed_selector(labels))

    @property
    def needs_looking(self) -> bool:
        """Whether the connectors that are there decide what is meant."""
        return self.all or self.regexp or bool(self.states or self.prefixes or self.labels)


def find_names(session: CliSession, selection: Selection, statuses: Mapping[str, ConnectorStatus]) -> list[str]:
    """Works as `select_names`, with the labels, which are read only where they are asked for."""
    if selection.labels is None:
        return select_names(selection, statuses)
    return select_names(selection, statuses, read_labels(session))


def select_names(
    selection: Selection, statuses: Mapping[str, ConnectorStatus], labels: Mapping[str, Labels | None] | None = None
) -> list[str]:
    """The connectors that are meant, in order; a plain name that is not there stays, for the worker to refuse it.

    `labels`: of each connector, as `labels_of` gives them; not needed by a selection without labels.
    Errors: NotFoundError when a regular expression matches none.
    """
    if selection.regexp:
        named = []
        for pattern in _compiled(selection.names):
            matching = [name for name in sorted(statuses) if pattern.fullmatch(name)]
            if not matching:
                raise NotFoundError(
                    f"No connector matches {pattern.pattern}", hint="The whole name has to match: add .* as needed."
                )
            named += matching
    else:
        named = list(selection.names) or sorted(statuses)
        if selection.prefixes:
            named = [name for name in named if name.startswith(selection.prefixes)]
    if selection.labels is not None:
        known = labels or {}
        named = [name for name in named if selection.labels.matches(known.get(name))]
    if not selection.states:
        return list(dict.fromkeys(named))
    return [name for name in dict.fromkeys(named) if name not in statuses or has_state(statuses[name], selection)]


def checked_prefixes(prefixes: Sequence[str] | None) -> tuple[str, ...]:
    """What --prefix says. Errors: UsageProblem for an empty one, which all names begin with."""
    if "" in (prefixes or ()):
        raise UsageProblem("--prefix is empty, which matches every connector", hint="Give a prefix, or --all.")
    return tuple(dict.fromkeys(prefixes or ()))


def parsed_selector(labels: Sequence[str] | None) -> LabelSelector | None:
    """What --labels says; None where it is not given. Errors: UsageProblem."""
    if not labels:
        return None
    from kconnect.runtime.config.labels import LabelSelector

    given = ",".join(labels)
    with refused_as_usage(f"--labels {given}: " if given else "--labels: "):
        return LabelSelector.parse(labels)


def require_positive(selector: LabelSelector) -> None:
    """Before deleting. Errors: UsageProblem for a selector that matches connectors without labels, made by anybody."""
    if not selector.is_positive:
        raise UsageProblem(
            f"--labels {selector.text} would also delete connectors without labels, which others made",
            hint="Add a label that yours have, for example -l team=x.",
        )


def read_labels(session: CliSession) -> dict[str, Labels | None]:
    """The labels of every connector; None where they cannot be read: such a connector is never chosen."""
    from kconnect.runtime.config.labels import labels_of

    return {name: labels_of(info.config) for name, info in session.reader.connector_infos().items()}


def say_unreadable(session: CliSession, labels: Mapping[str, Labels | None]) -> None:
    """Warn of labels that a worker of Java's has accepted, and no selector matches."""
    from kconnect.runtime.config.labels import LABELS

    if unreadable := sorted(name for name, found in labels.items() if found is None):
        session.say(f"Warning: {LABELS} of {', '.join(unreadable)} is not key=value pairs, so no selector matches.")


def has_state(status: ConnectorStatus, selection: Selection) -> bool:
    """Whether the connector or one of its tasks is in a state that is asked for."""
    seen = {str(status.connector.state), *(str(task.state) for task in status.tasks)}
    return not selection.states or bool(seen & selection.states)


@dataclass(frozen=True, slots=True)
class SelectionOptions:
    """Which connectors a command is for. Without names and without --all, --prefix, --labels or --regexp the call
    is refused; a command that only reads makes a `Selection` itself.
    """

    names: _Names = None
    regexp: Regexp = False
    prefix: _Prefix = None
    labels: LabelOption = None
    all_: _All = False
    failed: _Failed = False
    state: _State = None

    def apply(self, session: CliSession) -> None:
        session.keep(self)


def selected(session: CliSession, files: Sequence[str] | None = None) -> tuple[list[str], Selection]:
    """The connectors that the options of the call choose, also those of connector files, and what was asked for."""
    given = session.given(SelectionOptions) or SelectionOptions()
    names = [*(given.names or ()), *_names_in(files or ())]
    selection = Selection.of(names, given.regexp, given.all_, given.failed, given.state, given.prefix, given.labels)
    return chosen_names(session, selection), selection


def chosen_names(session: CliSession, selection: Selection) -> list[str]:
    """The connectors that are meant, looked up when needed. Errors: UsageProblem when none is named."""
    if not (selection.names or selection.all or selection.prefixes or selection.labels):
        raise UsageProblem(
            "Missing argument 'NAME'.",
            hint="Give names, --regexp with expressions, --prefix PREFIX, --labels SELECTOR, or --all.",
        )
    if not selection.needs_looking:
        return list(selection.names)
    labels = None if selection.labels is None else read_labels(session)
    names = select_names(selection, session.reader.connector_statuses(), labels)
    say_unreadable(session, labels or {})
    if not names:
        session.say(nothing_chosen(selection, session.url))
    return names


def nothing_chosen(selection: Selection, place: str) -> str:
    """A sentence for a selection that matches no connector."""
    states, begins = " or ".join(sorted(selection.states)), " or ".join(selection.prefixes)
    wished = [f"begins with {begins}"] if begins else []
    wished += [f"has labels {selection.labels.text}"] if selection.labels else []
    if wished:
        return f"No connector at {place} {' and '.join([*wished, *([f'is {states}'] if states else [])])}."
    return f"No connector is {states}." if states else f"No connectors at {place}."


def _names_in(files: Sequence[str]) -> list[str]:
    if not files:
        return []
    from kconnect_cli.files.connector_files import read_connector_files

    return [connector.name for connector in read_connector_files(files)]


def _compiled(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    found = []
    for pattern in patterns:
        try:
            found.append(re.compile(pattern))
        except re.error as err:
            raise UsageProblem(f"{pattern} is not a regular expression: {err}") from err
    return found

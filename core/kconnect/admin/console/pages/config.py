"""Editing a connector's config, and creating a connector: a form, checked while it is filled in, and the diff.

Also its history, as the config topic still has it, and the way back to an earlier version.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kconnect.admin.console.config_form import OTHERS, ConfigForm, bare_form, config_form, config_of, setting_changes
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Redirect, Reply, Route, note_of
from kconnect.admin.console.pages.connector import header
from kconnect.admin.console.seen import SeenConfig, merged
from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.history.config_rows import config_changes, take_change
from kconnect.admin.direct.history.connector_history import (
    ChangeKind,
    History,
    Version,
    config_history,
    history_to_json,
)
from kconnect.admin.direct.read.installed_plugins import secret_masks
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.client.exchange import segment
from kconnect.client.masks import Masks, masked_value, unmasked
from kconnect.errors import BadRequestError, ConnectError, NotFoundError, PreconditionFailedError
from kconnect.java.compat.properties import parse_properties
from kconnect.logs.redaction import HIDDEN
from kconnect.model import TargetState

# A rebalance of a quiet cluster takes 3 to 5 s
_FIRST_STATUS_S: Final = 5.0
_NONE: Final = SeenConfig("new", {})
_STATES: Final = ("RUNNING", "PAUSED", "STOPPED")


@dataclass(frozen=True, slots=True)
class _Draft:
    """A config that is being edited; `live` is the one in force, empty for a connector to be."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    live: Mapping[str, str] = field(repr=False)
    form: ConfigForm
    base: SeenConfig
    """What the form began as."""
    now: SeenConfig
    both: Sequence[str] = ()
    """Settings that the reader and somebody else have changed, each in another way."""


def edit(request: PageRequest) -> Reply:
    """The form of a connector's config."""
    name = request.path["name"]
    (info, tag), status = request.cluster.tagged_connector(name), request.cluster.connector_status(name)
    now = SeenConfig.of(info.config, tag, Masks(request.cluster).password_keys(info.config))
    draft = _drafted(request, name, info.config, info.config, now, now)
    values = {
        **header(request, status, info.config, "config"),
        **_values(draft, f"/ui/connectors/{segment(name)}/config"),
    }
    return Page("config_edit.html", f"Config of {name}", values, tab="connectors")


def create(request: PageRequest) -> Reply:
    """Which plugin; then its form."""
    plugin = request.query.get("plugin", "")
    if not plugin:
        found = [row for row in request.cluster.plugins() if row.get("type") in ("source", "sink")]
        plugins = sorted(found, key=lambda row: (str(row["type"]), str(row["class"])))
        return Page("create.html", "New connector", {"plugins": plugins}, tab="connectors")
    config = {"connector.class": plugin, "tasks.max": "1"}
    draft = _drafted(request, "", config, {}, _NONE, _NONE)
    values = {**_values(draft, "/ui/create"), "plugin": plugin, "states": _STATES}
    return Page("create_form.html", "New connector", values, tab="connectors")


def check(request: PageRequest) -> Reply:
    """What is wrong as it stands; the fields again, where others are declared now."""
    draft = _sent(request)
    values = _values(draft, "")
    # While a class is being typed nobody knows it: other fields would come without the secrets that were typed
    if request.field("shape") == draft.form.shape or not draft.form.groups:
        return Fragment("config_problems.html", values)
    values["keeps_others"] = _has_typed_secret(request, draft)
    return Fragment("config_fields.html", values, headers={"hx-retarget": "#fields", "hx-reswap": "outerHTML"})


def _has_typed_secret(request: PageRequest, draft: _Draft) -> bool:
    """Whether the other settings have a new secret: no answer brings it back, so the browser has to keep them."""
    passwords = {found.key for found in draft.form.fields if found.is_secret}
    return any(
        value != HIDDEN and value != draft.live.get(key) and masked_value(key, value, key in passwords) != value
        for key, value in parse_properties(request.field(OTHERS), "Other settings").items()
    )


def review(request: PageRequest) -> Reply:
    """What will change, and the question; above it what somebody else has changed since the form was opened."""
    return _review(request, _sent(request))


def save(request: PageRequest) -> Reply:
    """Put the config. Once it is another one than was reviewed, the review is shown again, with what has changed.

    Errors: PreconditionFailedError, where no dialog is open to show that.
    """
    draft = _sent(request)
    if request.field("step") != "save":
        raise BadRequestError("Look at the changes first: the button Review shows them")
    agreed = request.field("agreed") or draft.base.tag
    try:
        if agreed != draft.now.tag:
            raise PreconditionFailedError(
                f"The config of {draft.name} was changed by somebody else while you edited it",
                hint="Open the page again: it shows the config of now.",
            )
        done = note_of(request.cluster.changes.put_config(draft.name, draft.config, agreed))
    except PreconditionFailedError:
        if not request.is_fragment:
            raise
        return _review(request, _sent(request))
    return Redirect(f"/ui/connectors/{segment(draft.name)}", done)


def _review(request: PageRequest, draft: _Draft) -> Fragment:
    masks = Masks(request.cluster)
    passwords = masks.password_keys(draft.config) | masks.password_keys(draft.live)
    own = f"/ui/connectors/{segment(draft.name)}/config" if draft.live else "/ui/create"
    values = {
        **_values(draft, own),
        "changes": setting_changes(draft.live, draft.config, passwords),
        "problems": [(found.key, error) for found in draft.form.fields for error in found.errors],
        "is_new": not draft.live,
        "is_stale": draft.base.tag != draft.now.tag,
        "meanwhile": draft.base.changed_to(draft.now),
        "both": draft.both,
        "agreed": draft.now.tag,
    }
    return Fragment("config_review.html", values)


def save_new(request: PageRequest) -> Reply:
    """Create the connector. Errors: AlreadyExistsError."""
    draft, state = _sent(request), request.field("state", "RUNNING")
    if request.field("step") != "save":
        raise BadRequestError("Look at the settings first: the button Review shows them")
    if state not in _STATES:
        raise BadRequestError(f"{state} is not a state to begin with: {', '.join(_STATES)}")
    wanted = None if state == "RUNNING" else TargetState(state)
    done = note_of(request.cluster.changes.create(draft.name, draft.config, wanted))
    _await_status(request, draft.name)
    return Redirect(f"/ui/connectors/{segment(draft.name)}", done)


def _await_status(request: PageRequest, name: str) -> None:
    """A worker writes the first status of a connector a moment after it has created it: its page would not be found."""
    pause, deadline = threading.Event(), time.monotonic() + _FIRST_STATUS_S
    while request.cluster.rest is not None and time.monotonic() < deadline:
        try:
            request.cluster.connector_status(name)
            return
        except NotFoundError:
            pause.wait(0.1)


def _sent(request: PageRequest) -> _Draft:
    """The config in the form that was sent, with the secrets that masks stand for, on top of the config of now."""
    if "name" not in request.path:
        name = request.field("name").strip()
        if not name:
            raise BadRequestError("The connector needs a name")
        return _drafted(
            request, name, {**unmasked(config_of(request.form, {}), {}, name), "name": name}, {}, _NONE, _NONE
        )
    name = request.path["name"]
    info, tag = request.cluster.tagged_connector(name)
    live, base = info.config, SeenConfig.of_form(request.field)
    now = SeenConfig.of(live, tag, Masks(request.cluster).password_keys(live))
    found = merged(base, {**config_of(request.form, base.shown), "name": name}, live, now)
    return _drafted(request, name, found.config, live, base, now, found.both)


def _drafted(
    request: PageRequest,
    name: str,
    config: Mapping[str, str],
    live: Mapping[str, str],
    base: SeenConfig,
    now: SeenConfig,
    both: Sequence[str] = (),
) -> _Draft:
    validation = _validation(request, name, config)
    if validation is None:
        form = bare_form(_without(config, "name"), live)
    else:
        form = config_form(_without_name(validation), _without(config, "name"), live)
    return _Draft(name, config, live, form, base, now, both)


def _validation(request: PageRequest, name: str, config: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Returns None where the plugin is not known. Errors: ConnectError."""
    plugin = config.get("connector.class", "")
    if not plugin:
        return None
    try:
        # A worker refuses to validate without a name; the form of a new connector asks for it apart
        return request.cluster.validate(plugin, {"name": name or "new", **config})
    except ConnectError:
        # Workers answer 400, and Java's 500, for a class that they do not have: only this question is answered by 404
        try:
            request.cluster.plugin_config(plugin)
        except NotFoundError:
            return None
        raise


def _without_name(validation: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = [row for row in validation["configs"] if row["definition"]["name"] != "name"]
    return {**validation, "configs": rows, "error_count": sum(bool(row["value"]["errors"]) for row in rows)}


def _without(config: Mapping[str, str], key: str) -> dict[str, str]:
    return {name: value for name, value in config.items() if name != key}


def _values(draft: _Draft, own: str) -> dict[str, Any]:
    seen = draft.base.fields
    return {"form": draft.form, "form_url": own, "seen": seen, "name": draft.name, "keeps_others": False}


_EARLIER: Final = {
    "maybe": "There may have been earlier versions: compaction takes what a newer record replaces.",
    "lost": "There were earlier versions, which compaction has removed.",
}


def show_history(request: PageRequest) -> Reply:
    """Versions, the newest first."""
    name = request.path["name"]
    # Asked first: who may not see the connector over REST does not see its history either
    info, status = request.cluster.connector(name), request.cluster.connector_status(name)
    access = _topics_of(request)
    found = _history(access, name)
    document = history_to_json(found, secret_masks(access))
    changes = config_changes(access, name)
    versions = [
        {
            **shown,
            "time_ms": version.timestamp_ms,
            "can_return": _is_other(version.new, info.config),
            "who": _who(changes, version),
        }
        for shown, version in zip(document["versions"], found.versions, strict=True)
    ]
    values = {
        **header(request, status, info.config, "history"),
        "versions": versions[::-1],
        "earlier": _EARLIER.get(document["earlier"], ""),
        "can_change": request.cluster.rest is not None,
    }
    return Page("history.html", f"History of {name}", values, tab="connectors")


def review_way_back(request: PageRequest) -> Reply:
    """What the way back changes, and the question."""
    return _review_way_back(request, None)


def roll_back(request: PageRequest) -> Reply:
    """Put the config of an earlier version; or ask again, with what somebody else has changed since the question.

    Errors: PreconditionFailedError, where no dialog is open to show that.
    """
    name, seen = request.path["name"], SeenConfig.of_form(request.field)
    try:
        if request.cluster.tagged_connector(name)[1] != seen.tag:
            raise PreconditionFailedError(f"The config of {name} has changed since you were asked", hint="Look again.")
        wanted = _config_at(_topics_of(request), name, request.field("at"))
        done = note_of(request.cluster.changes.put_config(name, wanted, seen.tag))
    except PreconditionFailedError:
        if not request.is_fragment:
            raise
        return _review_way_back(request, seen)
    return Redirect(f"/ui/connectors/{segment(name)}", done)


def _review_way_back(request: PageRequest, seen: SeenConfig | None) -> Fragment:
    """`seen`: what an earlier question was about."""
    name, at = request.path["name"], request.field("at")
    info, tag = request.cluster.tagged_connector(name)
    wanted = _config_at(_topics_of(request), name, at)
    masks = Masks(request.cluster)
    passwords = masks.password_keys(info.config) | masks.password_keys(wanted)
    now = SeenConfig.of(info.config, tag, passwords)
    values = {
        "name": name,
        "url": f"/ui/connectors/{segment(name)}/history",
        "at": at,
        "seen": now.fields,
        "is_stale": seen is not None,
        "meanwhile": [] if seen is None else seen.changed_to(now),
        "both": (),
        "changes": setting_changes(info.config, wanted, passwords),
    }
    return Fragment("history_review.html", values)


def _who(changes: list[Mapping[str, Any]], version: Version) -> str:
    """Whose a config was and from where; empty where nobody knows, and for what is no config."""
    is_deletion = version.kind is ChangeKind.DELETED
    if version.new is None and not is_deletion:
        return ""
    change = take_change(changes, version.timestamp_ms, is_deletion=is_deletion)
    return " from ".join(filter(None, (change.get("user"), change.get("from"))))


def _topics_of(request: PageRequest) -> ClusterAccess:
    """Errors: BadRequestError where the config topic is not known, or there is none."""
    access = request.cluster.brokers
    if access is None or not access.worker.get(InternalTopic.CONFIG.setting):
        raise BadRequestError(
            "The config topic is not known here: a worker of a cluster has it, a standalone worker has none",
            hint="`connect topics config history NAME` reads it with --worker FILE.",
        )
    return access


def _history(access: ClusterAccess, name: str) -> History:
    with ClusterReader(access) as reader:
        return config_history(reader.records(InternalTopic.CONFIG), name)


def _config_at(access: ClusterAccess, name: str, at: str) -> dict[str, str]:
    """The config as the version at an offset left it. Errors: NotFoundError."""
    for version in _history(access, name).versions:
        if str(version.offset) == at and version.new is not None:
            return {str(key): str(value) for key, value in version.new.items()}
    raise NotFoundError(
        f"There is no version of {name} at offset {at} any more", hint="Compaction may have removed it."
    )


def _is_other(new: Mapping[str, str] | None, live: Mapping[str, str]) -> bool:
    """Whether a version has a config, and another one than that of now."""
    return new is not None and dict(new) != dict(live)


ROUTES: Final = (
    Route("/connectors/{name}/config", {"GET": edit, "POST": save}),
    Route("/connectors/{name}/config/check", {"POST": check}),
    Route("/connectors/{name}/config/review", {"POST": review}),
    Route("/create", {"GET": create, "POST": save_new}),
    Route("/create/check", {"POST": check}),
    Route("/create/review", {"POST": review}),
    Route("/connectors/{name}/history", {"GET": show_history, "POST": roll_back}),
    Route("/connectors/{name}/history/review", {"POST": review_way_back}),
)

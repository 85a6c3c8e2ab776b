"""The config history of a connector, as the config topic still has it, and the way back to an earlier version."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kconnect.admin.console.config_form import setting_changes
from kconnect.admin.console.html import segment
from kconnect.admin.console.page_request import Fragment, Page, PageRequest, Redirect, Reply, Route, note_of
from kconnect.admin.console.pages.connector import header
from kconnect.admin.console.seen import SeenConfig
from kconnect.admin.direct.access import ClusterAccess, InternalTopic
from kconnect.admin.direct.history.config_history import ChangeKind, History, Version, config_history, history_to_json
from kconnect.admin.direct.history.config_rows import config_changes, take_change
from kconnect.admin.direct.read.installed_plugins import secret_masks
from kconnect.admin.direct.read.reader import ClusterReader
from kconnect.client.masks import Masks
from kconnect.errors import BadRequestError, NotFoundError, PreconditionFailedError

_EARLIER: Final = {
    "maybe": "There may have been earlier versions: compaction takes what a newer record replaces.",
    "lost": "There were earlier versions, which compaction has removed.",
}


def show(request: PageRequest) -> Reply:
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


def review(request: PageRequest) -> Reply:
    """What the way back changes, and the question."""
    return _review(request, None)


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
        return _review(request, seen)
    return Redirect(f"/ui/connectors/{segment(name)}", done)


def _review(request: PageRequest, seen: SeenConfig | None) -> Fragment:
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
    Route("/connectors/{name}/history", {"GET": show, "POST": roll_back}),
    Route("/connectors/{name}/history/review", {"POST": review}),
)

"""`/ui/doctor`: what is wrong with the cluster's topics, and buttons that repair it: shown first, then asked.

A worker's console asks the worker, as the caller; repairs are made where the console reads the topics itself (`connect
ui --direct`). What is repaired is named by what it is, never by words of the request: those of the findings of now are
looked through.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kconnect.admin.console.page_request import Page, PageRequest, Redirect, Reply, Route
from kconnect.errors import BadRequestError, ConflictError, NoRouteError, NotFoundError

if TYPE_CHECKING:  # they load Kafka's client, and a worker's console never needs them
    from kconnect.admin.direct.client import DirectClient
    from kconnect.admin.direct.doctor.facts import Finding
    from kconnect.admin.direct.doctor.repairs import Edits
    from kconnect.admin.direct.edit.plan import Edit

_EVIDENCE: Final = 5
_NO_DOCTOR: Final = "The doctor looks at the cluster's internal topics, and this worker does not read them for others"


def show(request: PageRequest) -> Reply:
    """All findings, the worst first."""
    direct, rest = request.cluster.direct, request.cluster.rest
    if direct is not None:
        return _page(*_own_findings(direct), repairs=True)
    if rest is None:
        return _page([], [], why_not=_NO_DOCTOR)
    try:
        found = rest.doctor()
    except NotFoundError as err:
        return _page([], [], why_not=_NO_DOCTOR if isinstance(err, NoRouteError) else str(err))
    shown = [_item(finding, finding["repair"], finding["evidence"]) for finding in found["findings"]]
    return _page(shown, [(each["what"], each["why"]) for each in found["not_checked"]])


def _page(
    shown: Sequence[dict[str, Any]],
    not_checked: Sequence[tuple[str, str]],
    *,
    repairs: bool = False,
    why_not: str | None = None,
) -> Page:
    values = {"why_not": why_not, "repairs": repairs, "findings": shown, "not_checked": not_checked}
    return Page("doctor.html", "Doctor", values, tab="doctor")


def _own_findings(client: DirectClient) -> tuple[list[dict[str, Any]], Sequence[tuple[str, str]]]:
    """With the repairs that a button makes."""
    from kconnect.admin.direct.doctor.diagnosis import command_text
    from kconnect.admin.direct.doctor.repairs import Restart, repair_of

    findings, not_checked = _look(client)
    shown = []
    for finding in findings:
        try:
            repair = repair_of(finding.repair, client)
        except NotFoundError:  # it went away between two looks
            repair = None
        id_ = _id_of(finding.repair) if repair is not None else ""
        needs_worker = isinstance(repair, Restart)
        shown.append(_item(finding, command_text(finding.repair), finding.evidence, id_, needs_worker=needs_worker))
    return shown, not_checked


def _item(
    finding: object, command: str | None, evidence: Sequence[object], id_: str = "", *, needs_worker: bool = False
) -> dict[str, Any]:
    """What the page says of a finding; `id_` where a button repairs it."""
    return {
        "finding": finding,
        "command": command,
        "id": id_,
        "needs_worker": needs_worker,
        "more": max(0, len(evidence) - _EVIDENCE),
        "evidence": evidence[:_EVIDENCE],
    }


def preview(request: PageRequest) -> Reply:
    """What a repair would write, record by record; and the question."""
    client, finding, edits = _chosen(request, request.query.get("id", ""))
    values = {
        "finding": finding,
        "id": _id_of(finding.repair),
        "fingerprint": _fingerprint(edits.plan.edits),
        "title": edits.plan.title,
        "notes": edits.plan.notes,
        "warnings": _warnings(client, edits),
        "changes": _changes(client, edits.plan.edits),
    }
    return Page("doctor_repair.html", edits.plan.title, values, tab="doctor")


def repair(request: PageRequest) -> Reply:
    """Write it, if it is still what was shown. Errors: ConflictError, NotFoundError; those of the writing."""
    client, _, edits = _chosen(request, request.field("id"))
    if _fingerprint(edits.plan.edits) != request.field("fingerprint"):
        raise ConflictError(
            "The records have changed since they were shown", hint="Look at the doctor's findings again."
        )
    from kconnect.admin.direct.edit.apply import apply_plan

    applied = apply_plan(client.access, client.reader, edits.plan, force=edits.is_forced)
    client.forget()
    more = f" Note: {'; '.join(applied.meanwhile)}." if applied.meanwhile else ""
    return Redirect("/ui/doctor", f"{edits.plan.title}: written and read back.{more}")


def _look(client: DirectClient) -> tuple[Sequence[Finding], Sequence[tuple[str, str]]]:
    from kconnect.admin.direct.doctor.diagnosis import diagnose
    from kconnect.admin.direct.doctor.gathering import gather_facts

    facts = gather_facts(client.access, client.reader, time.time_ns() // 1_000_000)
    return diagnose(facts), facts.not_checked


def _chosen(request: PageRequest, wanted: str) -> tuple[DirectClient, Finding, Edits]:
    """The finding of that id, and its repair. Errors: NotFoundError; BadRequestError, also without topics."""
    client = request.cluster.direct
    if client is None:
        raise BadRequestError(
            "Repairs need the topics, and this console asks a worker",
            hint="connect ui --direct --worker WORKER.properties reaches them.",
        )
    from kconnect.admin.direct.doctor.repairs import Edits, repair_of

    finding = next((each for each in _look(client)[0] if each.repair and _id_of(each.repair) == wanted), None)
    if finding is None:
        raise NotFoundError("There is nothing left to repair here", hint="Look at the doctor's findings again.")
    found = repair_of(finding.repair, client)
    if not isinstance(found, Edits):
        raise BadRequestError("This repair is a request to a worker, and the console reads the topics")
    return client, finding, found


def _warnings(client: DirectClient, edits: Edits) -> list[str]:
    """What stands against it. Errors: ConflictError when it must not be written."""
    from kconnect.admin.direct.edit.apply import check_plan

    checked = check_plan(client.access, client.reader, edits.plan, force=edits.is_forced)
    return [*checked.overridden, *checked.warnings]


def _changes(client: DirectClient, edits: Sequence[Edit]) -> list[dict[str, Any]]:
    masks = client.masks
    return [
        {
            "topic": edit.topic or client.access.topic(edit.which),
            "key": edit.key_text,
            "at": None if edit.old is None else f"{edit.old.partition}, offset {edit.old.offset}",
            "before": None if edit.old is None else _text(masks.value(edit.which, edit.key, edit.old.value)),
            "after": _text(masks.value(edit.which, edit.key, edit.new)),
        }
        for edit in edits
    ]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")


def _id_of(words: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:20]


def _fingerprint(edits: Sequence[Edit]) -> str:
    """The same while the same would be written over the same records."""
    seen = hashlib.sha256()
    for edit in edits:
        place = None if edit.old is None else (edit.old.partition, edit.old.offset)
        seen.update(repr((str(edit.which), edit.topic, edit.key, edit.new, place)).encode())
    return seen.hexdigest()[:32]


ROUTES: Final = (Route("/doctor", {"GET": show}), Route("/doctor/repair", {"GET": preview, "POST": repair}))

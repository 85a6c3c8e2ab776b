"""What the doctor finds where the status topic and the group, or the conditions of tasks, say different things."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kconnect.admin.direct.doctor.diagnosis import command_text, diagnose
from kconnect.admin.direct.group.live_group import LiveGroup, read_group
from kconnect.model import Condition, LogRecord, RunState, TaskCondition, TaskId
from kconnect.runtime.herder.assignment.protocol import Work
from kconnect.runtime.herder.group.admin_frames import GroupDescription, MemberDescription
from kconnect.runtime.storage.status_topic import StoredStatus, encode_status, status_key
from kit.doctor_facts import NOW_MS, RUNNING, STATUSES, facts, found, group, log, status_facts

LATE = StoredStatus(RunState.UNASSIGNED, "w2:8083", 2)


def owning(*work, state="Stable"):
    """The group of which worker w1 has this work."""
    first, second = group().workers
    connectors = tuple(part for part in work if isinstance(part, str))
    tasks = tuple(part for part in work if not isinstance(part, str))
    return LiveGroup("c", state, "sessioned", (replace(first, work=Work(connectors, tasks)), second))


@pytest.mark.parametrize(
    ("subject", "named"), [("src", "connector src"), (TaskId("src", 0), "task src-0")], ids=["connector", "task"]
)
def test_a_late_status_that_covers_a_newer_one_is_found_with_the_command_that_writes_the_newer_one_again(
    subject, named
):
    degraded = facts(statuses=[(status_key(subject), encode_status(LATE))], group=owning("src", TaskId("src", 0)))
    [finding] = found("status-covered", degraded)
    assert finding.sentence.startswith(
        f"The last status of {named} is UNASSIGNED of worker w2:8083 in generation 2, written late: it hides "
        "RUNNING of worker w1:8083 in generation 3"
    )
    put = (
        "connect",
        "topics",
        "status",
        "put",
        "--force",
        status_key(subject).decode(),
        encode_status(RUNNING).decode(),
    )
    assert (finding.repair, finding.connector) == (put, "src")
    assert [evidence.offset for evidence in finding.evidence] == [3]


@pytest.mark.parametrize(
    ("subject", "repair"),
    [
        ("src", ("connect", "connectors", "restart", "src")),
        (TaskId("src", 0), ("connect", "tasks", "restart", "src", "0")),
    ],
    ids=["connector", "task"],
)
def test_what_is_unassigned_although_a_live_worker_has_it_is_found_with_the_command_that_restarts_it(subject, repair):
    late = StoredStatus(RunState.UNASSIGNED, "w2:8083", 4)
    degraded = facts(statuses=[(status_key(subject), encode_status(late))], group=owning(subject))
    [finding] = found("unassigned-but-owned", degraded)
    assert "is UNASSIGNED, says worker w2:8083 in generation 4, but the group has assigned it to worker w1:8083" in (
        finding.sentence
    )
    assert finding.repair == repair
    assert not found("unassigned-but-owned", replace(degraded, group=owning(subject, state="PreparingRebalance")))
    assert not found("unassigned-but-owned", replace(degraded, group=group()))


def test_after_a_group_began_to_count_anew_the_worker_that_has_it_is_believed():
    anew = StoredStatus(RunState.RUNNING, "w2:8083", 1)
    records = [(status_key("src"), encode_status(anew))]
    first, second = group().workers
    of_second = LiveGroup("c", "Stable", "sessioned", (first, replace(second, work=Work(("src",), ()))))
    assert not found("status-covered", facts(statuses=records, group=of_second))


@pytest.mark.parametrize(
    "nobody", [None, group(urls=[]), owning("src", state="PreparingRebalance"), group(urls=["http://w3:8083/"])]
)
def test_where_nobody_is_known_to_have_it_an_older_generation_may_be_of_a_group_that_counts_anew(nobody):
    """A command that writes the other status again would bring back that of a worker that is long gone."""
    anew = encode_status(StoredStatus(RunState.RUNNING, "w2:8083", 1))
    assert not found("status-covered", facts(statuses=[(status_key("src"), anew)], group=nobody))


def test_statuses_younger_than_what_was_read_belong_to_connectors_that_are_not_known_yet():
    young = [LogRecord("c-status", 0, 9, status_key("new"), encode_status(RUNNING), NOW_MS + 5)]
    degraded = facts(statuses=[])
    degraded = replace(degraded, statuses=status_facts([*log("c-status", STATUSES), *young]))
    assert found("orphan-status", degraded) == []


@pytest.mark.parametrize("state", ["PreparingRebalance", "CompletingRebalance"])
def test_while_a_rebalance_runs_nobody_is_taken_for_gone(state):
    unnamed = MemberDescription("m-1", "c", "/h", b"", b"")  # what the broker tells of members meanwhile
    rebalancing = read_group(GroupDescription("c", state, "connect", "", (unnamed,)))
    assert diagnose(facts(group=rebalancing)) == []


def test_java_workers_on_hosts_with_an_underscore_are_alive_though_their_statuses_do_not_name_them():
    nameless = encode_status(replace(RUNNING, worker_id="null:-1"))
    records = [(status_key(subject), nameless) for subject in ("src", TaskId("src", 0))]
    assert diagnose(facts(statuses=records, group=group(urls=["http://connect_1:8083/"]))) == []
    assert found("stale-running", facts(statuses=records, group=group()))


def test_a_status_that_a_worker_left_behind_before_it_joined_another_group_is_no_sharing():
    elsewhere = group("other", urls=["http://w1:8083/"])
    assert not found("topics-shared", facts(group=group(urls=["http://w2:8083/"]), others=(elsewhere,)))


def test_a_connectors_stale_status_stays_while_live_workers_run_its_tasks():
    """A tombstone of it has every worker forget the statuses of its tasks, too."""
    live = (status_key(TaskId("src", 0)), encode_status(replace(RUNNING, worker_id="w2:8083")))
    [finding] = found("stale-running", facts(statuses=[live], group=group(urls=["http://w2:8083/"])))
    assert finding.repair == ()
    assert finding.hint


@pytest.mark.parametrize(
    ("subject", "repair"),
    [
        ("src", ("connect", "connectors", "restart", "src")),
        (TaskId("src", 0), ("connect", "tasks", "restart", "src", "0")),
        ("gone", ("connect", "topics", "status", "delete", "--force", "status-connector-gone")),
    ],
    ids=["connector", "task", "of no connector"],
)
def test_a_malformed_status_of_what_workers_run_is_replaced_by_their_next_one(subject, repair):
    degraded = facts(statuses=[(status_key(subject), b"{}")])
    [finding] = found("malformed-record", degraded)
    assert finding.repair == repair
    [finding] = found("malformed-record", replace(degraded, configs=None))
    assert finding.repair[2] == "restart", "it may well exist"


def test_no_status_is_repaired_while_workers_of_two_clusters_write_to_the_topic():
    """The statuses of the other's workers look like those of workers that died."""
    theirs = encode_status(replace(RUNNING, worker_id="o1:8083"))
    statuses = [(status_key(subject), theirs) for subject in ("src", TaskId("src", 0))]
    first, second = group("other", urls=["http://o1:8083/", "http://o2:8083/"]).workers
    other = LiveGroup("other", "Stable", "sessioned", (replace(first, work=Work(("src",), ())), second))
    [alone] = found("stale-running", facts(statuses=statuses))
    assert alone.repair
    degraded = facts(statuses=statuses, others=(other,))
    assert found("topics-shared", degraded)
    [stale] = found("stale-running", degraded)
    assert (stale.repair, stale.hint) == (
        (),
        "Workers of two clusters write to this topic: nothing of it is repaired before that has an end.",
    )


def test_offsets_of_a_connector_that_another_live_group_runs_are_not_offered_for_deletion():
    """Two clusters may share this topic alone: what is an orphan in one is in use in the other."""
    first, second = group("other", urls=["http://o1:8083/", "http://o2:8083/"]).workers
    other = LiveGroup("other", "Stable", "sessioned", (replace(first, work=Work(("gone",), ())), second))
    orphan = (b'["gone",{"a":1}]', b'{"position":2}')
    [finding] = found("orphan-offsets", facts(offsets=[orphan], others=(other,)))
    assert finding.repair == ()
    assert "Group other may run a connector of this name" in (finding.hint or "")
    [finding] = found("orphan-offsets", facts(offsets=[orphan], others=(group("other"),)))
    assert finding.repair[-1] == orphan[0].decode()


def test_statuses_of_paused_tasks_of_gone_workers_are_left_alone():
    paused = encode_status(replace(RUNNING, state=RunState.PAUSED, worker_id="gone:8083"))
    assert diagnose(facts(statuses=[(status_key("src"), paused)])) == []


def test_work_that_nobody_runs_while_the_group_waits_for_its_worker_is_found():
    first, second = group().workers
    held = replace(first, delay_ms=300_000, held=Work(("src",), (TaskId("src", 0), TaskId("src", 1))))
    (reported,) = found("work-held-back", facts(group=LiveGroup("c", "Stable", "sessioned", (held, second))))
    assert reported.sentence == (
        "1 connector and 2 tasks of workers that left group c: not run for up to 5 min 0 s, as the group waits "
        "for them (scheduled.rebalance.max.delay.ms)"
    )
    waits_no_more = replace(held, delay_ms=0)
    assert diagnose(facts(group=LiveGroup("c", "Stable", "sessioned", (waits_no_more, second)))) == []


def test_tasks_that_do_not_get_on_are_found_as_their_workers_say():
    def of(condition):
        return TaskCondition(condition, NOW_MS - 90_000, 12, "the cause")

    reported = {
        TaskId("src", 0): ("http://w1:8083/", of(Condition.RETRYING)),
        TaskId("src", 1): ("http://w2:8083/", of(Condition.STUCK)),
        TaskId("src", 2): ("http://w2:8083/", of(Condition.NOT_COMMITTING)),
        TaskId("src", 3): ("http://w2:8083/", of(Condition.LAGGING)),
        TaskId("src", 4): ("http://w2:8083/", of(Condition.HEALTHY)),
        "src": ("http://w1:8083/", of(Condition.NO_TASK_CONFIGS)),
    }
    seen = {finding.code: finding for finding in diagnose(facts(conditions=reported))}
    assert {code: str(finding.severity) for code, finding in seen.items()} == {
        "connector-no-task-configs": "warning",
        "task-retrying": "warning",
        "task-stuck": "warning",
        "task-not-committing": "warning",
        "task-lagging": "info",
    }
    asked = seen["connector-no-task-configs"]
    assert asked.sentence == "Connector src on http://w1:8083/ has given no task configs for 90 s: the cause"
    assert (asked.connector, asked.repair) == ("src", ())
    stuck = seen["task-stuck"]
    assert stuck.sentence == "Task src-1 on http://w2:8083/ has been stuck for 90 s: the cause"
    assert command_text(stuck.repair, ["--worker", "w.properties"]) == "connect tasks restart src 1"


def test_sharing_is_found_from_the_side_whose_workers_wrote_last_too():
    """Each of the two groups takes back what the other says, until one of them gives up."""
    theirs = encode_status(replace(RUNNING, worker_id="o1:8083", generation=7))
    key, ours = status_key("src"), encode_status(RUNNING)
    first, second = group("other", urls=["http://o1:8083/", "http://o2:8083/"]).workers
    other = LiveGroup("other", "Stable", "sessioned", (replace(first, work=Work(("src",), ())), second))
    taken_back = facts(statuses=[(key, theirs), (key, ours)], others=(other,))
    [shared] = found("topics-shared", taken_back)
    assert "Live workers of another group, other" in shared.sentence
    moved_on = encode_status(replace(RUNNING, generation=8))
    assert not found("topics-shared", facts(statuses=[(key, theirs), (key, moved_on)], others=(other,))), (
        "o1 was in this group, and left it"
    )
    assert not found("topics-shared", replace(taken_back, others=(group("other", urls=["http://o1:8083/"]),)))


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        ({"others": (group("other", urls=["http://o1:8083/"]),)}, "The worker is alive, in group other"),
        (
            {"others": (replace(group("other", urls=[""]), state="PreparingRebalance"),)},
            "Group other is rebalancing, and may have it",
        ),
        ({"knows_others": False}, "It may be alive in another group, which this user may not look for"),
    ],
    ids=["alive elsewhere", "who knows", "not allowed to know"],
)
def test_a_status_is_not_deleted_while_its_worker_may_be_alive_in_another_group(changed, hint):
    theirs = encode_status(replace(RUNNING, worker_id="o1:8083"))
    statuses = [(status_key(subject), theirs) for subject in ("src", TaskId("src", 0))]
    [finding] = found("stale-running", facts(statuses=statuses, **changed))
    assert finding.repair == ()
    assert hint in finding.hint

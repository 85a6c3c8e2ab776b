"""`If-Match`: changes that hold only for the version that the caller knows, decided where the change is."""

from __future__ import annotations

import threading

import pytest

from kconnect.errors import PreconditionFailedError
from kconnect.model import ConnectorOffset, TargetState
from kconnect.runtime.herder.decisions.etags import config_etag, offsets_etag
from kconnect.runtime.herder.decisions.instructions import ModifyOffsets, Refuse, Write
from kconnect.runtime.herder.decisions.requests import AskOffsets, AskPut, AskRemove
from kit.distributed import memory_cluster
from kit.herder_state import Member, of
from kit.herders import config

C = "fsrc"
OTHER = ('"c-00000000000000000000000000000000"',)


def member() -> Member:
    member = Member()
    member.connector(C, tasks=2)
    return member.settled((C,), ())


def test_tags_are_of_the_content_whatever_its_order():
    assert config_etag({"a": "1", "b": "2"}) == config_etag({"b": "2", "a": "1"})
    assert config_etag({"a": "1"}) != config_etag({"a": "2"})
    first, second = ConnectorOffset({"p": 1}, {"o": 1}), ConnectorOffset({"p": 2}, {"o": 1})
    assert offsets_etag([first, second]) == offsets_etag([second, first])
    assert offsets_etag([first]) != offsets_etag([ConnectorOffset({"p": 1}, {"o": 2})])


@pytest.mark.parametrize(
    "ask",
    [
        lambda tags: AskPut(C, {"name": C, "connector.class": "source", "x": "1"}, None, replace=True, expected=tags),
        lambda tags: AskRemove(C, tags),
    ],
)
def test_the_leader_compares_with_what_it_would_overwrite(ask):
    known = member()
    current = config_etag(dict(known.state.facts.snapshot.configs[C]))
    refused = of(Refuse, known.ask(ask(OTHER))).error
    assert isinstance(refused, PreconditionFailedError)
    assert refused.etag == current
    for tags in ((current,), (*OTHER, current), ("*",), None):
        assert of(Write, member().ask(ask(tags)))


def test_a_connector_that_does_not_exist_matches_nothing():
    ask = AskPut("new", {"name": "new", "connector.class": "source"}, None, replace=True, expected=("*",))
    refused = of(Refuse, member().ask(ask)).error
    assert isinstance(refused, PreconditionFailedError)
    assert "does not exist" in str(refused)


def test_offsets_may_be_compared_by_the_tag_of_their_connector_or_by_their_own():
    known = Member()
    known.connector(C)
    known.store.put_target_state(C, TargetState.STOPPED)
    known.settled((), ())
    current = config_etag(dict(known.state.facts.snapshot.configs[C]))
    assert of(ModifyOffsets, known.ask(AskOffsets(C, None, (current,)))).expected is None
    assert isinstance(of(Refuse, known.ask(AskOffsets(C, None, OTHER))).error, PreconditionFailedError)
    own = '"o-1"'
    assert of(ModifyOffsets, known.ask(AskOffsets(C, None, (*OTHER, own)))).expected == [own]


def test_of_many_who_change_the_same_version_on_two_workers_one_succeeds():
    with memory_cluster(2) as cluster:
        cluster.create(C)
        herder = cluster.leader.herder
        tag = config_etag(dict(herder.connector_config(C)))
        outcomes: list[str] = []

        def change(number: int) -> None:
            try:
                herder.patch_connector(C, {"number": str(number)}, expected=(tag,))
                outcomes.append("changed")
            except PreconditionFailedError as err:
                outcomes.append("refused" if err.etag not in (None, tag) else f"refused, with the tag {err.etag}")

        threads = [threading.Thread(target=change, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["changed"] + ["refused"] * 7
        follower = next(node for node in cluster.nodes if node is not cluster.leader).herder
        with pytest.raises(PreconditionFailedError):  # before it sends the request to the leader, which may be Java's
            follower.put_connector(C, config(C), replace=True, expected=(tag,))
        with pytest.raises(PreconditionFailedError):
            follower.delete_connector(C, expected=(tag,))


def test_offsets_that_somebody_changed_meanwhile_are_left_alone():
    with memory_cluster(1) as cluster:
        cluster.create(C, state=TargetState.STOPPED)
        herder = cluster.leader.herder
        before = offsets_etag(herder.connector_offsets(C))
        partition = {"filename": "/in"}
        herder.alter_connector_offsets(C, [ConnectorOffset(partition, {"position": 1})], expected=(before,))
        with pytest.raises(PreconditionFailedError, match="offsets of connector fsrc") as caught:
            herder.alter_connector_offsets(C, [ConnectorOffset(partition, {"position": 2})], expected=(before,))
        assert caught.value.etag == offsets_etag(herder.connector_offsets(C)) != before
        with pytest.raises(PreconditionFailedError):
            herder.reset_connector_offsets(C, expected=(before,))
        herder.reset_connector_offsets(C, expected=(caught.value.etag,))
        assert herder.connector_offsets(C) == []

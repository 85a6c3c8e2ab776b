"""The topics and groups that an editor's config may name."""

from __future__ import annotations

from kconnect.runtime.rest.access.limits import Limits, Others
from kit.granted_configs import one, sink, source


def test_a_mirror_leaves_out_the_clusters_own_topics_though_its_class_was_granted(host):
    limits = Limits(classes=("*MirrorSource*",))
    mirror = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    assert limits.beyond(one(mirror, topics="orders-.*"), host) == []
    assert limits.beyond(one(mirror, **{"topics.exclude": "__.*,connect-.*"}), host) == []
    assert limits.beyond(one(mirror), host) == [
        "topics of MirrorSourceConnector match connect-configs, one of the worker's own topics; topics.exclude leaves "
        "it out"
    ]
    assert len(limits.beyond(one(mirror, **{"topics": "connect-.*", "topics.exclude": "connect-[co].*"}), host)) == 1


def test_who_may_edit_the_other_connector_may_name_its_group(host):
    config = sink(**{"consumer.override.group.id": "connect-eve-old"})
    assert Limits().beyond(config, host, Others(edits=lambda name: name.startswith("eve-"))) == []
    assert Limits().beyond(config, host, Others(edits=lambda name: name == "eve-2")) == [
        "consumer.override.group.id names connect-eve-old, the group of connector eve-old"
    ]


def test_a_group_that_another_connector_names_is_that_connectors(host):
    config = sink(**{"consumer.override.group.id": "shop"})
    others = Others("eve-2", lambda name: name.startswith("eve-"), lambda: {"orders": "shop", "eve-2": "shop"})
    assert Limits().beyond(config, host, others) == [
        "consumer.override.group.id names shop, the group of connector orders"
    ]
    assert Limits().beyond(config, host, Others("eve-2", others.edits, lambda: {"eve-old": "shop"})) == []


def test_a_mirrors_checkpoints_move_no_group_of_another_connector(host):
    limits = Limits(classes=("*MirrorCheckpoint*",))
    others = Others("eve-2", groups=lambda: {"orders": "connect-orders"})
    cls = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
    synced = {"sync.group.offsets.enabled": "true"}
    assert limits.beyond(one(cls), host, others) == []
    assert limits.beyond(one(cls, groups="app-.*", **synced), host, others) == []
    assert limits.beyond(one(cls, **synced), host, others) == [
        "groups of MirrorCheckpointConnector match connect-orders, the group of connector orders "
        "(sync.group.offsets.enabled)"
    ]


def test_a_name_in_the_config_makes_no_other_connectors_group_ones_own(host):
    """A PATCH may change the setting `name`, and renames nothing."""
    config = {**sink(**{"consumer.override.group.id": "connect-orders"}), "name": "orders"}
    assert Limits().beyond(config, host, Others("eve-2")) == [
        "consumer.override.group.id names connect-orders, the group of connector orders"
    ]


def test_topics_hold_what_a_config_reads_and_writes_and_where_it_routes(host):
    limits = Limits(topics=("eve-*", "shared"))
    router = {"transforms": "r", "transforms.r.type": "RegexRouter", "transforms.r.regex": "(.*)"}
    allowed = (
        source(),
        sink(topics="eve-1, shared"),
        one("VerifiableSink", **{"topics.regex": r"eve-[a-z]+"}),
        one("VerifiableSink", **{"topics.regex": r"eve-a\.b"}),
        one("SqlSource", **{"topic.prefix": "eve-db-"}),
        source(**router, **{"transforms.r.replacement": "eve-$1"}),
        source(
            **{"transforms": "t", "transforms.t.type": "TimestampRouter", "transforms.t.topic.format": "${topic}-x"}
        ),
    )
    refused = (
        source(topic="orders"),
        sink(topics="eve-1,orders"),
        one("VerifiableSink", **{"topics.regex": r"eve-.*|orders"}),
        one("VerifiableSink", **{"topics.regex": r".*"}),
        one("VerifiableSink", **{"topics.regex": r"eve-?orders"}),
        one("VerifiableSink", **{"topics.regex": r"eve-{0}orders"}),
        one("SqlSource", **{"topic.prefix": "ev"}),
        one("SqlSource", **{"topic.prefix": "shared"}),
        source(**router, **{"transforms.r.replacement": "$1"}),
        source(**router, **{"transforms.r.replacement": "orders"}),
        sink(**{"errors.deadletterqueue.topic.name": "letters"}),
        source(
            topic="shared",
            **{"transforms": "t", "transforms.t.type": "TimestampRouter", "transforms.t.topic.format": "${topic}-x"},
        ),
        source(transforms="o", **{"transforms.o.type": "com.other.Router"}),
    )
    assert [config for config in allowed if limits.beyond(config, host)] == []
    assert [config for config in refused if not limits.beyond(config, host)] == []


def test_topics_hold_what_a_mirror_reads_and_what_that_is_called_here(host):
    limits = Limits(topics=("eve-*", "us.eve-*"), classes=("*MirrorSource*",))
    mirror = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
    us = {"source.cluster.alias": "us"}
    same = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
    own = {"topics.exclude": "connect-.*"}
    allowed = (one(mirror, topics="eve-.*,eve-1", **us), one(mirror, topics="eve-.*", **same))
    refused = (
        one(mirror, **us, **own),
        one(mirror, topics="eve-1|orders", **us),
        one(mirror, topics="eve-.*"),
        one(mirror, topics="eve-.*", **{"source.cluster.alias": "orders"}),
        one(mirror, topics="eve-.*", **us, **{"replication.policy.separator": "-"}),
    )
    assert [config for config in allowed if limits.beyond(config, host)] == []
    assert [config for config in refused if not limits.beyond(config, host)] == []
    assert limits.beyond(one(mirror, topics="eve-.*", **{"source.cluster.alias": "eu"}), host) == [
        r"topics=eve-.*, which is eu\.eve-.* here, is not among the grant's topics"
    ]

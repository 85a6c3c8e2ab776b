"""Which flows an mm2.properties file has, and what is said of one that cannot run."""

from __future__ import annotations

import pytest

from kconnect.errors import ConfigError
from kconnect.worker.mirror import Flow, MirrorSettings

_TWO = {"clusters": "A, B", "A.bootstrap.servers": "a:9092", "B.bootstrap.servers": "b:9092"}


def flows(properties: dict[str, str], *targets: str) -> list[str]:
    return [str(flow) for flow in MirrorSettings.of({**_TWO, **properties}).flows(targets)]


def test_a_flow_runs_when_it_is_enabled_or_has_heartbeats() -> None:
    quiet = {"emit.heartbeats.enabled": "false"}
    assert flows({"A->B.enabled": "true"}) == ["A->B", "B->A"]
    assert flows({"A->B.enabled": "TRUE", **quiet}) == ["A->B"]
    assert flows({"A->B.enabled": "yes", **quiet, "B->A.emit.heartbeats.enabled": "true"}) == ["B->A"]
    assert flows({"A->B.enabled": "true", "B->A.emit.heartbeats.enabled": "false"}) == ["A->B"]


def test_only_flows_to_some_clusters_can_be_chosen() -> None:
    assert flows({"A->B.enabled": "true"}, "B") == ["A->B"]
    assert flows({"A->B.enabled": "true"}, "A") == ["B->A"]
    with pytest.raises(ConfigError, match="C is not a cluster of the file, which has: A, B"):
        flows({"A->B.enabled": "true"}, "C")


def test_a_file_without_a_flow_or_a_cluster_without_brokers_is_refused() -> None:
    with pytest.raises(ConfigError, match="No source->target replication flows"):
        flows({"emit.heartbeats.enabled": "false"})
    with pytest.raises(ConfigError, match=r"Cluster C has no C\.bootstrap\.servers: flow A->C cannot reach it"):
        flows({"clusters": "A,B,C", "A->C.enabled": "true", "emit.heartbeats.enabled": "false"})


def test_an_enabled_flow_may_be_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRROR_BACK", "true")
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    settings = MirrorSettings.of(
        {
            **_TWO,
            "B->A.enabled": "${env:MIRROR_BACK}",
            "config.providers": "env",
            "config.providers.env.class": provider,
        }
    )
    assert settings.is_enabled(Flow("B", "A"))
    assert settings.connector_config(Flow("B", "A"), "MirrorSourceConnector")["enabled"] == "${env:MIRROR_BACK}"


def test_flows_of_unknown_clusters_are_reported() -> None:
    settings = MirrorSettings.of({**_TWO, "A->C.enabled": "true", "D->B.topics": "x", "A->B.enabled": "true"})
    assert MirrorSettings.of({"clusters": "a.b,c", "a.b->c.enabled": "true"}).strangers() == []
    assert settings.strangers() == ["A->C.enabled", "D->B.topics"]


def test_our_workers_have_rest_of_their_own_and_our_settings() -> None:
    given = {
        **_TWO,
        "A->B.enabled": "true",
        "spark.master": "local[2]",
        "kconnect.slots": "2",
        "B.listeners": "http://:1",
        "B.rest.advertised.port": "1",
        "B.plugin.path": "/plugins",
    }
    settings = MirrorSettings.of(given)
    made = settings.our_worker_config(Flow("A", "B"))
    assert made["listeners"] == "http://127.0.0.1:0"
    assert made["connector.client.config.override.policy"] == "All"
    assert (made["spark.master"], made["kconnect.slots"], made["plugin.path"]) == ("local[2]", "2", "/plugins")
    assert "rest.advertised.port" not in made
    assert settings.our_worker_config(Flow("B", "A"))["kconnect.slots"] == "1", "it only has heartbeats"


def test_with_internal_rest_each_flow_has_the_next_port() -> None:
    given = {**_TWO, "A->B.enabled": "true", "dedicated.mode.enable.internal.rest": "true"}
    reported = {"listeners": "http://0.0.0.0:7000, https://:7100", "rest.advertised.host.name": "east-1"}
    for more, wanted in ((reported, "http://0.0.0.0:7001,https://:7101"), ({}, "http://:8084")):
        made = MirrorSettings.of({**given, **more}).our_worker_config(Flow("B", "A"))
        assert made["listeners"] == wanted
        assert made.get("rest.advertised.host.name") == more.get("rest.advertised.host.name")
        assert made["kconnect.rest.namespace"] == "/B/A"


def test_the_path_of_a_flow_is_javas() -> None:
    assert Flow("us east", "a/b+c").namespace == "/us%20east/a%2Fb%2Bc"


def test_secrets_are_not_in_the_text_of_settings() -> None:
    assert "hush" not in repr(MirrorSettings.of({**_TWO, "A.ssl.key.password": "hush"}))


@pytest.mark.parametrize(
    ("wrote", "meant"),
    [
        ("A->B.topcs", "A->B.topics"),
        ("A->B.enable", "A->B.enabled"),
        ("refresh.topic.interval.seconds", "refresh.topics.interval.seconds"),
        ("A.bootstap.servers", "A.bootstrap.servers"),
        ("B.security.protcol", "B.security.protocol"),
        ("B.exactly.once.source.suport", "B.exactly.once.source.support"),
        ("dedicated.mode.enable.internal.rst", "dedicated.mode.enable.internal.rest"),
        ("kconnect.slot", "kconnect.slots"),
    ],
)
def test_a_setting_that_is_almost_right_is_reported(wrote: str, meant: str) -> None:
    assert MirrorSettings.of({**_TWO, wrote: "x"}).misspelt() == {wrote: meant}


def test_settings_that_others_read_are_not_doubted() -> None:
    given = {
        **_TWO,
        "A->B.transforms": "route",
        "A->B.transforms.route.topc": "x",
        "A.consumer.max.poll.record": "1",
        "A->B.source.consumer.fetch.min.byte": "1",
        "A.metadata.max.age.ms": "1",
        "A.request.timeout.ms": "1",
        "something.else": "1",
        "A->B.add.source.alias.to.metrics": "true",
    }
    assert MirrorSettings.of(given).misspelt() == {}


def test_a_missing_setting_that_is_only_misspelt_is_named() -> None:
    for given, hint in (
        ({"cluster": "A, B"}, "Unknown setting: cluster. Did you mean clusters?"),
        ({"Clusters": "A, B"}, "Unknown setting: Clusters. Did you mean clusters?"),
        ({"x": "y"}, "Add it, such as: clusters = primary, backup"),
        (
            {**_TWO, "clusters": "A,C", "C.bootstrap.server": "c:9092"},
            "Unknown setting: C.bootstrap.server. Did you mean C.bootstrap.servers?",
        ),
        ({**_TWO, "clusters": "A,C"}, "Add it, such as: C.bootstrap.servers = host:9092"),
    ):
        with pytest.raises(ConfigError) as reported:
            MirrorSettings.of(given).flows()
        assert reported.value.hint == hint


def test_brokers_of_unknown_clusters_are_reported() -> None:
    assert MirrorSettings.of({**_TWO, "C.bootstrap.servers": "c:9092"}).strangers() == ["C.bootstrap.servers"]

"""What a connector's answers about exactly once make of its config, beside Java's words."""

from __future__ import annotations

from typing import Any

import pytest

from kconnect.api import ConnectorTransactionBoundaries, ExactlyOnceSupport
from kconnect.api.config_key import ConfigValue
from kconnect.errors import ConfigError
from kconnect.runtime.config.exactly_once_settings import (
    exactly_once_producer,
    is_exactly_once,
    offsets_topic,
    owns_offsets_topic,
    task_transactional_id,
)
from kconnect.runtime.herder.validation.connector_checks import check_exactly_once
from kit.numbered_source import NumberedSource

CLUSTER = {"group.id": "g", "offset.storage.topic": "offsets", "bootstrap.servers": "a:1,b:2"}
ENABLED = {**CLUSTER, "exactly.once.source.support": "enabled"}


class Answering(NumberedSource):
    def __init__(self, support: Any = None, boundaries: Any = None) -> None:
        self._support, self._boundaries = support, boundaries

    def exactly_once_support(self, config: Any) -> Any:
        return self._given(self._support)

    def can_define_transaction_boundaries(self, config: Any) -> Any:
        return self._given(self._boundaries)

    def _given(self, answer: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer


def errors(
    connector: Answering, *, support: str = "requested", boundary: str = "poll", is_on: bool = True
) -> list[str]:
    values = {
        "exactly.once.support": ConfigValue("exactly.once.support", support),
        "transaction.boundary": ConfigValue("transaction.boundary", boundary),
    }
    check_exactly_once(connector, {}, values, is_on=is_on)
    return [message for value in values.values() for message in value.error_messages]


def test_a_connector_that_supports_it_may_require_it_where_it_is_on() -> None:
    assert errors(Answering(ExactlyOnceSupport.SUPPORTED), support="required") == []
    found = errors(Answering(ExactlyOnceSupport.SUPPORTED), support="REQUIRED", is_on=False)
    assert found == ["This worker does not have exactly-once source support enabled."]


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        (ExactlyOnceSupport.UNSUPPORTED, "does not support exactly-once semantics with the provided configuration"),
        (None, 'reconfiguring the connector to use the value "requested" for this property'),
        ("maybe", "Unexpected value returned from"),
        (ValueError("boom"), "An unexpected error occurred during validation: boom"),
        (ValueError(), "An unexpected error occurred during validation; please see the worker logs"),
    ],
)
def test_what_is_required_must_be_supported(answer: Any, reported: str) -> None:
    [found] = errors(Answering(answer), support="required")
    assert reported in found
    assert errors(Answering(answer), support="requested") == [], "it is not even asked"


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        (ConnectorTransactionBoundaries.UNSUPPORTED, "Please reconfigure it to use a different transaction boundary"),
        (None, "has returned a null value from its canDefineTransactionBoundaries method"),
        (ValueError("boom"), "An unexpected error occurred during validation: boom"),
    ],
)
def test_only_a_connector_that_can_ends_its_own_transactions(answer: Any, reported: str) -> None:
    [found] = errors(Answering(boundaries=answer), boundary="connector")
    assert reported in found
    assert errors(Answering(boundaries=ConnectorTransactionBoundaries.SUPPORTED), boundary="connector") == []


def test_a_value_that_is_wrong_already_is_not_looked_into() -> None:
    values = {name: ConfigValue(name, "nonsense") for name in ("exactly.once.support", "transaction.boundary")}
    for value in values.values():
        value.add_error_message("Invalid value nonsense")
    check_exactly_once(Answering(ValueError("asked"), ValueError("asked")), {}, values, is_on=False)
    assert [value.error_messages for value in values.values()] == [["Invalid value nonsense"]] * 2


def test_exactly_once_is_on_for_clusters_that_enabled_it_only() -> None:
    assert is_exactly_once(ENABLED)
    assert not is_exactly_once({**CLUSTER, "exactly.once.source.support": "preparing"})
    assert not is_exactly_once({"exactly.once.source.support": "enabled"}), "a standalone worker"


def test_a_task_has_its_id_whatever_the_connector_says_and_may_not_leave_the_workers_brokers() -> None:
    given = {"producer.override.transactional.id": "mine", "producer.override.enable.idempotence": "false"}
    settings, warnings = exactly_once_producer(ENABLED, given, name="orders", task=3)
    assert settings["transactional.id"] == task_transactional_id(ENABLED, "orders", 3) == "g-orders-3"
    assert settings["enable.idempotence"] == "true"
    assert [text.split("'")[3] for text in warnings] == ["enable.idempotence", "transactional.id"]
    exactly_once_producer(ENABLED, {"producer.override.bootstrap.servers": "b:2, a:1"}, name="orders", task=3)
    with pytest.raises(ConfigError, match="cannot deliver exactly once to other brokers"):
        exactly_once_producer(ENABLED, {"producer.override.bootstrap.servers": "c:3"}, name="orders", task=3)


def test_offsets_are_in_the_connectors_topic_if_it_has_one() -> None:
    assert offsets_topic(ENABLED, {}) == "offsets"
    assert offsets_topic(ENABLED, {"offsets.storage.topic": "mine"}) == "mine"
    assert owns_offsets_topic(ENABLED, {"offsets.storage.topic": "mine"})
    assert not owns_offsets_topic(ENABLED, {"offsets.storage.topic": "offsets"})

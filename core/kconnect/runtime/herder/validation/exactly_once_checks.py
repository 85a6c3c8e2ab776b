"""Exactly-once checks of a source connector before a cluster's worker stores its config (KIP-618).

Source: DistributedHerder#validateSourceConnectorExactlyOnceSupport, #validateSourceConnectorTransactionBoundary
(Kafka 4.3), with Java's messages.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from kconnect.api import ConnectorTransactionBoundaries, ExactlyOnceSupport, SourceConnector
from kconnect.api.config_key import ConfigValue

log = logging.getLogger(__name__)

_SUPPORT, _BOUNDARY = "exactly.once.support", "transaction.boundary"


def check_exactly_once(
    connector: SourceConnector, props: Mapping[str, str], values: Mapping[str, ConfigValue], *, is_on: bool
) -> None:
    """Add errors to the two settings. `is_on`: the worker has exactly-once support. May block: it calls the plugin."""
    support, boundary = values[_SUPPORT], values[_BOUNDARY]
    if not support.error_messages and _text(support) == "required":
        if not is_on:
            support.add_error_message("This worker does not have exactly-once source support enabled.")
        _add_problem(
            support, "connector support for exactly-once semantics", lambda: _support_problem(connector, props)
        )
    if not boundary.error_messages and _text(boundary) == "connector":
        _add_problem(
            boundary,
            "connector support for defining its own transaction boundaries",
            lambda: _boundary_problem(connector, props),
        )


def _text(value: ConfigValue) -> str:
    return str(value.value).strip().lower()


def _add_problem(value: ConfigValue, about: str, problem_of: Callable[[], str | None]) -> None:
    try:
        problem = problem_of()
    except Exception as error:  # a plugin call
        log.exception("Failed while validating %s", about)
        reason = str(error).strip()
        problem = "An unexpected error occurred during validation"
        problem += f": {reason}" if reason else "; please see the worker logs for more details."
    if problem is not None:
        value.add_error_message(problem)


def _support_problem(connector: SourceConnector, props: Mapping[str, str]) -> str | None:
    match connector.exactly_once_support(props):
        case ExactlyOnceSupport.SUPPORTED:
            return None
        case ExactlyOnceSupport.UNSUPPORTED:
            return "The connector does not support exactly-once semantics with the provided configuration."
        case None:
            return (
                "The connector does not implement the API required for preflight validation of exactly-once source "
                "support. Please consult the documentation for the connector to determine whether it supports "
                'exactly-once semantics, and then consider reconfiguring the connector to use the value "requested" '
                "for this property (which will disable this preflight check and allow the connector to be created)."
            )
        case other:
            raise TypeError(f"Unexpected value returned from SourceConnector.exactly_once_support: {other}")


def _boundary_problem(connector: SourceConnector, props: Mapping[str, str]) -> str | None:
    given: object = connector.can_define_transaction_boundaries(props)
    if given is None:
        return (
            "This connector has returned a null value from its canDefineTransactionBoundaries method, which is not "
            "permitted. The connector will be treated as if it cannot define its own transaction boundaries, and "
            "cannot be configured with 'transaction.boundary' set to 'connector'."
        )
    if given is not ConnectorTransactionBoundaries.SUPPORTED:
        return (
            "The connector does not support connector-defined transaction boundaries with the given configuration. "
            "Please reconfigure it to use a different transaction boundary definition."
        )
    return None

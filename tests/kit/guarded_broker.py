"""Brokers that do not let everybody do everything, and their rules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported there
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kconnect.devbroker import DevBroker
from kit.brokers import PatientBroker
from kit.ports import free_port
from kit.waiting import eventually

# What makes a broker look at its rules at all
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@contextmanager
def guarded_broker(folder: Path, user: str, password: str) -> Iterator[tuple[DevBroker, int]]:
    """A broker where all may do all, but who logs in as `user`, at the port given with it, only what he is granted."""
    port, listener = free_port(), "listener.name.sasl_plaintext."
    settings = {
        **AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        f"{listener}sasl.enabled.mechanisms": "PLAIN",
        f"{listener}plain.sasl.jaas.config": f'{_PLAIN} required user_{user}="{password}";',
    }
    with PatientBroker(free_port(), folder, settings=settings, listeners={"SASL_PLAINTEXT": port}) as broker:
        yield broker, port


def add_rules(
    bootstrap: str,
    kind: ResourceType,
    name: str,
    principal: str,
    *operations: AclOperation,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> None:
    """Allow, or deny, a principal these operations on one resource; they hold when it returns."""
    literal = ResourcePatternType.LITERAL
    rules = [AclBinding(kind, name, literal, principal, "*", operation, permission) for operation in operations]
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})  # must live until the answer is there
    for done in admin.create_acls(rules).values():
        done.result(60)
    # The controller has answered; the broker judges by its own copy, and tells what is in that
    whose = AclBindingFilter(kind, name, literal, principal, None, AclOperation.ANY, AclPermissionType.ANY)
    eventually(lambda: set(rules) <= set(admin.describe_acls(whose).result(60)), 60, f"the broker knows {rules}")

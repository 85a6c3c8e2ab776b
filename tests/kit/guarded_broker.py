"""Users whom the shared broker lets do only what they are granted, and rules for them."""

from __future__ import annotations

from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported there
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from kit.waiting import eventually

# What makes a broker look at its rules at all
AUTHORIZER = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


_USERS = ("checker", "editor", "keeper", "newcomer", "reader")
"""One for each file that grants something: rules stay, and users of others have none of them."""


def guarded_listener() -> dict[str, str]:
    """A broker's settings of the listener SASL_PLAINTEXT, where the users log in."""
    users = " ".join(f'user_{user}="{password_of(user)}"' for user in _USERS)
    return {
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_PLAIN} required {users};",
    }


def password_of(user: str) -> str:
    return f"s3cret-of-{user}"


def login_of(user: str, password: str | None = None) -> dict[str, str]:
    """Settings of a Java client, and of ours."""
    entry = f'{_PLAIN} required username="{user}" password="{password or password_of(user)}";'
    return {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": entry}


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

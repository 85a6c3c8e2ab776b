"""The broker that all tests of a process share: each kind of listener, and rules for those who are no super users.

Who comes without a login may do everything; so may the user `orders` (kit.secure_broker), who shows a certificate of
its authority, and the token `worker`. The users of kit.guarded_broker may do only what they are granted.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from kit.brokers import PatientBroker
from kit.guarded_broker import AUTHORIZER, guarded_listener
from kit.pace import ample_s
from kit.ports import free_port
from kit.secure_broker import USER, Authority, SecureBroker, add_user, sasl_listener, store_settings

__all__ = ["SharedBroker"]

_SUPER_USERS: Final = ("ANONYMOUS", USER, "worker", "certified")
_SECURED: Final = {"SASL_SSL": "SASL_SSL", "SSL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT", "BRIEF": "SASL_SSL"}
_REAUTHENTICATION_MS: Final = 1500


class SharedBroker(PatientBroker):
    """`bootstrap` is where who has no login is served, `guarded` where the users of kit.guarded_broker are."""

    def __init__(self, folder: Path) -> None:
        self._ports = {listener: free_port() for listener in _SECURED}
        self._place = folder
        self._authority = Authority()
        protocols = {"PLAINTEXT": "PLAINTEXT", **_SECURED, "CONTROLLER": "PLAINTEXT"}
        settings = {
            **store_settings(folder, self._authority.issue("broker"), self._authority),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^.*$/certified/",
            **sasl_listener("sasl_ssl"),
            **sasl_listener("brief"),
            "listener.name.brief.connections.max.reauth.ms": str(_REAUTHENTICATION_MS),
            **guarded_listener(),
            **AUTHORIZER,
            "super.users": ";".join(f"User:{name}" for name in _SUPER_USERS),
        }
        super().__init__(free_port(), folder / "data", settings=settings, listeners=self._ports)

    @property
    def guarded(self) -> str:
        return self._at("SASL_PLAINTEXT")

    @cached_property
    def secure(self) -> SecureBroker:
        """Its secured listeners; the user is there from the first look on."""
        add_user(self.bootstrap, self._at("SASL_SSL"))
        return SecureBroker(
            self.bootstrap, self._at("SASL_SSL"), self._at("SSL"), self._authority, self._place, self._at("BRIEF")
        )

    def forget_groups(self) -> None:
        """Delete the consumer groups without a member, with their offsets."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        listed = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result(timeout=ample_s(30))
        if empty := [group.group_id for group in listed.valid]:
            for group, deleted in admin.delete_consumer_groups(empty).items():
                try:
                    deleted.result(timeout=ample_s(30))
                except KafkaException as err:
                    if err.args[0].name() not in {"GROUP_ID_NOT_FOUND", "NON_EMPTY_GROUP"}:
                        raise AssertionError(f"group {group}: {err}") from err

    def _at(self, listener: str) -> str:
        return f"127.0.0.1:{self._ports[listener]}"

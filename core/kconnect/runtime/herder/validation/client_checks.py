"""ClientChecks: the Kafka clients that a connector's tasks will have, translated and built as they will be.

Built, not connected: librdkafka refuses more than a table can say, and a client that knows no broker takes 1 ms.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kconnect.api import (
    ClientType,
    ConnectorClientConfigOverridePolicy,
    ConnectorClientConfigRequest,
    ConnectorType,
)
from kconnect.api.config_key import ConfigValue
from kconnect.api.config_parse import parse_type
from kconnect.errors import ConfigError, ConfigProblem, ConnectError
from kconnect.logs.log_context import mask
from kconnect.runtime.config.addresses import parse_servers
from kconnect.runtime.config.client_config import ClientSettings, admin_config, consumer_config, producer_config
from kconnect.runtime.config.client_tables import ClientKind, client_table
from kconnect.runtime.config.exactly_once_settings import exactly_once_producer, is_distributed, is_exactly_once
from kconnect.runtime.config.kerberos import GSSAPI, OTHER_MECHANISMS, missing_mechanism, wants_kerberos
from kconnect.runtime.herder.validation.config_infos import ConfigInfos, prefixed
from kconnect.runtime.herder.validation.override_policies import refused_overrides
from kconnect.runtime.herder.validation.plugin_keys import PluginFinder

_OWN_OFFSETS: Final = "offsets.storage.topic"
_DLQ: Final = "errors.deadletterqueue.topic.name"
_PROTOCOL: Final = "group.protocol"


def installed_has_kerberos() -> bool:
    """Whether clients can log in by GSSAPI."""
    from kconnect.runtime.kafka.clients import has_kerberos  # here: it loads when a connector wants Kerberos

    return has_kerberos()


@dataclass(frozen=True, slots=True)
class ClientChecks:
    """Checks the clients of one connector against the settings of one worker.

    Differs: what a client refuses is an error of validation; in Java the tasks fail.
    """

    plugins: PluginFinder
    worker: Mapping[str, str]
    policy: ConnectorClientConfigOverridePolicy | None
    has_kerberos: Callable[[], bool]

    def infos(self, props: Mapping[str, str], is_source: bool) -> list[ConfigInfos]:
        """The connector's overrides with their errors, for each client that it will have."""
        has_dlq = bool((props.get(_DLQ) or "").strip())
        # As in Java a worker of a cluster reads offsets with clients of the connector's, where it has a topic for them
        has_offsets = is_source and is_distributed(self.worker)
        has_offsets = has_offsets and (is_exactly_once(self.worker) or bool(props.get(_OWN_OFFSETS, "").strip()))
        uses_creation = any(key.startswith("topic.creation.") for key in props)
        used: dict[ClientKind, bool] = {
            "producer": is_source or has_dlq,
            "consumer": not is_source or has_offsets,
            "admin": uses_creation or has_offsets or has_dlq if is_source else has_dlq,
        }
        kind = ConnectorType.SOURCE if is_source else ConnectorType.SINK
        return [self._overrides(props, client, kind) for client, is_used in used.items() if is_used]

    def _overrides(self, props: Mapping[str, str], client: ClientKind, kind: ConnectorType) -> ConfigInfos:
        """Each override of one client with its row of Java's table, its parsed value and its errors."""
        prefix, table, values = f"{client}.override.", client_table(client).config_keys, []
        given = {key.removeprefix(prefix): text for key, text in props.items() if key.startswith(prefix)}
        by_policy = self._refused_by_policy(props, given, client, kind)
        for name, text in given.items():
            value = ConfigValue(name, mask({prefix + name: text})[prefix + name])
            refused = by_policy.get(name) or self._untranslatable(client, name, given)
            if name == "sasl.mechanism" and refused is None and wants_kerberos(self.worker, props, client):
                refused = None if self.has_kerberos() else _kerberos_refused()
            try:
                if name in table and value.value == text:
                    value.value = parse_type(name, text, table[name].type)
            except ConfigError as err:
                refused = refused or str(err)
            if refused is not None:
                value.add_error_message(refused)
            values.append(value)
        values += [
            ConfigValue(name, None, error_messages=[why]) for name, why in by_policy.items() if name not in given
        ]
        found = prefixed(prefix, table, values)
        return found if found.error_count else self._built(props, client, kind, found)

    def _built(
        self, props: Mapping[str, str], client: ClientKind, kind: ConnectorType, infos: ConfigInfos
    ) -> ConfigInfos:
        """The same rows, with an error if the whole client cannot be built."""
        if not any(key.startswith(f"{client}.") for key in (*props, *self.worker)):
            return infos  # our own defaults, which fit each other
        try:
            settings, _ = self._settings(props, client, kind)
            if settings.get("sasl.mechanism") != GSSAPI:  # building it would log in
                _build(client, settings)
        except ConnectError as err:
            problem = err.problems[0] if isinstance(err, ConfigError) and err.problems else None
            message = problem.message if problem is not None else str(err)
            override = f"{client}.override."
            places = {override: props, f"{client}.": self.worker}
            own = next((key for key in props if key.startswith(override)), client)
            key = _setting_of(problem, message, places) or own
            rows = {info.value.name: info.value for info in infos.configs if info.value is not None}
            rows.setdefault(key, ConfigValue(key)).add_error_message(message)
            return prefixed("", {info.key.name: info.key for info in infos.configs if info.key}, list(rows.values()))
        return infos

    def _settings(self, props: Mapping[str, str], client: ClientKind, kind: ConnectorType) -> ClientSettings:
        """Makes the settings as the tasks will make them."""
        name = props.get("name", "")
        if client == "consumer":
            return consumer_config(self.worker, props, client_id="check", group_id=f"connect-{name}")
        if client == "admin":
            return admin_config(self.worker, props, client_id="check")
        if kind is ConnectorType.SOURCE and is_exactly_once(self.worker):
            return exactly_once_producer(self.worker, props, name=name, task=0)
        return producer_config(self.worker, props, client_id="check")

    def _untranslatable(self, client: ClientKind, name: str, given: Mapping[str, str]) -> str | None:
        """Why a client would refuse the value by itself; None if it would not."""
        override = f"{client}.override."
        try:
            if name == "bootstrap.servers":
                parse_servers(given[name], override + name)
            elif client == "consumer":
                # What else is allowed depends on the protocol
                protocol = {override + _PROTOCOL: given[_PROTOCOL]} if _PROTOCOL in given else {}
                of_worker = {key: value for key, value in self.worker.items() if key == f"consumer.{_PROTOCOL}"}
                alone = {override + name: given[name], **protocol}
                consumer_config(of_worker, alone, client_id="", group_id="")
            else:
                producer_config({}, {f"producer.override.{name}": given[name]}, client_id="")
        except ConnectError as err:
            return str(err)
        return None

    def _refused_by_policy(
        self, props: Mapping[str, str], given: Mapping[str, str], client: ClientKind, kind: ConnectorType
    ) -> Mapping[str, str]:
        """Why the worker's policy refuses overrides, by their names without prefix."""
        request = ConnectorClientConfigRequest(
            props.get("name", ""),
            kind,
            self.plugins.connector_class(props["connector.class"], props.get("connector.plugin.version")),
            given,
            ClientType(client),
        )
        return refused_overrides(self.policy, self.worker, request)


def worker_client_problems(worker: Mapping[str, str]) -> list[tuple[str, str]]:
    """Settings by which a worker's tasks would get no client, whatever the connector: each with why."""
    found = []
    kinds: Mapping[ClientKind, Callable[[], ClientSettings]] = {
        "producer": lambda: producer_config(worker, {}, client_id="check"),
        "consumer": lambda: consumer_config(worker, {}, client_id="check", group_id="check"),
        "admin": lambda: admin_config(worker, {}, client_id="check"),
    }
    for kind, made in kinds.items():
        if not any(key.startswith(f"{kind}.") for key in worker):
            continue  # our own defaults, which fit each other
        try:
            settings, _ = made()
            if settings.get("sasl.mechanism") != GSSAPI:  # building it would log in
                _build(kind, settings)
        except ConnectError as err:
            problem = err.problems[0] if isinstance(err, ConfigError) and err.problems else None
            message = problem.message if problem is not None else str(err)
            found.append((_setting_of(problem, message, {f"{kind}.": worker}) or f"{kind}.*", message))
    return found


def _setting_of(problem: ConfigProblem | None, message: str, places: Mapping[str, Mapping[str, str]]) -> str | None:
    """The setting under one of these prefixes that a client's refusal is of."""
    if problem is not None and any(problem.key in settings for settings in places.values()):
        return problem.key
    for prefix, settings in places.items():
        for key in settings:
            name = re.escape(key.removeprefix(prefix))
            if key.startswith(prefix) and re.search(rf"(?<![\w.-]){name}(?![\w-]|\.\w)", message):
                return key
    return None


def _build(client: ClientKind, settings: Mapping[str, Any]) -> None:
    from kconnect.runtime.kafka.clients import build_and_end  # here: connectors of most tests have no client

    build_and_end(client, settings)


def _kerberos_refused() -> str:
    why = missing_mechanism(GSSAPI)
    return f"{why[0].upper()}{why[1:]}. {OTHER_MECHANISMS}"

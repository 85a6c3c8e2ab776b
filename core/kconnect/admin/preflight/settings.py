"""The worker's settings as a start reads them, and the connectors that it will be given as files.

References are resolved, values checked, names known and classes found; of connectors also topics, and folders of
plugins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kconnect.admin.preflight.brokers import ClientIdentity
from kconnect.admin.preflight.probe import Probe
from kconnect.admin.preflight.results import Result, Verdict
from kconnect.admin.preflight.start_problems import settings_problems
from kconnect.admin.preflight.topics import connector_topic_results
from kconnect.errors import ConnectError
from kconnect.logs import redaction
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.config.misspelt import misspelt_settings
from kconnect.runtime.config.removed_settings import removed_of_worker
from kconnect.runtime.config.rights import client_of_java
from kconnect.runtime.config.variables import has_reference, secret_values
from kconnect.runtime.config.worker_config import (
    DISTRIBUTED_CONFIG,
    KCONNECT_CONFIG,
    STANDALONE_CONFIG,
    DistributedConfig,
    StandaloneConfig,
    WorkerConfig,
)
from kconnect.runtime.herder.validation.client_checks import worker_client_problems
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator, InvalidConnectorError
from kconnect.runtime.herder.validation.override_policies import load_policy
from kconnect.runtime.kafka.topic_facts import TopicLook
from kconnect.runtime.plugins import PluginRegistry, worker_variables
from kconnect.runtime.plugins.isolation import PluginFolders

if TYPE_CHECKING:
    from kconnect.runtime.config import ConnectorFile


@dataclass(slots=True)
class WorkerStart:
    """A worker before its start, and what its settings say.

    Threads: `read` fills it on one; after that it is only read.
    """

    properties: Mapping[str, str] = field(repr=False)
    """Secrets live here. `read` puts values in place of references."""
    source: str
    """Where they come from: a file, or the environment."""
    config: WorkerConfig | None = None
    """It is None while they have not been read, or cannot be."""
    plugins: PluginRegistry | None = None

    @property
    def is_distributed(self) -> bool:
        """Java has a command for each kind; a file says it by what it sets."""
        return "group.id" in self.properties or "offset.storage.file.filename" not in self.properties

    @property
    def kind(self) -> str:
        return "distributed" if self.is_distributed else "standalone"

    def read(self, _within_s: float) -> Iterator[Result]:
        """Resolve, parse, look up classes. Results as a probe gives them; errors become results."""
        self.plugins = PluginRegistry.load(self.properties.get("plugin.path"), tells_skipped=False)
        yield from self._resolve()
        yield from self._parse(self.plugins)
        yield from self._unknown()
        yield from self._problems()
        yield from self._clients()

    def _resolve(self) -> Iterator[Result]:
        named = self.properties.get("config.providers", "").strip()
        if not named:
            unresolved = [key for key, value in self.properties.items() if has_reference(value)]
            redaction.remember("worker", secret_values(self.properties))
            if unresolved:
                yield self._result(
                    Verdict.WARNING,
                    f"config.providers is not set: {', '.join(unresolved)} keep their ${{..}} as text",
                    "Name the provider in config.providers, with its class in config.providers.NAME.class.",
                )
            return
        try:
            variables = worker_variables(self.properties, self.plugins)
            try:
                resolved = variables.resolve(self.properties, "the worker")
            finally:
                variables.close()
        except ConnectError as err:
            redaction.remember("worker", secret_values(self.properties))
            yield self._result(Verdict.FAILED, str(err).rstrip("."), err.hint, check="config providers")
            return
        redaction.remember("worker", {*secret_values(resolved.values), *resolved.references})
        self.properties = dict(resolved.values)
        count = len(resolved.references)
        yield self._result(
            Verdict.OK, f"{named}: {'all' if count else 'no'} references resolved", check="config providers"
        )

    def _parse(self, plugins: PluginRegistry) -> Iterator[Result]:
        try:
            parse = DistributedConfig.parse if self.is_distributed else StandaloneConfig.parse
            self.config = parse(self.properties, plugins.any_converter)
            policy = load_policy(plugins, self.config.originals)
        except ConnectError as err:
            yield self._result(Verdict.FAILED, str(err).rstrip("."), err.hint or f"Correct it in {self.source}.")
            return
        if policy is not None:
            policy.close()
        yield self._result(Verdict.OK, f"{pluralize(len(self.properties), 'setting')} of a {self.kind} worker")

    def _unknown(self) -> Iterator[Result]:
        if self.config is None:
            return
        unknown = self.config.unknown_keys()
        table = DISTRIBUTED_CONFIG if self.is_distributed else STANDALONE_CONFIG
        meant = misspelt_settings(unknown, [*table.names(), *KCONNECT_CONFIG.names()])
        for key in unknown:
            removed = removed_of_worker(key)
            if removed is not None:
                yield self._result(Verdict.WARNING, f"{key} has no effect: Kafka has removed it", removed)
                continue
            hint = f"Did you mean {meant[key]}?" if key in meant else f"Remove it from {self.source}."
            yield self._result(Verdict.WARNING, f"Unknown setting: {key}", hint)

    def _clients(self) -> Iterator[Result]:
        """Builds the clients of tasks, without connecting them: librdkafka refuses more than a table can say."""
        if self.config is None:
            return
        for key, message in worker_client_problems(self.config.originals):
            yield self._result(Verdict.FAILED, f"{key}: {message}", f"Correct it in {self.source}.")

    def _problems(self) -> Iterator[Result]:
        for err in () if self.config is None else settings_problems(self.config):
            yield self._result(Verdict.FAILED, str(err).rstrip("."), err.hint or f"Correct it in {self.source}.")

    def _result(self, verdict: Verdict, message: str, hint: str | None = None, check: str = "settings") -> Result:
        return Result(check=check, verdict=verdict, where=self.source, message=message, hint=hint)


Need = tuple[str, str, str]
"""Connector, topic, READ or WRITE."""


def plugin_path_probe(start: WorkerStart) -> list[Probe]:
    """The folders of plugin.path."""
    given = start.properties.get("plugin.path", "")
    return [Probe("plugin path", given, partial(_plugin_path, given))] if given.strip() else []


def _plugin_path(given: str, _within_s: float) -> Iterator[Result]:

    for element in (Path(part.strip()).expanduser() for part in given.split(",") if part.strip()):

        def result(verdict: Verdict, message: str, hint: str | None = None, element: Path = element) -> Result:
            return Result(check="plugin path", verdict=verdict, where=str(element), message=message, hint=hint)

        if not element.is_dir():
            yield result(Verdict.WARNING, "is not a folder, and is skipped", "Create it, or correct plugin.path.")
            continue
        found = PluginFolders.read(str(element), tells_skipped=False)
        found.open()
        for conflict in found.conflicts:
            yield result(Verdict.WARNING, conflict, "Rename one of them, or install the plugin with pip.")
        yield result(Verdict.OK, f"{pluralize(len(found.roots), 'plugin')} of Python")


def connector_probes(
    start: WorkerStart, files: Sequence[ConnectorFile], identities: Sequence[ClientIdentity]
) -> list[Probe]:
    """One for each connector's config, and one for each identity that reads or writes their topics."""
    probes = [Probe("connector", str(file.path), partial(_config, start, file), slow=_SLOW) for file in files]
    for client, operation in (("consumer", "READ"), ("producer", "WRITE")):
        needs = [need for file in files for need in needed_topics(file) if need[2] == operation]
        identity = next((one for one in identities if client in one.names), None)
        if needs and identity is not None:
            probes.append(Probe("topic", "topics of connectors", partial(_topics, needs, identity), identity.title))
    return probes


_SLOW = "Does what its settings name answer, such as the database of connection.url?"


def needed_topics(file: ConnectorFile) -> Iterator[Need]:
    """The topics that a config names: those a sink reads, its dead letter queue, that of the sources that have one.

    Connectors with overrides of security are left out: they have a principal of their own.
    """
    config = file.config
    if file.has_own_security:
        return
    for topic in (part.strip() for part in config.get("topics", "").split(",")):
        if topic:
            yield file.name, topic, "READ"
    for key in ("errors.deadletterqueue.topic.name", "topic"):
        if config.get(key, "").strip():
            yield file.name, config[key].strip(), "WRITE"


def _config(start: WorkerStart, file: ConnectorFile, _within_s: float) -> Iterator[Result]:
    def result(verdict: Verdict, message: str, hint: str | None = None) -> Result:
        return Result(check="connector", verdict=verdict, where=str(file.path), message=message, hint=hint)

    if start.config is None or start.plugins is None:
        yield result(Verdict.UNKNOWN, "the worker's own settings must be right first")
        return
    from kconnect.runtime.plugins import worker_variables  # here: most commands and tasks need no plugins for it

    variables = worker_variables(start.properties, start.plugins)
    policy = load_policy(start.plugins, start.config.originals)
    try:
        ConnectorValidator(start.plugins, start.config.originals, variables, policy=policy).raise_if_invalid(
            file.config
        )
    except InvalidConnectorError as err:
        for problem in err.problems:
            yield result(Verdict.FAILED, f"{problem.key}: {problem.message}", err.hint or f"Correct {problem.key}.")
        return
    except ConnectError as err:
        yield result(Verdict.FAILED, str(err).rstrip("."), err.hint)
        return
    finally:
        variables.close()
        if policy is not None:
            policy.close()
    yield result(Verdict.OK, f"connector {file.name}: {file.config.get('connector.class')}")


def _topics(needs: Sequence[Need], identity: ClientIdentity, within_s: float) -> Iterator[Result]:

    client = TopicLook(internal_clients(identity.java, client_id="connect-check").admin, within_s * 0.9)
    facts = client.facts({topic for _, topic, _ in needs})
    yield from connector_topic_results(needs, facts, client_of_java(identity.java))

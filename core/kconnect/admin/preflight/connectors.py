"""Connectors that the worker will be given as files: their configs, classes and topics, and folders of plugins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kconnect.admin.preflight.brokers import ClientIdentity
from kconnect.admin.preflight.probe import Probe
from kconnect.admin.preflight.results import Result, Verdict
from kconnect.admin.preflight.settings import WorkerStart
from kconnect.admin.preflight.topics import connector_topic_results
from kconnect.errors import ConnectError
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.client_config import internal_clients
from kconnect.runtime.config.rights import client_of_java
from kconnect.runtime.herder.validation.connector_checks import ConnectorValidator, InvalidConnectorError
from kconnect.runtime.herder.validation.override_policies import load_policy
from kconnect.runtime.kafka.topic_facts import TopicLook
from kconnect.runtime.plugins.isolation import PluginFolders

if TYPE_CHECKING:
    from kconnect.runtime.config import ConnectorFile

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
    if any(".override.s" in key for key in config):  # ssl, sasl, security
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

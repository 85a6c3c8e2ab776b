"""The worker's settings as a start reads them: references resolved, values checked, names known, classes found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kconnect.admin.preflight.results import Result, Verdict
from kconnect.admin.preflight.start_problems import settings_problems
from kconnect.errors import ConnectError
from kconnect.logs import redaction
from kconnect.logs.wording import pluralize
from kconnect.runtime.config.misspelt import misspelt_settings
from kconnect.runtime.config.removed_settings import removed_of_worker
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
from kconnect.runtime.herder.validation.override_policies import load_policy
from kconnect.runtime.plugins import PluginRegistry, worker_variables


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

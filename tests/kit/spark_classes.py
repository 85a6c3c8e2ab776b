"""Spark's own classes without an application: settings, the pod it makes of them, and what Kubernetes would read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kconnect.spark.jvm import FAST_FLAGS, Jvm

__all__ = ["SparkClasses", "spark_classes"]

# Each declares its settings when it is loaded.
_DECLARING = (
    "org.apache.spark.internal.config.package$",
    "org.apache.spark.internal.config.Network$",
    "org.apache.spark.internal.config.Python$",
    "org.apache.spark.internal.config.UI$",
    "org.apache.spark.deploy.k8s.Config$",
    "org.apache.spark.deploy.yarn.config.package$",
)
_READY_S = 120


class SparkClasses:
    """One JVM with the jars of pyspark."""

    def __init__(self, gateway: Any) -> None:
        self._jvm = gateway.jvm
        for name in _DECLARING:
            self._jvm.java.lang.Class.forName(name)
        self._entries = self._jvm.org.apache.spark.internal.config.ConfigEntry

    def has_setting(self, key: str) -> bool:
        """Whether this Spark knows the key."""
        return self._entries.findEntry(key) is not None

    def value(self, key: str, text: str) -> Any:
        """What Spark reads in a value. Errors: py4j's, with Spark's reason, when it cannot."""
        return self._conf({key: text}).get(self._entries.findEntry(key))

    def executor_pod(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """The manifest of an executor, as the driver of an application with these settings would create it."""
        conf = self._conf(settings)
        spark = self._jvm.org.apache.spark
        none = _object(self._jvm.scala, "None")
        auth_file = getattr(spark.SecurityManager, "$lessinit$greater$default$3")()
        # Not used by the steps that these settings need: nothing is asked of it, and nothing answers.
        client = self._jvm.io.fabric8.kubernetes.client.KubernetesClientBuilder().build()
        try:
            made = (
                spark.scheduler.cluster.k8s.KubernetesExecutorBuilder()
                .buildFromFeatures(
                    spark.deploy.k8s.KubernetesExecutorConf(conf, "spark-1", "1", none, 0),
                    spark.SecurityManager(conf, none, auth_file),
                    client,
                    _object(spark.resource, "ResourceProfile").getOrCreateDefaultProfile(conf),
                )
                .pod()
            )
            pod, container = (json.loads(self._json(part)) for part in (made.pod(), made.container()))
        finally:
            client.close()
        pod["spec"]["containers"] = [container]
        return dict(pod)

    def read_manifest(self, manifest: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """What Kubernetes' classes make of a manifest, and the fields in it that they do not have."""
        text = json.dumps(manifest)
        bean = self._jvm.io.fabric8.kubernetes.client.utils.Serialization.unmarshal(text)
        return json.loads(self._json(bean)), list(_unknown_fields(bean, manifest, manifest["kind"]))

    def _json(self, part: Any) -> str:
        return str(self._jvm.io.fabric8.kubernetes.client.utils.Serialization.asJson(part))

    def _conf(self, settings: Mapping[str, str]) -> Any:
        conf = self._jvm.org.apache.spark.SparkConf(False)
        for key, value in settings.items():
            conf.set(key, value)
        return conf


@contextmanager
def spark_classes(folder: Path) -> Iterator[SparkClasses]:
    """The JVM, for as long as the context lasts."""
    jvm = Jvm(folder)
    jvm.start({}, " ".join(FAST_FLAGS), {"SPARK_LOCAL_IP": "127.0.0.1"})
    try:
        gateway = jvm.connect(_READY_S)
        yield SparkClasses(gateway)
        gateway.shutdown()
    finally:
        jvm.stop(5.0)


def _unknown_fields(bean: Any, manifest: Any, path: str) -> Iterator[str]:
    if isinstance(manifest, list):
        for index, item in enumerate(manifest):
            yield from _unknown_fields(bean[index], item, f"{path}[{index}]")
    elif isinstance(manifest, dict) and "fabric8" in str(bean.getClass().getName()):  # others are maps of any keys
        unknown = set(bean.getAdditionalProperties())
        yield from (f"{path}.{name}" for name in sorted(unknown))
        for name in manifest.keys() - unknown:
            value = getattr(bean, f"get{name[0].upper()}{name[1:]}")()
            yield from _unknown_fields(value, manifest[name], f"{path}.{name}")


def _object(package: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")

"""Compiles the Java program that hosts Java's plugins into the wheel, so that an installation needs no compiler."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class JavaProgramHook(BuildHookInterface[Any]):
    """Adds kconnect/java/plugins/host.jar to a wheel; an editable installation compiles it at first need."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Errors: EnvironmentProblemError where there is no Java 17, UnreachableError when Kafka's jars cannot be
        fetched.
        """
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "core"))
        from kconnect.java.installed import find_java
        from kconnect.java.kafka_jars import JarSet
        from kconnect.java.plugins.program import compile_jar

        self._made = tempfile.TemporaryDirectory(prefix="kconnect-build-")
        jar = Path(self._made.name) / "host.jar"
        sources = sorted((Path(self.root) / "java" / "src").rglob("*.java"))
        compile_jar(find_java("building kconnect"), sources, JarSet("connect").fetch(), jar)
        build_data["force_include"][str(jar)] = "kconnect/java/plugins/host.jar"
        build_data["pure_python"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called once the wheel is written."""
        if version != "editable":
            self._made.cleanup()

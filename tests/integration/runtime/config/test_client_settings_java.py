"""core/kconnect/runtime/config/client_settings.json against the classes of kafka-clients themselves.

To write the file anew: KCONNECT_RECORD=1 pytest tests/integration/runtime/config/test_client_settings_java.py
"""

from __future__ import annotations

import os
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from kconnect.java.devbroker import JarSet, find_java
from kit.pace import ample_s
from kit.places import KIT

PROGRAM = KIT / "java_programs/ClientSettings.java"
SETTINGS = Path(str(files("kconnect.runtime.config"))) / "client_settings.json"

pytestmark = pytest.mark.java


def test_the_settings_of_clients_are_those_of_java() -> None:
    java = find_java("Java's client settings")
    jars = os.pathsep.join(str(jar) for jar in JarSet("connect").fetch())
    command = [str(java.executable), "-cp", jars, str(PROGRAM)]

    printed = subprocess.run(command, capture_output=True, text=True, timeout=ample_s(90), check=True).stdout

    if "KCONNECT_RECORD" in os.environ:
        SETTINGS.write_text(printed)
    assert printed == SETTINGS.read_text()
    assert printed.count("\n") > 300

"""The first code of a slot in an executor: it travels by value, and says what the executor lacks."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

import kconnect
from kconnect.spark import entry
from kit.pace import ample_s

ORDER = {"spec": {}, "import_path": [], "version": kconnect.__version__, "needed": entry.NEEDED, "plugins": ()}
LOADED = """
import importlib, sys
from kconnect.spark.preload import MODULES
for name in (*MODULES, "psutil"):  # the last is imported when a slot begins
    importlib.import_module(name)
print(*sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)))
"""


def test_what_is_looked_for_is_what_a_slot_imports():
    reported = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=ample_s(60))
    needed = set(entry.NEEDED)

    assert needed <= set(reported.stdout.split()), reported.stderr
    # cloudpickle: taken by pyarrow where it is installed, needed by none
    own = {"kconnect", "pyspark", "py4j", "cython_runtime", "cloudpickle"}
    others = {name for name in reported.stdout.split() if not name.startswith("_")} - own - needed
    assert not others, f"a slot imports {others} as well: add them to NEEDED"


def test_all_missing_packages_are_named_with_the_host_and_the_interpreter():
    with pytest.raises(RuntimeError, match="no_such_one, no_such_two") as reported:
        entry.enter({**ORDER, "needed": ("json", "no_such_one", "no_such_two")}, [0])

    assert socket.gethostname() in str(reported.value)
    assert sys.executable in str(reported.value)
    assert "\n" not in str(reported.value)


def test_another_version_of_kconnect_is_refused_with_both_versions():
    with pytest.raises(RuntimeError, match=f"it has kconnect {kconnect.__version__} .* the worker has 9.9.9"):
        entry.enter({**ORDER, "version": "9.9.9"}, [0])


def test_importing_the_room_alone_needs_no_package():
    code = "import sys, kconnect.spark.entry; print('orjson' in sys.modules, 'psutil' in sys.modules)"
    reported = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=ample_s(60))

    assert reported.stdout.split() == ["False", "False"], reported.stderr

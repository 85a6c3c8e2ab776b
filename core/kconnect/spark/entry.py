"""What Spark runs in an executor's Python process: checks whether a slot can run here, then becomes one.

Pickled by value into Spark's task, so that it can report what an executor lacks. Until that check has passed it uses
only the standard library and pyspark, and plain values instead of our classes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

NEEDED: Final = ("confluent_kafka", "orjson", "platformdirs", "psutil", "pyarrow")
"""The packages a slot imports, beside pyspark and the standard library; tests/unit/spark/test_entry.py looks."""


def enter(order: Mapping[str, Any], partition: Iterable[Any]) -> None:
    """Run the slot that `order` describes. Errors: RuntimeError, a sentence.

    Shape: `spec` (fields of SlotSpec), `import_path`, `version`, `needed` (packages), `plugins` (folders shipped).
    """
    import importlib.util
    import os
    import socket
    import sys

    for _ in partition:  # Spark wants its one element read
        spec = dict(order["spec"])
        where = f"the executor on {socket.gethostname()} ({sys.executable})"
        sys.path.extend(path for path in order["import_path"] if path not in sys.path and os.path.exists(path))
        missing = [name for name in order["needed"] if importlib.util.find_spec(name) is None]
        if missing:
            raise RuntimeError(
                f"No slot can run in {where}: its Python has no {', '.join(missing)}. "
                "Install what kconnect needs there, or ship an environment with spark.archives and spark.pyspark.python"
            )
        if importlib.util.find_spec("kconnect") is None:
            raise RuntimeError(
                f"No slot can run in {where}: kconnect is not installed there, "
                "and the archive that was shipped is missing"
            )
        import kconnect

        if kconnect.__version__ != order["version"]:
            raise RuntimeError(
                f"No slot can run in {where}: it has kconnect {kconnect.__version__} ({kconnect.__file__}), "
                f"the worker has {order['version']}. Install one version on both"
            )
        if order["plugins"]:
            from pyspark import SparkFiles

            root = SparkFiles.getRootDirectory()
            spec["plugin_path"] = ",".join(os.path.join(root, name) for name in order["plugins"])
        from kconnect.spark.slot import slot_main
        from kconnect.spark.slot_spec import SlotSpec

        slot_main(SlotSpec(**spec))

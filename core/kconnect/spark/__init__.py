"""Where tasks run: slots in a Spark application, and the link between them and their worker.

The only importer of pyspark (and only inside functions, so that importing this package is cheap). Implements
herder.interface.Launcher; slots host tasks with pipeline.TaskHost. Start reading at launcher.py, then slot_pool.py
(worker side of a slot) and slot.py (executor side).
"""

from kconnect.spark.launcher import SparkLauncher
from kconnect.spark.settings import SparkSettings

__all__ = ["SparkLauncher", "SparkSettings"]

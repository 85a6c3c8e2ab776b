"""MirrorMaker 2's dedicated mode: flows between clusters, read from one properties file, each run by a worker.

`settings.py` derives the settings of workers and connectors as Java does, without effects; `flows.py` runs one
worker process a flow, starts what died again, and has a flow's leader create the connectors.
"""

from kconnect.worker.mirror.settings import Flow, MirrorSettings

__all__ = ["Flow", "MirrorSettings"]

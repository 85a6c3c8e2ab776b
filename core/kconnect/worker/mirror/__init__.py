"""MirrorMaker 2's dedicated mode: flows between clusters, read from one properties file, each run by a worker.

`settings.py` derives the settings of workers and connectors as Java does, without effects; `connectors.py` has a
flow's leader create them; `processes.py` runs one worker process a flow, and starts what died again.
Imported by the CLI; imports config and the seams of the herder.
"""

from kconnect.worker.mirror.settings import Flow, MirrorSettings

__all__ = ["Flow", "MirrorSettings"]
